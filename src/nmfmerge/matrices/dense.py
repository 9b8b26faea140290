"""X as a dense array, C- or Fortran-ordered, used as it lies in memory."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.linalg import svd as lapack_svd

from nmfmerge.backends.numba import gram64, one_blas_thread, share, share_ranges
from nmfmerge.backends.numba.elementwise import dense_cross_, n_blocks
from nmfmerge.backends.numba.kl_lines import Lines, lines_of_dense
from nmfmerge.matrices.base import DataMatrix, Side
from nmfmerge.matrices.digest import digest
from nmfmerge.matrices.offers import Need
from nmfmerge.matrices.rules import Rule
from nmfmerge.matrices.sample import Sample, heaviest
from nmfmerge.matrices.scale import split_scale
from nmfmerge.matrices.svd import Check, TruncatedSVD

_SMALL_SIDE = 64  # up to this smaller side nothing is faster than the full SVD
_GRAM_SIDE = 450  # up to this one, the eigenvectors of its Gram are, and the Gram is small
_WELL_SEPARATED = 1e-5  # a singular value below this share of the first is lost in a Gram
_BLOCK_BYTES = 2**19
_SHORT = 4e7  # flops of a product, up to which whole passes are compiled
_PART_FLOPS = 5e6  # of a product, done by one thread in one go
_PART_COLUMNS = 64  # a multiple of which a part has


class DenseData(DataMatrix):
    """A NumPy array as a data matrix; BLAS reads it in place in either order."""

    offers = frozenset(Need)

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

    def in_full(self) -> np.ndarray:
        """X in full scale."""
        factor = self.scale * self.unit**2
        return self.X if factor == 1 else self.X * self.dtype.type(factor)

    @staticmethod
    def accepts(X: Any) -> bool:
        """True if X is of this kind."""
        return isinstance(X, np.ndarray)

    def HXt(self, H: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Cross product (X Hᵀ)ᵀ, r × m, into ``out``."""
        return self._multiply(H, self.X.T, out)

    def WtX(self, Wt: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Cross product Wᵀ X, r × n, into ``out``."""
        return self._multiply(Wt, self.X, out)

    def _multiply(self, F: np.ndarray, X: np.ndarray, out: np.ndarray) -> np.ndarray:
        """F X into ``out``, in parts of columns that are the same for any number of threads."""
        width = _part_width(2.0 * len(F) * len(X))

        def multiply(first: int, last: int) -> None:
            parts = (_parts(A, width, first, last) for A in (X, out))
            for columns, products in zip(*parts, strict=True):
                np.matmul(F, columns, out=products)
            self._scaled_(out[:, first * width : last * width])

        share_ranges(multiply, -(-X.shape[1] // width))
        return out

    def gram(self, F: Any, out: Any) -> Any:
        """F Fᵀ of each start into ``out``: the sum over parts of columns, in their order."""
        n_starts, r, length = F.shape
        width = _part_width(2.0 * n_starts * r * r)
        n = -(-length // width)
        if n < 2:
            return super().gram(F, out)
        grams = np.empty((n, *out.shape), out.dtype)

        def multiply(first: int, last: int) -> None:
            for columns in _parts(F, width, first, last):
                done = first + len(columns)
                np.matmul(columns, columns.swapaxes(-1, -2), out=grams[first:done])
                first = done

        share_ranges(multiply, n)
        return np.sum(grams, axis=0, out=out)

    def for_passes(self, r: int) -> tuple[Any, float, Side] | None:
        """X as it lies in memory."""
        if 2.0 * r * self.X.size > _SHORT:
            return None
        by_rows = self.X.flags.c_contiguous
        return self.X if by_rows else self.X.T, float(self.scale), "W" if by_rows else "H"

    def lines(self, side: Side) -> Lines:
        """Rows of X for "W", columns for "H", as the Kullback–Leibler kernels read them."""
        return lines_of_dense(self.X if side == "W" else self.X.T, self.scale)

    def residual_norm2(self, Wt: np.ndarray, H: np.ndarray) -> float:
        """‖X − WH‖² by blocks of X."""
        if not self.X.flags.c_contiguous:  # X = WH is Xᵀ = HᵀWᵀ: walk along memory
            return _residual_norm2(self.X.T, self.scale, H, Wt)
        return _residual_norm2(self.X, self.scale, Wt, H)

    def _elementwise_cross_(
        self, side: Side, own: np.ndarray, other: np.ndarray, rule: Rule, out: np.ndarray
    ) -> float:
        X, number = self.X if side == "W" else self.X.T, self.dtype.type
        n = n_blocks(len(X))
        sums = np.empty(n)

        def part(i: int) -> None:
            dense_cross_(
                rule.code, number(rule.floor), number(self.scale), X, own, other, out, sums,
                i, i + 1,
            )  # fmt: skip

        with one_blas_thread():
            share(part, n)
        return float(sums.sum())

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
        with one_blas_thread():  # LAPACK takes small steps, which threads only slow down
            U, s, Vt = lapack_svd(self.X, full_matrices=False, check_finite=False)
        return TruncatedSVD.signed(U[:, :r].T.copy(), self._scaled_(s[:r]), Vt[:r].copy())

    def _svd_by_gram(self, r: int) -> TruncatedSVD:
        """Right vectors from the Gram of the smaller side; X times them gives the rest."""
        A = self.X if self.shape[0] >= self.shape[1] else self.X.T
        # All of them, by divide and conquer: LAPACK's other two ways return fewer eigenvectors than
        # asked for where eigenvalues are close, and change with the scale of X.
        G = gram64(A.T)
        with one_blas_thread():
            V = eigh(G, driver="evd", check_finite=False)[1][:, -r:].astype(self.dtype)
        AV = A @ V
        with one_blas_thread():
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
    sums = np.empty(-(-len(X) // rows))

    def part(i: int) -> None:
        block = X[i * rows : (i + 1) * rows]
        residual = Wt[:, i * rows : (i + 1) * rows].T.astype(np.float64, copy=False) @ H64
        residual -= block if scale == 1 else block * np.float64(scale)
        sums[i] = _squares(residual)

    with one_blas_thread():
        share(part, len(sums))
    return float(sums.sum())


def _parts(A: np.ndarray, width: int, first: int, last: int) -> Iterator[np.ndarray]:
    """Parts of so many columns each, along a first axis: those that are whole, then the last one.

    Views, of which one product multiplies all without Python's lock, each as if it were alone.
    """
    whole = min(last, A.shape[-1] // width)
    if first < whole:
        columns = A[..., first * width : whole * width]
        stacked = columns.reshape(*A.shape[:-1], whole - first, width)
        yield stacked.transpose(A.ndim - 1, *range(A.ndim - 1), A.ndim)
    if whole < last:
        yield A[None, ..., whole * width :]


def _part_width(flops: float) -> int:
    """Columns of a part of a product that takes so many flops a column."""
    return _PART_COLUMNS * max(1, round(_PART_FLOPS / max(1.0, flops) / _PART_COLUMNS))
