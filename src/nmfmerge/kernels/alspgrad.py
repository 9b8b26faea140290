"""Steps of the projected gradient (Lin 2007)."""

import numpy as np

from nmfmerge.kernels.blocks import kernel


@kernel
def projected_step_(F, gradient, lengths, new, step):
    """Write ``new = max(0, F − lengths·gradient)``, ``step = new − F``; return ⟨gradient, step⟩.

    Each component (row) has its own step length.
    """
    zero = F.dtype.type(0)
    slope = 0.0
    for t in range(F.shape[0]):
        f = F[t]
        g = gradient[t]
        target = new[t]
        difference = step[t]
        length = lengths[t]
        row = 0.0
        for j in range(F.shape[1]):
            value = f[j] - length * g[j]
            value = value if value > zero else zero
            moved = value - f[j]
            target[j] = value
            difference[j] = moved
            row += g[j] * moved
        slope += row
    return slope


@kernel
def projected_norm(F, gradient, weights):
    """Norm of the gradient where F may move against it: F > 0 or gradient < 0.

    The squares of row t count ``weights[t]`` times.
    """
    zero = F.dtype.type(0)
    total = 0.0
    for t in range(F.shape[0]):
        f = F[t]
        g = gradient[t]
        row = 0.0
        for j in range(F.shape[1]):
            free = g[j] if g[j] < zero or f[j] > zero else zero
            row += free * free
        total += weights[t] * row
    return np.sqrt(total)
