"""Coordinate descent for the Kullback–Leibler divergence on short dense lines, a block at a time.

On a line of few entries the sums take less time than the step that follows from them. Therefore the
loops run over the lines of a block, which lie side by side: `kl_sweep` otherwise.
"""

import numpy as np

from nmfmerge.backends.numba.blocks import BLOCK, inlined
from nmfmerge.backends.numba.kl_lines import ACROSS, SPARSE, log_
from nmfmerge.backends.numba.kl_step import pull_at_zero, tangent_step

_SHORT = 320  # entries of a line
_SHORT_GATHERED = 64  # where many of them are zero


@inlined
def is_short(lines, length):
    """True if lines are swept over side by side."""
    return lines.layout != SPARSE and length <= (_SHORT_GATHERED if lines.gathers else _SHORT)


@inlined
def load_panel_(x, lines, start, width, length):
    """Put lines into the columns of x."""
    scale = x.dtype.type(lines.scale)
    n_lines = lines.values.size // length
    for e in range(length):
        for b in range(width):
            if lines.layout == ACROSS:
                x[e, b] = scale * lines.values[e * n_lines + start + b]
            else:
                x[e, b] = scale * lines.values[(start + b) * length + e]


@inlined
def sweep_panel_(F, start, width, A, x, y, S, l2, floor, n_sweeps, free):
    """Move all coordinates of a block of lines to about their minima; y becomes the fit.

    ``S`` (lines or 1, r) are the sums of each line, with the L1 penalty.
    """
    dtype = F.dtype
    zero, one = dtype.type(0), dtype.type(1)
    length = A.shape[1]
    step = np.zeros(BLOCK, dtype)
    psi, eta = np.empty(BLOCK, dtype), np.empty(BLOCK, dtype)
    sums, goal, doubtful = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK, np.bool_)
    for e in range(length):
        fit = y[e]
        for b in range(width):
            fit[b] = zero
        for c in range(len(F)):
            f, v = A[c, e], F[c, start : start + width]
            for b in range(width):
                fit[b] += f * v[b]
    last = A[0]  # beside the coordinates that have moved by ``step``
    for _ in range(n_sweeps):
        for c in range(len(F)):
            if not free[c]:
                continue
            g, v = A[c], F[c, start : start + width]
            for b in range(width):
                psi[b], eta[b] = zero, zero
            for e in range(length):
                add, beside = last[e], g[e]
                fit, data = y[e], x[e]
                for b in range(width):
                    fit[b] += step[b] * add
                    down = one / (fit[b] if fit[b] > floor else floor)
                    part = beside * (data[b] * down)
                    psi[b] += part
                    eta[b] += part * (beside * down)
            for b in range(width):
                sums[b] = S[start + b if len(S) > 1 else 0, c]
            for b in range(width):
                new, least = tangent_step(v[b], psi[b], eta[b], sums[b], l2)
                rests = sums[b] + l2 <= 0 or (v[b] == 0 and psi[b] <= sums[b])
                goal[b] = v[b] if rests else max(new, least)
                doubtful[b] = not rests and least > 0 and new <= 0
            for b in range(width):
                if doubtful[b]:
                    pull = pull_at_zero(v[b], g, x[:, b], y[:, b], length, floor)
                    goal[b] = goal[b] if pull > sums[b] else 0
            for b in range(width):
                new = dtype.type(goal[b])
                step[b] = new - v[b]
                v[b] = new
            last = g
    for e in range(length):
        add, fit = last[e], y[e]
        for b in range(width):
            fit[b] += step[b] * add


@inlined
def panel_x_log_y(x, y, width, length, floor, z, k):
    """Σ x log y of a block of lines."""
    total = 0.0
    for e in range(length):
        data, fit = x[e], y[e]
        for b in range(width):
            z[b] = max(fit[b], floor)
        log_(z, k, width)
        for b in range(width):
            total += data[b] * z[b]
    return total
