"""The effect of merges and removals on the weighted squared error, from r × r numbers alone.

A change of WH by −D raises Σ m r² by 2⟨M∘R, D⟩ + Σ m d², and D is a sum of the products w_a h_b of
at most two components. So Σ m d² is made of Σ m w_a w_c h_b h_d with a, b, c and d among the two.
"""

from dataclasses import dataclass

import numpy as np

from nmfmerge.backends.numba import gram64
from nmfmerge.losses.frobenius_previews import Moments, Pair
from nmfmerge.matrices import Array, DataMatrix


@dataclass(frozen=True, eq=False)
class WeightedMoments(Moments):
    """Moments with the weights M, and tables (r × r) of the products of four.

    ``aa_ab`` is Σ m w_a² h_a h_b; ``aa_bb``, ``ab_aa`` and ``ab_ab`` are Σ m w_a² h_b²,
    Σ m w_a w_b h_a² and Σ m w_a w_b h_a h_b.
    """

    aa_ab: np.ndarray
    aa_bb: np.ndarray
    ab_aa: np.ndarray
    ab_ab: np.ndarray

    @classmethod
    def of(cls, data: DataMatrix, Wt: np.ndarray, H: np.ndarray) -> "WeightedMoments":
        """The moments of factors, in one pass over the weights for each component."""
        WtW, HHt, r = gram64(Wt), gram64(H), len(H)
        fit = data.WtX(Wt, out=np.empty_like(H)).astype(np.float64) @ H.T.astype(np.float64)
        tables = np.empty((5, r, r))
        H64 = H.astype(np.float64, copy=False)
        squares = H64 * H64
        for a in range(r):
            C = data.weights.cross("H", (Wt[a] * Wt)[None])[0].astype(np.float64, copy=False)
            CH = C * H64  # C: Σ m w_a w_b of each column of X
            tables[:, a] = (
                CH.sum(axis=0) @ H64.T, CH[a] @ H64.T, squares @ C[a], C @ squares[a], CH @ H64[a],
            )  # fmt: skip
        noise = 100 * float(np.finfo(data.dtype).eps) * (fit + WtW @ HHt)
        residual2 = data.residual_norm2(Wt, H)
        return cls(WtW, HHt, fit - tables[0], noise, residual2, data.norm2, *tables[1:])

    def _component(self, i: int) -> float:
        """Σ m (w h)²."""
        return float(self.aa_ab[i, i])

    def _moved_by_merge(self, i: Array, j: Array, pair: Pair, merged: Pair) -> np.ndarray:
        """Σ m d² for D = w_i h_i + w_j h_j less the merged component."""
        u_i, u_j, v_i, v_j = merged
        ii, ij, ji, jj = 1 - u_i * v_i, -u_i * v_j, -u_j * v_i, 1 - u_j * v_j  # of w_a h_b in D
        own, squares, mixed, both = self.aa_ab, self.aa_bb, self.ab_aa, self.ab_ab
        of_i = ii * ii * own[i, i] + 2 * ii * ij * own[i, j] + ij * ij * squares[i, j]
        of_j = jj * jj * own[j, j] + 2 * jj * ji * own[j, i] + ji * ji * squares[j, i]
        of_both = ii * ji * mixed[i, j] + (ii * jj + ij * ji) * both[i, j] + ij * jj * mixed[j, i]
        return np.asarray(of_i + of_j + 2 * of_both)
