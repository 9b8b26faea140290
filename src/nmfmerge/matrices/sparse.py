"""X as a SciPy sparse matrix or array, CSR or CSC; it is neither copied nor made dense."""

from functools import cached_property
from threading import local
from typing import Any

import numpy as np
import scipy.sparse as sp

from nmfmerge.backends.numba import Stored, available_threads, gram64, in_threads, thin_gram
from nmfmerge.backends.numba.csr import gather_, residual_sums_, scatter_
from nmfmerge.backends.numba.elementwise import gather_cross_, scatter_cross_
from nmfmerge.backends.numba.kl_lines import Lines, lines_of_sparse
from nmfmerge.matrices.base import DataMatrix, Side
from nmfmerge.matrices.digest import digest
from nmfmerge.matrices.offers import Need
from nmfmerge.matrices.rules import Rule
from nmfmerge.matrices.sample import Sample, heaviest
from nmfmerge.matrices.scale import split_scale

_SHORT = 1e7  # flops of a product, up to which whole passes are compiled
_WORTH_SHARING = 100_000  # stored values
_THIN = 32  # components, up to which our own Gram is as fast as that of BLAS


class _Scratch(local):
    """Arrays that are kept for one thread."""

    def __init__(self) -> None:
        self.kept: dict[str, np.ndarray] = {}


class SparseData(DataMatrix):
    """A CSR or CSC matrix as a data matrix; only its stored values are read.

    Matrices that are used by turns may share the room for their products, ``scratch``.
    """

    offers = frozenset(Need)
    kind = "a sparse matrix"

    def __init__(
        self, X: Any, unit_exponent: int = 0, scratch: dict[str, np.ndarray] | None = None
    ) -> None:
        super().__init__(X, unit_exponent)
        self.X = X
        self.values, self.scale = split_scale(X.data, unit_exponent)
        self._line_bounds, self._place_bounds = self._shares()
        self._shared_scratch, self._own_scratch = scratch, _Scratch()

    @cached_property
    def norm2(self) -> float:  # type: ignore[override]
        """‖X‖²."""
        squares = float(np.einsum("i,i->", self.values, self.values, dtype=np.float64))
        return squares * self.scale**2

    @cached_property
    def mean(self) -> float:  # type: ignore[override]
        """Mean of X."""
        total = float(self.values.sum(dtype=np.float64)) * self.scale
        return total / (self.shape[0] * self.shape[1])

    @staticmethod
    def accepts(X: Any) -> bool:
        """True if X is of this kind."""
        return sp.issparse(X) and X.format in ("csr", "csc")

    def HXt(self, H: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Cross product (X Hᵀ)ᵀ, r × m, into ``out``."""
        product = self._gather if self.X.format == "csr" else self._scatter
        return product(H, out)

    def WtX(self, Wt: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Cross product Wᵀ X, r × n, into ``out``."""
        product = self._scatter if self.X.format == "csr" else self._gather
        return product(Wt, out)

    def for_passes(self, r: int) -> tuple[Any, float, Side] | None:
        """The stored values, with room of its own for the factors of a start."""
        X, by_rows = self.X, self.X.format == "csr"
        if 2.0 * r * X.nnz > _SHORT:
            return None
        lengths = self.shape if by_rows else self.shape[::-1]
        room = (np.empty((length, r), self.dtype) for length in lengths)
        stored = Stored(X.indptr, X.indices, self.values, *room)
        return stored, float(self.scale), "W" if by_rows else "H"

    def lines(self, side: Side) -> Lines:
        """Rows of X for "W", columns for "H"; one of the two is a copy, in the other order."""
        X = type(self.X)((self.values, self.X.indices, self.X.indptr), self.shape)
        X = X.asformat("csr" if side == "W" else "csc")
        return lines_of_sparse(X.data, X.indptr, X.indices, self.scale)

    def sample(self, max_entries: int) -> Sample | None:
        """The heaviest rows and columns of X, made dense."""
        values = self.values.astype(np.float64)
        X = type(self.X)((values, self.X.indices, self.X.indptr), self.shape)
        of_rows, of_columns = (np.asarray(X.multiply(X).sum(axis=i)).ravel() for i in (1, 0))
        rows, columns = heaviest(of_rows, of_columns, max_entries)
        return Sample(rows, columns, X[rows][:, columns].toarray() * self.scale)

    def gram(self, F: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Our own for few components: waking BLAS costs more than a sparse product."""
        return thin_gram(F, out) if F.shape[1] <= _THIN else super().gram(F, out)

    def residual_norm2(self, Wt: np.ndarray, H: np.ndarray) -> float:
        """‖X − WH‖²: exact on the stored values, by Grams on the rest."""
        # Σ over all of (wh)² is ⟨WᵀW, HHᵀ⟩; trade its share at stored values for (x − wh)².
        everywhere = float(np.vdot(gram64(Wt), gram64(H)))
        lines, places = (Wt, H) if self.X.format == "csr" else (H, Wt)
        sums = np.empty((lines.shape[1], 2))
        factors = (np.ascontiguousarray(F.T, dtype=np.float64) for F in (lines, places))
        self._in_threads(residual_sums_, self._line_bounds, self.scale, *factors, sums)
        stored, fitted = sums.sum(axis=0)
        return float(stored + max(0.0, everywhere - fitted))

    def _elementwise_cross_(
        self, side: Side, own: np.ndarray, other: np.ndarray, rule: Rule, out: np.ndarray
    ) -> float:
        number = self.dtype.type
        by_lines = (self.X.format == "csr") == (side == "W")
        own, other = (np.ascontiguousarray(F.T) for F in (own, other))
        lines, places = (own, other) if by_lines else (other, own)
        kernel, bounds = (
            (gather_cross_, self._line_bounds) if by_lines else (scatter_cross_, self._place_bounds)
        )
        target, sums = np.empty_like(own), np.empty(len(own))
        self._in_threads(
            kernel, bounds, rule.code, number(rule.floor), number(self.scale), lines, places,
            target, sums,
        )  # fmt: skip
        out[:] = target.T
        return float(sums.sum())

    def digest(self) -> str:
        """A hash of the stored values and their places."""
        kind = f"{self.X.format} {self.shape}"
        return digest(kind, [self.X.indptr, self.X.indices, self.X.data])

    def _gather(self, F: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Product for the lines, from a factor of the places."""
        return self._product(gather_, "places", "lines", self._line_bounds, F, out)

    def _scatter(self, F: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Product for the places, from a factor of the lines."""
        return self._product(scatter_, "lines", "places", self._place_bounds, F, out)

    def _product(
        self,
        kernel: Any,
        known: str,
        wanted: str,
        bounds: list[int],
        F: np.ndarray,
        out: np.ndarray,
    ) -> np.ndarray:
        source = self._transposed(known, F)
        target = self._buffer(wanted, (out.shape[1], len(F)))
        self._in_threads(kernel, bounds, source, target)
        np.multiply(target.T, target.dtype.type(self.scale), out=out)
        return out

    def _in_threads(self, kernel: Any, bounds: list[int], *arguments: Any) -> None:
        X = self.X
        in_threads(kernel, bounds, X.indptr, X.indices, self.values, *arguments)

    def _transposed(self, name: str, F: np.ndarray) -> np.ndarray:
        """A factor row by row; one that cannot change is laid out once for several products."""
        if F.flags.writeable:
            source = self._buffer(name, (F.shape[1], len(F)))
            source[:] = F.T
            return source
        if self._scratch.get("fixed") is not F:
            self._scratch["fixed"], self._scratch["laid out"] = F, np.ascontiguousarray(F.T)
        return self._scratch["laid out"]

    @property
    def _scratch(self) -> dict[str, np.ndarray]:
        """Room for products: that of other matrices, or of this thread."""
        shared = self._shared_scratch
        return self._own_scratch.kept if shared is None else shared

    def _buffer(self, name: str, shape: tuple[int, int]) -> np.ndarray:
        """A kept array, so that iterations allocate nothing of the size of a factor."""
        kept = self._scratch.get(name)
        if kept is None or kept.shape != shape:
            kept = self._scratch[name] = np.empty(shape, self.dtype)
        return kept

    def _shares(self) -> tuple[list[int], list[int]]:
        """Bounds of lines, and of places, between which there are about as many stored values."""
        X = self.X
        n_places = X.shape[1] if X.format == "csr" else X.shape[0]
        shares = available_threads() if X.nnz > _WORTH_SHARING else 1
        if shares == 1:
            return [0, len(X.indptr) - 1], [0, n_places]
        targets = np.linspace(0, X.nnz, shares + 1)[1:-1]
        filled = np.cumsum(np.bincount(X.indices, minlength=n_places))
        lines = np.searchsorted(X.indptr, targets).tolist()
        places = np.searchsorted(filled, targets).tolist()
        return [0, *lines, len(X.indptr) - 1], [0, *places, n_places]


def entries(A: Any, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Entries of an array or a sparse matrix at some places, of which there may be none."""
    return np.asarray(A[rows, columns]).ravel() if len(rows) else np.empty(0, A.dtype)
