"""A sketch of X: its part in few directions, with which products take a fraction of the time.

Input: X. Output: a data matrix Q Qᵀ X, of two thin factors that are found by subspace iteration
(Halko, Martinsson & Tropp 2011). Where many fits of the same X are made, each goes most of its
way on the sketch (compressed NMF, Tepper & Sapiro 2016) and only the last steps on X.
"""

from typing import Any

import numpy as np

from nmfmerge.backends.numba import LowRank, one_blas_thread
from nmfmerge.matrices.base import DataMatrix, Side
from nmfmerge.matrices.dense import DenseData
from nmfmerge.matrices.digest import digest
from nmfmerge.matrices.sparse import SparseData

_LEAST = 48  # directions
_EACH = 4  # for each component
_ROUNDS = 6  # of subspace iteration: the rest of counts is noise, and falls off slowly
_GAIN = 8  # by how much products must be cheaper, in flops
_BLAS = 4  # how much faster flops of BLAS are than those of a sparse product


class Sketch(DataMatrix):
    """Uᵀ V in place of X, with U (k × m) and V (k × n); ``norm2`` and ``mean`` are those of X."""

    kind = "a sketch"

    def __init__(self, data: DataMatrix, U: np.ndarray, V: np.ndarray) -> None:
        super().__init__(data, 0)  # of X / unit² already
        self.unit, self.norm2, self.mean = data.unit, data.norm2, data.mean
        self.U, self.V = U, V

    def HXt(self, H: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Cross product with a factor of the columns."""
        return np.matmul(H @ self.V.T, self.U, out=out)

    def WtX(self, Wt: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Cross product with a factor of the rows."""
        return np.matmul(Wt @ self.U.T, self.V, out=out)

    def for_passes(self, r: int) -> tuple[Any, float, Side]:
        """Both factors; the rows of X are its lines."""
        return LowRank(self.U, self.V), 1.0, "W"

    def residual_norm2(self, Wt: np.ndarray, H: np.ndarray) -> float:
        """‖X − WH‖² up to the sketch, from products."""
        product = float(np.vdot(self.HXt(H, np.empty_like(Wt)), Wt))
        model = float(np.vdot(Wt @ Wt.T, H @ H.T))
        return max(0.0, self.norm2 - 2 * product + model)

    def digest(self) -> str:
        """A hash of the factors."""
        return digest("sketch", [self.U, self.V])


def sketch(data: DataMatrix, r: int) -> Sketch | None:
    """A sketch of X for fits of rank r, the same every time; None where it would not pay."""
    k = max(_LEAST, _EACH * r)
    if not _pays(data, k):
        return None
    m, n = data.shape
    F = np.random.default_rng(0).standard_normal((k, n)).astype(data.dtype)
    G = np.empty((k, m), data.dtype)
    for _ in range(_ROUNDS):
        F = data.WtX(_orthonormal(data.HXt(_orthonormal(F), G)), F)
    U = _orthonormal(data.HXt(_orthonormal(F), G))
    return Sketch(data, U, data.WtX(U, np.empty_like(F)))


def _pays(data: DataMatrix, k: int) -> bool:
    """Decided by the size of X alone, so that a fit has the same bits whatever else is fitted."""
    m, n = data.shape
    if k >= min(m, n):
        return False
    if isinstance(data, SparseData):
        return _BLAS * data.X.nnz > _GAIN * k * (m + n)
    return isinstance(data, DenseData) and m * n > _GAIN * k * (m + n)


def _orthonormal(F: np.ndarray) -> np.ndarray:
    """Orthonormal rows with the same span."""
    with one_blas_thread():
        return np.ascontiguousarray(np.linalg.qr(F.T)[0].T)
