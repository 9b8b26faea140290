"""A sparse matrix plus one of low rank, as a data matrix: their sum is never formed.

Input: the sparse matrix, which may have negative values, and factors. It is what recovery and
NNDSVD look at where most entries of X are missing.
"""

from typing import Any

import numpy as np

from nmfmerge.backends.numba import gram64
from nmfmerge.matrices.base import DataMatrix
from nmfmerge.matrices.digest import digest
from nmfmerge.matrices.sparse import SparseData


class LowRankPlus(DataMatrix):
    """S + WH, with S in CSR and component-major factors ``Wt`` (k × m) and ``H`` (k × n)."""

    kind = "a sparse matrix plus one of low rank"

    def __init__(self, S: Any, Wt: np.ndarray, H: np.ndarray) -> None:
        super().__init__(S, 0)
        self.stored, self.Wt, self.H = SparseData(S), Wt, H
        m, n = self.shape
        self.mean = self.stored.mean + float(Wt.sum(axis=1) @ H.sum(axis=1)) / (m * n)
        cross = np.vdot(self.stored.HXt(H, np.empty_like(Wt)), Wt)
        whole = float(np.vdot(gram64(Wt), gram64(H)))
        self.norm2 = self.stored.norm2 + 2 * float(cross) + whole

    def HXt(self, H: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Cross product with a factor of the columns."""
        self.stored.HXt(H, out)
        out += (H @ self.H.T) @ self.Wt
        return out

    def WtX(self, Wt: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Cross product with a factor of the rows."""
        self.stored.WtX(Wt, out)
        out += (Wt @ self.Wt.T) @ self.H
        return out

    def residual_norm2(self, Wt: np.ndarray, H: np.ndarray) -> float:
        """‖S + W₀H₀ − WH‖², from products; it cancels near an exact fit."""
        product = float(np.vdot(self.HXt(H, np.empty_like(Wt)), Wt))
        model = float(np.vdot(gram64(Wt), gram64(H)))
        return max(0.0, self.norm2 - 2 * product + model)

    def digest(self) -> str:
        """A hash of the parts."""
        return digest(f"sparse and low rank {self.stored.digest()}", [self.Wt, self.H])
