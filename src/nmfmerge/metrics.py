"""How good a factorization is, and how alike two of them are."""

from typing import Any

import numpy as np
from scipy.linalg import lstsq
from scipy.optimize import linear_sum_assignment

from nmfmerge import validation as check
from nmfmerge.data import Array, DataMatrix
from nmfmerge.kernels import blas_for, gram64
from nmfmerge.likeness import permutation_measure
from nmfmerge.merge import MergeTree, merge
from nmfmerge.solvers.point import Point, percent

_COLUMNS = 1 << 20  # of a factor that are copied at once


def fitting_error(X: Any, W: np.ndarray, H: np.ndarray) -> float:
    """Fitting error 100·‖X − WH‖²/‖X‖², in percent, accurate near an exact fit too."""
    data, Wt, H = _check(X, W, H)
    with blas_for(data.blas_flops(len(H))):
        return percent(data.residual_norm2(Wt, H), data.norm2)


def kkt_residual(X: Any, W: np.ndarray, H: np.ndarray) -> float:
    r"""How far W and H are from a stationary point, relative to X.

    Each row :math:`f_t` of a factor F (Wᵀ or H), moved alone to its minimum, would change WH by
    :math:`\sqrt{G_{tt}}\,\lVert f_t - \max(0, f_t - g_t/G_{tt}) \rVert`, with G the Gram of the
    other factor and g the gradient. The root of the sum of their squares, over ‖X‖, is zero at a
    stationary point only, and does not change when X or a component is rescaled.
    """
    data, Wt, H = _check(X, W, H)
    if data.defers("W") or data.defers("H"):
        raise TypeError("X is a Dask array; kkt_residual works in memory: pass X.compute()")
    point = Point(data, Wt[None], H[None])
    total = 0.0
    for subproblem in (point.subproblem("W"), point.subproblem("H")):
        F, G, C = (data.kernels.to_host(A[0]) for A in subproblem)
        curvature = np.diag(G).astype(np.float64)
        gradient = (G @ F - C).astype(np.float64)
        safe = np.where(curvature > 0, curvature, 1)[:, None]
        step = F - np.maximum(0, F - gradient / safe)
        total += float(curvature @ np.square(step).sum(axis=1))
    return float(np.sqrt(total / data.norm2)) if data.norm2 > 0 else float(np.sqrt(total))


def subspace_mismatch(W1: np.ndarray, W2: np.ndarray) -> float:
    """How far apart the column spaces of two W are, equation (consis_check); 0 iff they agree.

    ‖W₁ − W₂R₂‖² + ‖W₂ − W₁R₁‖² with columns of unit norm, R₂ = W₂⁺W₁ and R₁ = W₁⁺W₂.
    """
    W1, W2, eps = _unit_columns(W1, W2)
    R1, R2 = _transfer(W1, W2, eps)
    return float(np.linalg.norm(W1 - W2 @ R2) ** 2 + np.linalg.norm(W2 - W1 @ R1) ** 2)


def permutation_mismatch(W1: np.ndarray, W2: np.ndarray) -> float:
    """How far two W are from the same columns in another order, equation (permutation_check).

    For R₁ and R₂ of `subspace_mismatch`, the mean of their
    Σ r²(r − 1)² + Σ_i(Σ_j r_ij − 1)² + Σ_j(Σ_i r_ij − 1)², which is 0 iff R is a permutation.
    The paper prints a minus before the last two sums, with which a zero matrix would score below
    a permutation.
    """
    return float(np.mean([permutation_measure(R) for R in _transfer(*_unit_columns(W1, W2))]))


def match_components(W1: np.ndarray, W2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Match the columns of two W one to one by cosine similarity.

    Returns
    -------
    order : int array (r,)
        ``W2[:, order]`` stands column by column beside W1.
    similarity : array (r,)
        Cosine of each matched pair.
    """
    W1, W2, _ = _unit_columns(W1, W2)
    cosine = W1.T @ W2
    rows, order = linear_sum_assignment(-cosine)
    return order, cosine[rows, order]


def shares(W: np.ndarray, H: np.ndarray) -> np.ndarray:
    """Share of each component in the fit, in percent; they add up to 100.

    The share of component k is ⟨w_k h_k, WH⟩ / ‖WH‖²: its own square and half of what it has in
    common with every other component. All zero where WH is zero.

    Parameters
    ----------
    W, H : arrays (m, r) and (r, n)
        Factors.

    Returns
    -------
    share : array (r,)
        Percent, in the order of the columns of W.
    """
    if len(H) == 0:
        return np.zeros(0)
    W, H = check.check_factors(W, H)
    sizes = [F.max(axis=1).astype(np.float64) for F in (W.T, H)]
    size = sizes[0] * sizes[1]
    if not size.any():
        return np.zeros(len(H))
    size /= size.max()  # so that no square is too large or too small
    products = np.outer(size, size) * _scaled_gram(W.T, sizes[0]) * _scaled_gram(H, sizes[1])
    return 100 * products.sum(axis=1) / products.sum()


def specificity(F: np.ndarray) -> np.ndarray:
    r"""How characteristic each entry (gene, word, …) is of each component.

    With every component scaled to the sum 1, :math:`p_{ik}` is the part that entry i has in
    component k and :math:`\bar p_i` its mean over the components. The score is
    :math:`p_{ik} \log_2(p_{ik} / \bar p_i)`, what the entry adds to the Jensen–Shannon divergence
    of the components: high for an entry that is both large in this component and larger than in
    the others, zero for one that is alike in all of them, negative where it is smaller.
    The largest weights alone repeat the same genes in every component.

    Parameters
    ----------
    F : array (m, r)
        Nonnegative factor, one column for each component: W, or the transpose of H.

    Returns
    -------
    score : array (m, r)
        In bits; all zero if there is one component.
    """
    F = np.asarray(F, dtype=np.float64)
    parts = _divided(F, F.max(axis=0, initial=0))  # so that no sum is too large
    parts = _divided(parts, parts.sum(axis=0))
    ratio = _divided(parts.T, parts.mean(axis=1)).T
    return parts * np.log2(ratio, out=np.zeros_like(ratio), where=ratio > 0)


def next_merges(W: np.ndarray, H: np.ndarray) -> MergeTree:
    """What merging would go on with: the merges of all components down to one.

    Parameters
    ----------
    W, H : arrays (m, r) and (r, n)
        Nonnegative factors.
    """
    W, H = check.check_factors(W, H)
    return merge(np.ascontiguousarray(W.T), np.ascontiguousarray(H), 1)[2]


def _check(X: Any, W: Any, H: Any) -> tuple[DataMatrix, Array, Array]:
    data = check.check_X(X)
    W, H = check.check_factors(W, H)
    Wt, H = check.check_fit(W, H, data, len(H))
    return data, data.place(Wt, "W"), data.place(H, "H")


def _unit_columns(W1: Any, W2: Any) -> tuple[np.ndarray, np.ndarray, float]:
    """Both factors in float64 with columns of unit norm, and the precision they were given in."""
    W1, W2 = (check.check_array(name, W) for name, W in (("W1", W1), ("W2", W2)))
    if W1.shape != W2.shape:
        raise ValueError(
            f"W1 has shape {W1.shape} and W2 has shape {W2.shape}; expected two factors of the "
            "same data and rank"
        )
    eps = max(float(np.finfo(W.dtype).eps) for W in (W1, W2))
    return _normalized(W1), _normalized(W2), eps


def _normalized(W: np.ndarray) -> np.ndarray:
    W = _divided(W.astype(np.float64), np.abs(W).max(axis=0, initial=0))  # squares are finite now
    return _divided(W, np.linalg.norm(W, axis=0))


def _divided(W: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Columns divided by their sizes, zero columns as they are."""
    return W / np.where(sizes > 0, sizes, 1)


def _scaled_gram(F: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """F Fᵀ of rows divided by their sizes, some columns at a time: F may be larger than memory."""
    starts = range(0, F.shape[1], _COLUMNS)
    parts = (_divided(F[:, i : i + _COLUMNS].T.astype(np.float64), sizes).T for i in starts)
    return np.sum([gram64(part) for part in parts], axis=0)


def _transfer(W1: np.ndarray, W2: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """R₁ = W₁⁺W₂ and R₂ = W₂⁺W₁; singular values that rounding can make count as zero."""
    cond = eps * max(W1.shape)
    return lstsq(W1, W2, cond)[0], lstsq(W2, W1, cond)[0]
