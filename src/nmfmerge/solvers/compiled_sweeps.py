"""Passes of coordinate descent over entries as one call of compiled code, for a small X in memory.

For larger X a pass consists of single operations, each of which is shared by threads.
"""

import numpy as np

from nmfmerge.backends.numba import RULE
from nmfmerge.backends.numba.kl_passes import kl_passes_
from nmfmerge.matrices import Array, Side
from nmfmerge.solvers.batch import Batch
from nmfmerge.solvers.momentum import Momentum


def compiled_sweeps(
    batch: Batch,
    sides: tuple[Side, Side],
    free: dict[Side, Array],
    n_sweeps: int,
    momentum: Momentum | None,
    noise: float,
    tol: float,
    n: int,
) -> np.ndarray | None:
    """Up to ``n`` passes of every start of a batch; None where single operations are faster.

    Parameters
    ----------
    batch : Batch
        The starts, changed in place.
    sides : pair of "W" and "H"
        The order of the updates.
    free : dict of bool arrays (r,) or None
        The components of each side that are not held; None if all.
    n_sweeps : int
        Sweeps over a side before the other one follows.
    momentum : Momentum, optional
        Momentum of the accelerated solver, changed in place; None without extrapolation.
    noise : float
        A difference of objectives that may be rounding.
    tol : float
        A start stops when its step is at most this.
    n : int
        Most passes.

    Returns
    -------
    steps : float64 array (passes, n_starts)
        NaN where a step was taken back, and after a start has stopped.
    """
    entrywise, r = batch.problem.entrywise, batch.n_components
    operand = entrywise.for_passes(r * n_sweeps)
    if operand is None:
        return None
    lines, floor, constant = operand
    penalty, every = batch.problem.penalty, np.ones(r, dtype=bool)
    settings = (
        *(lines[side] for side in sides),
        *(every if free[side] is None else free[side] for side in sides),
        np.array([penalty.l1(side) for side in sides]),
        np.array([penalty.l2(side) for side in sides]),
        floor, n_sweeps, momentum is not None,
    )  # fmt: skip
    rule = (constant, noise, batch.negligible, RULE, tol)
    steps = np.full((batch.n_starts, n), np.nan)
    done = 0
    for i in range(batch.n_starts):
        one = slice(i, i + 1)
        A, B = (batch.factor(side)[one] for side in sides)
        arguments = (A, B, *settings, *_state(momentum, sides, A, B, one), *rule, steps[i])
        done = max(done, kl_passes_(*arguments))
    for side in sides:
        batch.changed(side)
    return steps[:, :done].T


def _state(
    momentum: Momentum | None, sides: tuple[Side, Side], A: Array, B: Array, one: slice
) -> list[Array]:
    """The arrays of one start; without extrapolation only their types count."""
    if momentum is None:
        return [A, B, A, *np.zeros((4, 1)), np.zeros(1, dtype=bool), np.zeros(1, dtype=bool)]
    arrays = (
        *(momentum.swept(side) for side in sides), momentum.accepted, momentum.objective,
        momentum.weight, momentum.bound, momentum.last_weight, momentum.rest, momentum.taken_back,
    )  # fmt: skip
    return [array[one] for array in arrays]
