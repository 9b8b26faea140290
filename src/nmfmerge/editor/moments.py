"""What merges and removals would do to the fit, from r × r numbers alone.

With R = X − WH and N = WᵀRHᵀ, a change of WH by −D raises ‖R‖² by 2⟨R, D⟩ + ‖D‖². For a component
that is removed, and for a pair that is merged, D lies in the span of these components, so that both
terms are a few entries of N, WᵀW and HHᵀ.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from nmfmerge.data import DataMatrix
from nmfmerge.kernels import gram64
from nmfmerge.merge import merge_weights, pair_penalty

_EXACT = 1e-11  # relative error of ‖R‖² above which it is not told from here


@dataclass(frozen=True, eq=False)
class Moments:
    """WᵀW, HHᵀ, N and ‖R‖², in the scale of the data matrix; ``noise`` is the rounding of N."""

    WtW: np.ndarray
    HHt: np.ndarray
    N: np.ndarray
    noise: np.ndarray
    residual2: float

    @classmethod
    def of(cls, data: DataMatrix, Wt: np.ndarray, H: np.ndarray) -> "Moments":
        """The moments of factors, in one pass over X for N and one for ‖R‖²."""
        WtW, HHt = gram64(Wt), gram64(H)
        WtX = data.WtX(Wt, out=np.empty_like(H))
        fit = WtX.astype(np.float64, copy=False) @ H.T.astype(np.float64, copy=False)
        model = WtW @ HHt
        noise = 100 * float(np.finfo(data.dtype).eps) * (fit + model)
        return cls(WtW, HHt, fit - model, noise, data.residual_norm2(Wt, H))

    def removed(self, i: int) -> float | None:
        """‖R‖² without component i; None if rounding would blur it."""
        size = self.WtW[i, i] * self.HHt[i, i]
        return self._trusted(self.residual2 + 2 * self.N[i, i] + size, self.noise[i, i], size)

    def merged(self, i: int, j: int) -> float | None:
        """‖R‖² with components i and j merged; None if rounding would blur it."""
        change, size = self._merge(i, j)
        pair = np.ix_((i, j), (i, j))
        return self._trusted(self.residual2 + change, float(self.noise[pair].max()), size)

    def merge_table(self) -> np.ndarray:
        """By how much ‖R‖² would change by each merge; NaN on the diagonal."""
        r = len(self.N)
        table = np.full((r, r), np.nan)
        for i in range(r):
            for j in range(i):
                table[i, j] = table[j, i] = self._merge(i, j)[0]
        return table

    def _merge(self, i: int, j: int) -> tuple[float, float]:
        """The change of ‖R‖² by a merge, and the size ‖uvᵀ‖² of the merged component."""
        W, H, N = self.WtW, self.HHt, self.N
        x, y = sqrt(W[i, i]), sqrt(W[j, j])  # unit columns of W, H with the scale
        c = W[i, j] / (x * y) if x * y > 0 else 0.0
        a, d, g = H[i, i] * W[i, i], H[j, j] * W[j, j], H[i, j] * x * y
        alpha, beta = merge_weights(c, a, d, g)
        u = alpha / x if x > 0 else 0.0, beta / y if y > 0 else 0.0
        v = (alpha + beta * c) * x, (alpha * c + beta) * y
        kept = (
            u[0] * v[0] * N[i, i] + u[0] * v[1] * N[i, j]
            + u[1] * v[0] * N[j, i] + u[1] * v[1] * N[j, j]
        )  # fmt: skip
        penalty = float(pair_penalty(*np.array([c, a, d, g])))
        return 2 * float(N[i, i] + N[j, j] - kept) + penalty, a + d + 2 * c * g

    def _trusted(self, residual2: float, noise: float, size: float) -> float | None:
        rounding = float(np.finfo(np.float64).eps) * sqrt(size * max(residual2, 0.0))
        return residual2 if 6 * noise + 4 * rounding <= _EXACT * residual2 else None
