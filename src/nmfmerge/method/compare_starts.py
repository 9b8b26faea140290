"""Compare the solutions from several starts.

This takes r × r matrices only: the Gram of each solution, and its products with the best one.
"""

from dataclasses import dataclass

import numpy as np

from nmfmerge.matrices import Array, DataMatrix
from nmfmerge.metrics import permutation_measure
from nmfmerge.results.factorization import Spread

_ROUNDING = 16  # times r·eps: the largest eigenvalue of a unit Gram that may be rounding


@dataclass(frozen=True, eq=False)
class Likeness:
    """Solutions compared with the best of them.

    Attributes
    ----------
    similarity : array (n_starts, r)
        For each component of the best, the cosine w·w' h·h' with its match in every solution.
    subspace_mismatch, permutation_mismatch : arrays (n_starts,)
        The paper's measures of two W, as in `metrics`.
    """

    similarity: np.ndarray
    subspace_mismatch: np.ndarray
    permutation_mismatch: np.ndarray
    _factors: tuple[Array, Array]
    _recipes: tuple[np.ndarray, np.ndarray]  # matched components, scaled as those of the best

    def spread(self, data: DataMatrix) -> Spread | None:
        """Standard deviation of the matched components over the starts, in the scale of X.

        None where a factor is not in memory.
        """
        if data.is_sharded("W") or data.is_sharded("H"):
            return None
        Wt, H = (
            data.returned(data.kernels.spread(recipes, F))
            for recipes, F in zip(self._recipes, self._factors, strict=True)
        )
        return Spread(W=Wt.T, H=H)


def compare(data: DataMatrix, Wt: Array, H: Array, best: int) -> Likeness:
    """Compare all solutions of a batch with the best of them.

    Parameters
    ----------
    data : DataMatrix
        X.
    Wt, H : arrays (n_starts, r, m) and (n_starts, r, n)
        Component-major factors.
    best : int
        Which start the others are compared with.
    """
    k = data.kernels
    own, shared = [], []
    for F in (Wt, H):
        own.append(k.to_host(k.gram64(F)).astype(np.float64))
        with_best = k.to_host(k.products(F, k.take(F, [best]))).astype(np.float64)
        shared.append(with_best.swapaxes(1, 2))  # rows: components of the best
    norms = [np.sqrt(np.einsum("stt->st", grams)) for grams in own]
    cosines = [
        _divided(with_best, norm[best][None, :, None] * norm[:, None, :])
        for with_best, norm in zip(shared, norms, strict=True)
    ]
    orders = np.stack([_matched(a * b) for a, b in zip(*cosines, strict=True)])
    similarity = np.take_along_axis(cosines[0] * cosines[1], orders[:, :, None], axis=2)[:, :, 0]
    similarity = np.minimum(similarity, 1)  # by rounding it may be more
    matched = np.eye(Wt.shape[1])[orders]
    w_recipes, h_recipes = (
        matched * _divided(norm[best][None], np.take_along_axis(norm, orders, axis=1))[:, :, None]
        for norm in norms
    )
    W_grams = _divided(own[0], norms[0][:, :, None] * norms[0][:, None, :])
    subspace, permutation = _mismatches(W_grams[best], W_grams, cosines[0], data.dtype)
    return Likeness(similarity, subspace, permutation, (Wt, H), (w_recipes, h_recipes))


def _matched(similarity: np.ndarray) -> np.ndarray:
    """For each row its column, one to one, so that the sum of similarities is largest.

    Where the best columns of all rows differ, no sum is larger.
    """
    best = similarity.argmax(axis=1)
    if np.isfinite(similarity).all() and np.unique(best).size == best.size:
        return best
    from scipy.optimize import linear_sum_assignment  # slow to import

    return np.asarray(linear_sum_assignment(-similarity)[1])


def _mismatches(
    G1: np.ndarray, G2: np.ndarray, S: np.ndarray, dtype: np.dtype
) -> tuple[np.ndarray, np.ndarray]:
    """Subspace and permutation mismatch of W1 with each W2, from Grams and S = W1ᵀW2.

    All columns have unit norm. Eigenvalues of a Gram that rounding in ``dtype`` can make count as
    zero, as with parallel columns.
    """
    cutoff = _ROUNDING * len(G1) * np.finfo(dtype).eps
    St = S.swapaxes(1, 2)
    R1, R2 = (np.linalg.pinv(G, cutoff, hermitian=True) @ C for G, C in ((G1, S), (G2, St)))
    apart = np.trace(G1) - np.sum(St * R2, axis=(1, 2))
    apart += np.trace(G2, axis1=1, axis2=2) - np.sum(S * R1, axis=(1, 2))
    measures = [permutation_measure(R) for R in np.concatenate([R1, R2])]
    return np.maximum(apart, 0), np.mean(np.reshape(measures, (2, -1)), axis=0)


def _divided(A: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """A divided by sizes; zero where the size is zero."""
    A, sizes = np.broadcast_arrays(A, sizes)
    return np.divide(A, sizes, out=np.zeros(A.shape), where=sizes > 0)
