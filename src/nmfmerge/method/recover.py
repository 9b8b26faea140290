"""Recovery of components that X has and WH lacks, in several rounds where one is not enough.

Input: a problem and factors of rank r. Output: factors of rank r + k. The loss finds the missing
components.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from nmfmerge.losses import Problem
from nmfmerge.matrices import Array, Check
from nmfmerge.method.init import Factors


def recover(
    problem: Problem,
    Wt: Array,
    H: Array,
    k: int,
    refine: Callable[[int, Array, Array], Factors],
    check: Check | None = None,
) -> tuple[Array, Array, np.ndarray]:
    """Add ``k`` components to each start.

    When a round does not improve the fit, WH already has all that X has, and the components that
    are left to add are zero.

    Parameters
    ----------
    problem : Problem
        What is fitted.
    Wt, H : arrays (n_starts, r, m) and (n_starts, r, n)
        Component-major factors; not changed.
    k : int
        How many components to add.
    refine : callable
        ``start, Wt, H ↦ Wt, H``: a loose NMF of one start, by its number, between rounds.
    check : callable, optional
        Called now and then; may raise to stop.

    Returns
    -------
    Wt, H : arrays (n_starts, r + k, m) and (n_starts, r + k, n)
        The components that came in, rescaled unless they are held, then the recovered ones.
    strengths : float64 array (n_starts, k)
        How much more X has than WH of each recovered component; infinite where WH has nothing of
        it, 1 for components that are zero because WH already had all of X.
    """
    check, matrix = check or (lambda: None), problem.matrix
    r = H.shape[1]
    if k <= problem.recoverable(r, check):
        found = problem.recover(Wt, H, k, check)
        return found.Wt, found.H, found.strengths
    with matrix.keeping_svd():  # all starts need the same
        each = [
            _in_rounds(problem, Wt[i : i + 1], H[i : i + 1], k, partial(refine, i), check)
            for i in range(len(H))
        ]
    Wts, Hs, strengths = zip(*each, strict=True)
    stack = matrix.kernels.stack
    return stack([F[0] for F in Wts]), stack([F[0] for F in Hs]), np.concatenate(strengths)


def _in_rounds(
    problem: Problem,
    Wt: Array,
    H: Array,
    k: int,
    refine: Callable[[Array, Array], Factors],
    check: Check,
) -> tuple[Array, Array, np.ndarray]:
    """Recover for a batch of one start."""
    matrix, strengths = problem.matrix, np.empty((1, 0))
    enough = np.finfo(matrix.dtype).eps * 2 * problem.size
    while True:
        found = problem.recover(Wt, H, k - strengths.shape[1], check)
        Wt, H = found.Wt, found.H
        strengths = np.concatenate([strengths, found.strengths], axis=1)
        rest = k - strengths.shape[1]
        if rest == 0:
            return Wt, H, strengths
        if found.gain[0] <= enough:
            more = np.pad(strengths, ((0, 0), (0, rest)), constant_values=1)
            padded = (matrix.kernels.with_zero_components(F, rest) for F in (Wt, H))
            return *padded, more
        Wt, H = refine(Wt, H)
