"""Nonnegative least squares by projected gradients with Lin's step search (Lin 2007)."""

from typing import NamedTuple

import numpy as np

from nmfmerge.backends.numba.blocks import kernel
from nmfmerge.backends.numba.steps import inner_product

_PARTS = 16  # the columns of a trial step are tried in this many parts,
_LEAST_PART = 256  # each of at least this many columns


class Search(NamedTuple):
    """How the subproblems are solved."""

    beta: float = 0.2  # from a step length to the next shorter one
    sigma: float = 0.01  # of the fall that the slope promises, which a step must bring
    trials: int = 20  # of step lengths, for one step
    iterations: int = 200
    reduction: float = 0.1  # of the norm of the projected gradient, at which to stop


SEARCH = Search()


def descend_(F, G, C, room, active=None):
    """Projected-gradient steps on each start's F, in place, until the norm has come down enough.

    Each subproblem ``min ½⟨F, G F⟩ − ⟨C, F⟩, F ≥ 0`` is solved as if G had a unit diagonal: a step
    of length α is one of α/G_tt on component t. All arrays have a first axis of starts; on a CPU
    all of them are active. ``room`` is a dictionary, empty at first, for what serves again in the
    next call. Returns ``‖new − old‖²`` and ``‖new + old‖²`` of each component.
    """
    norms = [_solve_(*subproblem, room) for subproblem in zip(F, G, C, strict=True)]
    moved, total = zip(*norms, strict=True)
    return np.stack(moved), np.stack(total)


def _solve_(F, G, C, room):
    """Solve the subproblem of one start."""
    if F.shape not in room:
        room[F.shape] = [Trial(F), Trial(F)]
    old = F.copy()
    gradient = G @ F
    gradient -= C
    weights = _weights(G)
    at_zero = _weighted_norm(C, weights)
    begin = min(projected_norm(F, gradient, weights), at_zero)
    tolerance = max(SEARCH.reduction * begin, float(np.finfo(F.dtype).eps) * at_zero)
    _take_steps_(F, G, gradient, weights, tolerance, room[F.shape])
    moved = np.square(F - old, dtype=np.float64).sum(axis=1)
    total = np.square(F + old, dtype=np.float64).sum(axis=1)
    return moved, total


def _weights(G):
    """1/G_tt in float64, or 0 for a component that the objective does not depend on."""
    curvature = np.diag(G).astype(np.float64)
    counts = curvature > np.finfo(np.float64).tiny
    return np.divide(1, curvature, out=np.zeros_like(curvature), where=counts)


def _weighted_norm(C, weights):
    squares = np.einsum("tj,tj->t", C, C, dtype=np.float64)
    return float(np.sqrt(weights @ squares))


class Trial:
    """Where a step of a given length leads: the new F, and G times the step to it."""

    def __init__(self, F):
        self.alpha = 0.0
        self.F, self._step, self.G_step = (np.empty_like(F) for _ in range(3))
        p = F.shape[1]
        width = max(_LEAST_PART, -(-p // _PARTS))
        self._parts = [(start, min(start + width, p)) for start in range(0, p, width)]

    def make(self, F, G, gradient, weights, alpha):
        """Try a step of length alpha·weights; return whether the objective falls enough.

        The curve ⟨step, G step⟩ only grows from one part of the columns to the next, so a step that
        is too long, as half of all are, is given up as soon as the parts done so far say so.
        """
        self.alpha = alpha
        step, G_step = self._step, self.G_step
        with np.errstate(over="ignore"):
            lengths = np.minimum(alpha * weights, np.finfo(F.dtype).max).astype(F.dtype)
        slope = projected_step_(F, gradient, lengths, self.F, step)
        curve = 0.0
        for start, stop in self._parts:
            np.matmul(G, step[:, start:stop], out=G_step[:, start:stop])
            curve += inner_product(step, G_step, start, stop)
            if not (1 - SEARCH.sigma) * slope + 0.5 * curve < 0:  # also where both overflow
                return False
        return True


def _take_steps_(F, G, gradient, weights, tolerance, trials):
    """Projected-gradient steps on F, with its gradient kept up to date."""
    alpha = 1.0
    for _ in range(SEARCH.iterations):
        if projected_norm(F, gradient, weights) <= tolerance:
            return
        found = _search(F, G, gradient, weights, alpha, trials)
        if found is None:
            return
        alpha = found.alpha
        F[:] = found.F
        gradient += found.G_step


def _search(F, G, gradient, weights, alpha, trials):
    """Lin's step search: the largest α = α₀·βᵗ with a sufficient decrease, from the last α₀.

    None if 20 trials found no step. ``trials`` are two, to hold the last good step and a next.
    """
    trial, spare = trials
    if not trial.make(F, G, gradient, weights, alpha):
        for _ in range(SEARCH.trials - 1):
            alpha *= SEARCH.beta
            if trial.make(F, G, gradient, weights, alpha):
                return trial
        return None
    for _ in range(SEARCH.trials - 1):
        alpha /= SEARCH.beta
        if not spare.make(F, G, gradient, weights, alpha) or np.array_equal(spare.F, trial.F):
            break
        trial, spare = spare, trial
    return trial


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
