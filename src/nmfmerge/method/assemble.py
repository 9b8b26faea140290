"""Turn the factors of a fit into its result: restore the scale of X, sort components by share.

Input: component-major factors of X / unit², with their loss, stages and merges. Output: a
`Factorization` of X.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from nmfmerge.inputs import tensors
from nmfmerge.losses import Problem
from nmfmerge.losses.merging import MergeTree
from nmfmerge.matrices import Array
from nmfmerge.method.init import Factors
from nmfmerge.results.factorization import Factorization


def assemble(
    problem: Problem,
    Wt: Array,
    H: Array,
    loss: float,
    penalty: float = 0.0,
    *,
    given: Factors | None = None,
    merges: MergeTree | None = None,
    **known: Any,
) -> Factorization:
    """One start as a factorization of X.

    Parameters
    ----------
    problem : Problem
        What was fitted.
    Wt, H : arrays (r, m) and (r, n)
        The factors; the result may keep them.
    loss : float
        Their loss, without the penalty, in the scale of the matrix.
    penalty : float
        Their penalty, in the same scale.
    given : pair of arrays, optional
        Component-major factors of X whose held components the result has to the bit.
    merges : MergeTree, optional
        In the scale of the matrix.
    known
        Further fields of `Factorization`.
    """
    matrix = problem.matrix
    Wt, H = matrix.results(Wt, H)
    if given is not None and problem.held is not None:
        _put_held(problem, (Wt, H), given)
    if merges is not None:
        merges = replace(merges, penalties=problem.in_scale(merges.penalties))
    return Factorization(
        W=Wt.T,
        H=H,
        loss=problem.loss.name,
        objective=problem.in_full(loss + penalty),
        fitting_error=problem.percent(loss),
        merges=merges,
        axes=matrix.axes,
        n_missing=matrix.n_missing,
        **known,
    )


def sorted_by_share(problem: Problem, Wt: Array, H: Array, result: Factorization) -> Factorization:
    """Sort components by their share of the fit, the largest first."""
    share = problem.shares(Wt[None], H[None])[0]
    return result.reordered(np.argsort(-share, kind="stable").tolist())


def _put_held(problem: Problem, factors: Factors, given: Factors) -> None:
    """Copy the given held components: scaling may have rounded their smallest numbers."""
    assert problem.held is not None
    masks = (problem.held.W, problem.held.H)
    for F, known, mask in zip(factors, given, masks, strict=True):
        held = np.flatnonzero(mask)
        if len(held) > 0:
            F[held] = tensors.like(known[held].astype(problem.matrix.dtype), F)
