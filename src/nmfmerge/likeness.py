"""How alike the solutions from several starts are: one of them against all others.

Only r × r matrices are looked at: Grams of each solution, and its products with the best one.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from nmfmerge.data import Array, DataMatrix
from nmfmerge.result import Spread


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

    def spread(self, data: DataMatrix) -> Spread:
        """Standard deviation of the matched components over the starts, in the scale of X."""
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
    orders = np.stack([linear_sum_assignment(-a * b)[1] for a, b in zip(*cosines, strict=True)])
    similarity = np.take_along_axis(cosines[0] * cosines[1], orders[:, :, None], axis=2)[:, :, 0]
    matched = np.eye(Wt.shape[1])[orders]
    w_recipes, h_recipes = (
        matched * _divided(norm[best][None], np.take_along_axis(norm, orders, axis=1))[:, :, None]
        for norm in norms
    )
    W_grams = _divided(own[0], norms[0][:, :, None] * norms[0][:, None, :])
    mismatches = [_mismatch(W_grams[best], G, S) for G, S in zip(W_grams, cosines[0], strict=True)]
    subspace, permutation = np.array(mismatches).T
    return Likeness(similarity, subspace, permutation, (Wt, H), (w_recipes, h_recipes))


def _mismatch(G1: np.ndarray, G2: np.ndarray, S: np.ndarray) -> tuple[float, float]:
    """Subspace and permutation mismatch of two W with unit columns, from G1, G2 and S = W1ᵀW2."""
    R1 = np.linalg.pinv(G1, hermitian=True) @ S
    R2 = np.linalg.pinv(G2, hermitian=True) @ S.T
    apart = np.trace(G1) - np.sum(S.T * R2) + np.trace(G2) - np.sum(S * R1)
    return max(0.0, float(apart)), float(np.mean([permutation_measure(R) for R in (R1, R2)]))


def permutation_measure(R: np.ndarray) -> float:
    """How far R is from a permutation, equation (permutation_check), with its sign put right."""
    entries = np.sum(R**2 * (R - 1) ** 2)
    return float(entries + np.sum((R.sum(axis=1) - 1) ** 2) + np.sum((R.sum(axis=0) - 1) ** 2))


def _divided(A: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """A divided by sizes, zero where these are zero."""
    A, sizes = np.broadcast_arrays(A, sizes)
    return np.divide(A, sizes, out=np.zeros(A.shape), where=sizes > 0)
