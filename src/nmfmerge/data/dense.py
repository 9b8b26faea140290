"""X as a dense array, C- or Fortran-ordered, used as it lies in memory."""

from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.linalg import svd as lapack_svd

from nmfmerge.data.base import DataMatrix, Side
from nmfmerge.data.digest import digest
from nmfmerge.data.sample import Sample, heaviest
from nmfmerge.data.scale import split_scale
from nmfmerge.data.svd import Check, TruncatedSVD
from nmfmerge.kernels import available_threads, blas_for, gram64, in_threads

_SMALL_SIDE = 64  # up to this smaller side nothing is faster than the full SVD
_GRAM_SIDE = 450  # up to this one, the eigenvectors of its Gram are, and the Gram is small
_WELL_SEPARATED = 1e-5  # a singular value below this share of the first is lost in a Gram
_BLOCK_BYTES = 2**19
_FLOPS_PER_THREAD = 5e6  # of a product of several starts, where waking threads pays


class DenseData(DataMatrix):
    """A NumPy array as a data matrix; BLAS reads it in place in either order."""

    def __init__(self, X: np.ndarray, unit_exponent: int = 0) -> None:
        super().__init__(X, unit_exponent)
        if not (X.flags.c_contiguous or X.flags.f_contiguous):
            X = np.ascontiguousarray(X)
        self.X, self.scale = split_scale(X, unit_exponent)

    @cached_property
    def norm2(self) -> float:  # type: ignore[override]
        """‖X‖²."""
        return sum(_squares(block) for block in _float64_blocks(self.X)) * self.scale**2

    @cached_property
    def mean(self) -> float:  # type: ignore[override]
        """Mean of X."""
        return float(self.X.mean(dtype=np.float64)) * self.scale

    @staticmethod
    def accepts(X: Any) -> bool:
        """Whether X is of this kind."""
        return isinstance(X, np.ndarray)

    def HXt(self, H: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Cross product (X Hᵀ)ᵀ, r × m, into ``out``."""
        return self._scaled_(np.dot(H, self.X.T, out=out))

    def WtX(self, Wt: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Cross product Wᵀ X, r × n, into ``out``."""
        return self._scaled_(np.dot(Wt, self.X, out=out))

    def residual_norm2(self, Wt: np.ndarray, H: np.ndarray) -> float:
        """‖X − WH‖² by blocks of X."""
        if not self.X.flags.c_contiguous:  # X = WH is Xᵀ = HᵀWᵀ: walk along memory
            return _residual_norm2(self.X.T, self.scale, H, Wt)
        return _residual_norm2(self.X, self.scale, Wt, H)

    def blas_flops(self, r: int, n_starts: int = 1) -> float:
        """All of a cross product, unless our own threads share it."""
        return 0.0 if self._threads(r, n_starts) > 1 else 2.0 * n_starts * r * self.X.size

    def cross(self, side: Side, F: Any, out: Any = None) -> Any:
        """The cross product of all starts; in a fit from several, each thread has a part of X.

        BLAS has one thread then: its own wait by spinning, on cores that the sweeps need.
        """
        out = self._room(side, F) if out is None else out
        if self._threads(F.shape[1], len(F)) < 2:
            return super().cross(side, F, out)
        X = self.X.T if side == "W" else self.X
        stacked, product = (A.reshape(-1, A.shape[-1]) for A in (F, out))

        def multiply(first: int, last: int) -> None:
            part = product[:, first:last]
            np.matmul(stacked, X[:, first:last], out=part)
            self._scaled_(part)

        n = self._threads(F.shape[1], len(F))
        in_threads(multiply, [X.shape[1] * i // n for i in range(n + 1)])
        return out

    def _threads(self, r: int, n_starts: int) -> int:
        """Threads of our own for a cross product of so many starts."""
        flops = 2.0 * n_starts * r * self.X.size
        most = available_threads() if self.own_threads else 1
        return max(1, min(most, int(flops / _FLOPS_PER_THREAD)))

    def _scaled_(self, product: np.ndarray) -> np.ndarray:
        if self.scale != 1:
            product *= product.dtype.type(self.scale)
        return product

    def sample(self, max_entries: int) -> Sample | None:
        """The heaviest rows and columns of X."""
        of_rows, of_columns = (
            np.einsum(f"ij,ij->{i}", self.X, self.X, dtype=np.float64) for i in "ij"
        )
        rows, columns = heaviest(of_rows, of_columns, max_entries)
        X = self.X if self.X.size <= max_entries else self.X[np.ix_(rows, columns)]
        return Sample(rows, columns, X.astype(np.float64, copy=False) * self.scale)

    def digest(self) -> str:
        """A hash of the values of X, the same for C and Fortran order."""
        return digest(f"dense {self.unit}", [self.X])

    def _compute_svd(self, r: int, check: Check | None) -> TruncatedSVD:
        side = min(self.shape)
        if side > max(_GRAM_SIDE, 5 * r):
            return super()._compute_svd(r, check)
        check = check or (lambda: None)
        if side > max(_SMALL_SIDE, 3 * r):
            check()
            svd = self._svd_by_gram(r)
            if svd.s[-1] > _WELL_SEPARATED * svd.s[0]:
                return svd
        check()
        with blas_for(0):  # LAPACK takes small steps, which threads only slow down
            U, s, Vt = lapack_svd(self.X, full_matrices=False, check_finite=False)
        return TruncatedSVD.signed(U[:, :r].T.copy(), self._scaled_(s[:r]), Vt[:r].copy())

    def _svd_by_gram(self, r: int) -> TruncatedSVD:
        """Right vectors from the Gram of the smaller side; X times them gives the rest."""
        A = self.X if self.shape[0] >= self.shape[1] else self.X.T
        # All of them, by divide and conquer: LAPACK's other two ways return fewer eigenvectors than
        # asked for where eigenvalues are close, and change with the scale of X.
        G = gram64(A.T)
        with blas_for(0):
            V = eigh(G, driver="evd", check_finite=False)[1][:, -r:].astype(self.dtype)
        AV = A @ V
        with blas_for(0):
            U, s, Yt = lapack_svd(AV, full_matrices=False, check_finite=False)
        s = self._scaled_(s)
        left, right = U.T, Yt @ V.T
        if A is self.X:
            return TruncatedSVD.signed(left, s, right)
        return TruncatedSVD.signed(right, s, left)


def _squares(block: np.ndarray) -> float:
    """Sum of squares, without waking the threads of BLAS."""
    return float(np.einsum("ij,ij->", block, block))


def _rows_per_block(X: np.ndarray) -> int:
    return max(1, _BLOCK_BYTES // (8 * X.shape[1]))


def _float64_blocks(X: np.ndarray):  # type: ignore[no-untyped-def]
    """Yield X in row blocks of float64 (a view where X is float64 already)."""
    X = X if X.flags.c_contiguous else X.T
    rows = _rows_per_block(X)
    for start in range(0, X.shape[0], rows):
        yield X[start : start + rows].astype(np.float64, copy=False)


def _residual_norm2(X: np.ndarray, scale: float, Wt: np.ndarray, H: np.ndarray) -> float:
    rows = _rows_per_block(X)
    H64 = H.astype(np.float64, copy=False)
    total = 0.0
    for start in range(0, X.shape[0], rows):
        W_block = Wt[:, start : start + rows].T.astype(np.float64, copy=False)
        residual = W_block @ H64
        block = X[start : start + rows]
        residual -= block if scale == 1 else block * np.float64(scale)
        total += _squares(residual)
    return total
