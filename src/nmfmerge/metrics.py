"""How good a factorization is, and how alike two of them are."""

from typing import Any

import numpy as np
from scipy.linalg import lstsq

from nmfmerge import settings
from nmfmerge.backends.numba import one_blas_thread
from nmfmerge.inputs import check
from nmfmerge.losses import LOSSES, Problem
from nmfmerge.losses.merging import MergeTree
from nmfmerge.matrices import Array, DataMatrix
from nmfmerge.solvers.batch import Batch

# Cosines from which two components count as the same, by convention: vectors less than
# 18° apart are hard to tell apart in a figure.
SAME_VECTOR = 0.95  # of columns of W alone, or rows of H
SAME_COMPONENT = 0.9  # of w and h together, w·w' h·h': about the square of the other


def fitting_error(
    X: Any,
    W: np.ndarray,
    H: np.ndarray,
    *,
    weights: Any = None,
    beta_loss: str = "frobenius",
    missing: str = "nan",
) -> float:
    """Fitting error 100·‖X − WH‖²/‖X‖², in percent, accurate near an exact fit too.

    Both norms are over the observed entries, with their ``weights`` where there are any; `nmf`
    explains these and ``missing``.

    Under the loss "kullback-leibler" it is 100·D(X‖WH)/D₁, D₁ the deviance of the margins:
    the divergence of X from the product of its row and column sums over its total.
    """
    loss = LOSSES[settings.SETTINGS["beta_loss"].check(beta_loss)]
    data, Wt, H = _check(X, W, H, weights, missing)
    check.check_loss_fits(loss, data)
    if data.is_sharded("W") or data.is_sharded("H"):
        return loss.percent(0.5 * data.residual_norm2(Wt, H), data)
    with one_blas_thread():
        return loss.percent(float(loss.exact_values(data, Wt[None], H[None])[0]), data)


def kkt_residual(
    X: Any,
    W: np.ndarray,
    H: np.ndarray,
    *,
    weights: Any = None,
    beta_loss: str = "frobenius",
    missing: str = "nan",
) -> float:
    r"""How far W and H are from a stationary point, relative to X.

    Each row :math:`f_t` of a factor F (Wᵀ or H), moved alone to its minimum, would change WH by
    :math:`\sqrt{G_{tt}}\,\lVert f_t - \max(0, f_t - g_t/G_{tt}) \rVert`, with G the Gram of the
    other factor and g the gradient. The root of the sum of their squares, over ‖X‖, is zero at a
    stationary point only, and does not change when X or a component is rescaled.

    Under the loss "kullback-leibler", for :math:`\psi_t = \sum_j h_{tj} x_{ij}/y_{ij}` and
    :math:`S_t = \sum_j h_{tj}`, it is the share of the mass of WH that an EM step of W would move,
    :math:`\sum |\psi_t - S_t| w_{it} / \sum S_t w_{it}`, and the same for H, plus the largest
    :math:`(\psi_t/S_t - 1)_+` of an entry that is zero.
    """
    loss = LOSSES[settings.SETTINGS["beta_loss"].check(beta_loss)]
    data, Wt, H = _check(X, W, H, weights, missing)
    if data.is_sharded("W") or data.is_sharded("H"):
        raise TypeError("X is a Dask array; kkt_residual works in memory: pass X.compute()")
    check.check_loss_fits(loss, data)
    problem = Problem(data, loss)
    return float(problem.loss.kkt_residual(Batch(problem, Wt[None], H[None]))[0])


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


def permutation_measure(R: np.ndarray) -> float:
    """How far R is from a permutation, equation (permutation_check), with its sign put right."""
    entries = np.sum(R**2 * (R - 1) ** 2)
    return float(entries + np.sum((R.sum(axis=1) - 1) ** 2) + np.sum((R.sum(axis=0) - 1) ** 2))


def match_components(W1: np.ndarray, W2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Match the columns of two W one to one by cosine similarity.

    Returns
    -------
    order : int array (r,)
        ``W2[:, order]`` stands column by column beside W1.
    similarity : array (r,)
        Cosine of each matched pair.
    """
    from scipy.optimize import linear_sum_assignment  # slow to import

    W1, W2, _ = _unit_columns(W1, W2)
    cosine = W1.T @ W2
    rows, order = linear_sum_assignment(-cosine)
    return order, cosine[rows, order]


def shares(W: np.ndarray, H: np.ndarray, *, beta_loss: str = "frobenius") -> np.ndarray:
    """Share of each component in the fit, in percent; they add up to 100.

    The share of component k is ⟨w_k h_k, WH⟩ / ‖WH‖²: its own square and half of what it has in
    common with every other component. Under the loss "kullback-leibler" it is that of the sum of
    WH. All zero where WH is zero.

    Parameters
    ----------
    W, H : arrays (m, r) and (r, n)
        Factors.
    beta_loss : {"frobenius", "kullback-leibler"}
        The loss that they were fitted by.

    Returns
    -------
    share : array (r,)
        Percent, in the order of the columns of W.
    """
    loss = LOSSES[settings.SETTINGS["beta_loss"].check(beta_loss)]
    if len(H) == 0:
        return np.zeros(0)
    W, H = check.check_factors(W, H)
    return loss.percent_shares(W, H)


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


def next_merges(W: np.ndarray, H: np.ndarray, *, beta_loss: str = "frobenius") -> MergeTree:
    """The merges of all components down to one, in the order of the greedy algorithm.

    Parameters
    ----------
    W, H : arrays (m, r) and (r, n)
        Nonnegative factors.
    """
    W, H = check.check_factors(W, H)
    return LOSSES[settings.SETTINGS["beta_loss"].check(beta_loss)].next_merges(W, H)


def _check(X: Any, W: Any, H: Any, weights: Any, missing: str) -> tuple[DataMatrix, Array, Array]:
    absent = settings.SETTINGS["missing"].check(missing)
    data = check.check_X(X, weights=weights, absent=absent)
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
    """Columns divided by their norms; zero columns unchanged."""
    return W / np.where(sizes > 0, sizes, 1)


def _transfer(W1: np.ndarray, W2: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """R₁ = W₁⁺W₂ and R₂ = W₂⁺W₁; singular values that rounding can make count as zero."""
    cond = eps * max(W1.shape)
    return lstsq(W1, W2, cond)[0], lstsq(W2, W1, cond)[0]
