"""Passes of HALS and of accelerated HALS as one call of compiled code, for a batch in memory.

For small X, Python would take longer than the arithmetic, and hold its lock. For large X a pass
consists of single operations, each of which is shared by threads.
"""

import numpy as np

from nmfmerge.backends.numba import RULE, hals_passes_, least_curvature
from nmfmerge.losses import FROBENIUS
from nmfmerge.matrices import SIDES, Side
from nmfmerge.solvers.batch import Batch
from nmfmerge.solvers.momentum import Momentum

CANCELS = 1e5  # times eps·‖X‖²: a smaller objective is too inexact to compare with another


def compiled_passes(
    batch: Batch, first: Side, n_sweeps: int, momentum: Momentum | None, tol: float, n: int
) -> np.ndarray | None:
    """Up to ``n`` passes of every start of a batch; None where single operations are faster.

    Parameters
    ----------
    batch : Batch
        The starts, changed in place.
    first : "W" or "H"
        The side that is updated first.
    n_sweeps : int
        Sweeps per cross product.
    momentum : Momentum, optional
        Momentum of accelerated HALS, changed in place; None for HALS.
    tol : float
        A start stops when its step is at most this.
    n : int
        Most passes.

    Returns
    -------
    steps : float64 array (passes, n_starts)
        NaN where a step was taken back, and after a start has stopped.
    """
    operand = batch.data.for_passes(batch.n_components)
    if operand is None:
        return None
    X, scale, lines = operand
    sides = SIDES if lines == "W" else SIDES[::-1]
    problem, r = batch.problem, batch.n_components
    free = np.zeros(r, dtype=bool)
    held = {side: free if problem.held is None else getattr(problem.held, side) for side in SIDES}
    l1, l2 = (np.array([weight(side) for side in sides]) for weight in _weights(problem.penalty))
    constant, size = FROBENIUS.constant(batch), 2 * FROBENIUS.size(batch.data)
    batch.forget_products()  # and free their memory
    steps = np.full((batch.n_starts, n), np.nan)
    objectives, done = np.empty(batch.n_starts), 0
    for i in range(batch.n_starts):
        A, B = (batch.factor(side)[i] for side in sides)
        if momentum is None:
            swept, accepted = (A, B), A
            numbers, rest = np.zeros(4), np.ones(1, dtype=bool)
        else:
            swept = tuple(momentum.swept(side)[i] for side in sides)
            accepted = momentum.accepted[i]
            kept = (momentum.objective, momentum.weight, momentum.bound, momentum.last_weight)
            numbers, rest = np.array([of_starts[i] for of_starts in kept]), momentum.rest[i : i + 1]
        passes = hals_passes_(
            X, scale, A, B, sides.index(first), n_sweeps, momentum is not None,
            held[sides[0]], held[sides[1]], l1, l2, *swept, accepted, numbers, rest,
            constant, CANCELS * batch.eps * size, batch.negligible, least_curvature(A.dtype),
            RULE, float(tol), steps[i],  # a whole number would compile it again
        )  # fmt: skip
        if momentum is not None:
            for of_starts, number in zip(kept, numbers, strict=True):
                of_starts[i] = number
        objectives[i], done = numbers[0], max(done, passes)
    if problem.loss is FROBENIUS:  # another loss with the same subproblems has other values
        batch.know_value(objectives)
    return steps[:, :done].T


def _weights(penalty):  # type: ignore[no-untyped-def]
    return penalty.l1, penalty.l2
