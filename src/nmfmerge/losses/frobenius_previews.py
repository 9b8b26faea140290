"""The effect of merges and removals on the squared error, from r × r numbers alone.

With R = X − WH and N = WᵀRHᵀ, a change of WH by −D raises ‖R‖² by 2⟨R, D⟩ + ‖D‖². For a component
that is removed, and for a pair that is merged, D lies in the span of these components, so that both
terms are a few entries of N, WᵀW and HHᵀ.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from nmfmerge.backends.numba import gram64
from nmfmerge.losses.frobenius_merging import merge_weights, pair_penalty
from nmfmerge.losses.previews import Previews
from nmfmerge.matrices import Array, DataMatrix

Pair = tuple[Array, Array, Array, Array]

_EXACT = 1e-11  # relative error of ‖R‖² above which moments are too inaccurate


@dataclass(frozen=True, eq=False)
class Moments(Previews):
    """WᵀW, HHᵀ, N, ‖R‖² and ‖X‖², in the scale of the data; ``noise`` is the rounding of N."""

    WtW: np.ndarray
    HHt: np.ndarray
    N: np.ndarray
    noise: np.ndarray
    residual2: float
    norm2: float

    @classmethod
    def of(cls, data: DataMatrix, Wt: np.ndarray, H: np.ndarray) -> "Moments":
        """The moments of factors, in one pass over X for N and one for ‖R‖²."""
        WtW, HHt = gram64(Wt), gram64(H)
        WtX = data.WtX(Wt, out=np.empty_like(H))
        fit = WtX.astype(np.float64, copy=False) @ H.T.astype(np.float64, copy=False)
        model = WtW @ HHt
        noise = 100 * float(np.finfo(data.dtype).eps) * (fit + model)
        return cls(WtW, HHt, fit - model, noise, data.residual_norm2(Wt, H), data.norm2)

    @property
    def n_components(self) -> int:
        """Number of components, r."""
        return len(self.N)

    def removed(self, i: int) -> float | None:
        """½‖R‖² without component i; None if rounding would blur it."""
        size = self.WtW[i, i] * self.HHt[i, i]
        after = self.residual2 + 2 * self.N[i, i] + self._component(i)
        return self._trusted(after, self.noise[i, i], size)

    def merged(self, i: int, j: int) -> float | None:
        """½‖R‖² with components i and j merged; None if rounding would blur it."""
        change, size = self._merge(np.array(i), np.array(j))
        pair = np.ix_((i, j), (i, j))
        noise = float(self.noise[pair].max())
        return self._trusted(self.residual2 + float(change), noise, float(size))

    def changes_of_pairs(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """By how much merges of the pairs (i, j) would change ½‖R‖²."""
        return np.asarray(0.5 * self._merge(i, j)[0])

    def _merge(self, i: np.ndarray, j: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The changes of ‖R‖² by merges, and the sizes ‖uvᵀ‖² of the merged components."""
        W, H, N = self.WtW, self.HHt, self.N
        x, y = np.sqrt(W[i, i]), np.sqrt(W[j, j])  # unit columns of W, H with the scale
        c = np.divide(W[i, j], x * y, out=np.zeros_like(x), where=x * y > 0)
        a, d, g = H[i, i] * W[i, i], H[j, j] * W[j, j], H[i, j] * x * y
        alpha, beta = merge_weights(c, a, d, g)
        u_i = np.divide(alpha, x, out=np.zeros_like(x), where=x > 0)
        u_j = np.divide(beta, y, out=np.zeros_like(y), where=y > 0)
        v_i, v_j = (alpha + beta * c) * x, (alpha * c + beta) * y
        kept = u_i * v_i * N[i, i] + u_i * v_j * N[i, j] + u_j * v_i * N[j, i] + u_j * v_j * N[j, j]
        moved = self._moved_by_merge(i, j, (c, a, d, g), (u_i, u_j, v_i, v_j))
        return 2 * (N[i, i] + N[j, j] - kept) + moved, a + d + 2 * c * g

    def _component(self, i: int) -> float:
        """The square of a component, ‖w h‖²."""
        return float(self.WtW[i, i] * self.HHt[i, i])

    def _moved_by_merge(self, i: Array, j: Array, pair: Pair, merged: Pair) -> np.ndarray:
        """‖D‖² of pairs (c, a, d, g) with (u_i w_i + u_j w_j)(v_i h_i + v_j h_j) in their place."""
        return pair_penalty(*pair)

    def _trusted(self, residual2: float, noise: float, size: float) -> float | None:
        """½‖R‖² if it is accurate enough, given N and the sizes of the components and of X."""
        size = max(size, self.norm2)
        rounding = float(np.finfo(np.float64).eps) * (size + sqrt(size * max(residual2, 0.0)))
        return 0.5 * residual2 if 6 * noise + 4 * rounding <= _EXACT * residual2 else None
