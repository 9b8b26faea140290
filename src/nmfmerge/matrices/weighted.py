"""X with a weight for each entry, zero where it is missing; nothing of a missing entry is kept.

Input: X with zeros for what is missing, and its `EntryWeights`. Products with factors are those of
M∘X, X times its weights; singular vectors are those of X completed by its margins. A loss that
minimises Σ m·d(x, y) takes the weights from here; no other code knows of them.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from nmfmerge.backends.numba import gram64
from nmfmerge.backends.numba.kl_lines import Lines
from nmfmerge.matrices.base import SIDES, Array, DataMatrix, Side
from nmfmerge.matrices.dense import DenseData
from nmfmerge.matrices.digest import digest
from nmfmerge.matrices.low_rank import LowRankPlus
from nmfmerge.matrices.offers import Need
from nmfmerge.matrices.sample import Sample
from nmfmerge.matrices.scale import unit_exponent
from nmfmerge.matrices.sparse import SparseData, entries
from nmfmerge.matrices.svd import Check, TruncatedSVD

Term = Callable[[Array, Array, Any], Array]  # of x and y, by the functions of NumPy or torch

_BLOCK_ENTRIES = 2**18  # of a residual at a time
_FEW = 0.5  # of a line may be missing, where sweeps look at X completed by WH
_ROUNDING = float(np.finfo(np.float64).eps)
_EXACT = 1e-9  # relative error of a sum above which it is made entry by entry
_MARGIN_ROUNDS = 200
_MARGIN_TOLERANCE = 1e-6


class EntryWeights:
    """Weights m from 0 to 1, kept as a matrix U of few entries where that is possible.

    Parameters
    ----------
    U : array or CSR matrix (m, n)
        The weights; or what they lack to 1, as a CSR matrix.
    complement : bool
        Whether the weights are 1 − u rather than u.
    """

    def __init__(self, U: Any, complement: bool) -> None:
        self.U: DataMatrix = SparseData(U) if sp.issparse(U) else DenseData(U)
        self.complement = complement
        self.is_sparse = bool(sp.issparse(U))
        self._lines: dict[Side, Lines] = {}

    @cached_property
    def few_missing(self) -> bool:
        """True if at most half of each row and of each column is missing, and all else counts 1."""
        if not (self.complement and self.is_sparse):
            return False
        shapes = zip(SIDES, self.U.shape[::-1], strict=True)
        return all(self.lines(side).longest <= _FEW * length for side, length in shapes)

    def lines(self, side: Side) -> Lines:
        """Rows or columns of U."""
        if side not in self._lines:
            self._lines[side] = self.U.lines(side)
        return self._lines[side]

    def cross(self, side: Side, F: np.ndarray) -> np.ndarray:
        """The cross product of the weights with a factor (n_starts × r × length)."""
        product = self.U.cross(side, F)
        if not self.complement:
            return product
        return F.sum(axis=2, keepdims=True, dtype=np.float64).astype(F.dtype) - product

    def sums(self, side: Side, F: np.ndarray) -> np.ndarray:
        """Σ m f of each line of a side, in float64 (n_starts × r × length)."""
        return np.asarray(self.cross(side, F), dtype=np.float64).clip(min=0)

    def unobserved(self, side: Side) -> np.ndarray:
        """Rows or columns without any weight."""
        ones = np.ones((1, 1, self.U.shape[1 if side == "W" else 0]), self.U.dtype)
        return np.flatnonzero(self.cross(side, ones)[0, 0] <= 0)

    def rows(self, rows: slice) -> np.ndarray:
        """Some rows of the weights."""
        U = self.U.X[rows].toarray() if self.is_sparse else self.U.X[rows]
        return np.asarray(1 - U if self.complement else U)


class WeightedData(DataMatrix):
    """A dense or CSR matrix in memory, and the weights of its entries.

    Parameters
    ----------
    X : array or CSR matrix (m, n)
        Zero where the weight is zero. A CSR matrix stores an entry wherever U does.
    weights : EntryWeights
        Its weights; those of a CSR matrix are in CSR, too.
    exponent : int
        X / 4ᵏ is factorized, k this number.
    weight_unit : float
        The weights of the user are these times this number.
    n_missing : int
        How many entries have no weight.
    """

    offers = frozenset(Need)
    kind = "data with missing values or weights"

    def __init__(
        self,
        X: Any,
        weights: EntryWeights,
        exponent: int = 0,
        weight_unit: float = 1.0,
        n_missing: int = 0,
    ) -> None:
        super().__init__(X, exponent)
        self.weights, self.weight_unit, self.n_missing = weights, weight_unit, n_missing
        self.is_sparse = bool(sp.issparse(X))
        kind: Any = SparseData if self.is_sparse else DenseData
        self.plain: DataMatrix = kind(X, exponent)
        self.X = X
        self.product: DataMatrix = self.plain  # M∘X
        if not weights.complement:
            self.product = self._weighted(kind(X, exponent))

    @property
    def norm2(self) -> float:  # type: ignore[override]
        """Σ m x²."""
        return self._totals[0]

    @property
    def mean(self) -> float:  # type: ignore[override]
        """Weighted mean of X."""
        return self._totals[1] / (self._totals[2] or 1.0)

    def _weighted(self, product: Any) -> Any:
        """M∘X from X; numbers near the end of their range are weighted once they are scaled."""
        U: Any = self.weights.U.X
        if self.is_sparse:
            product.X = sp.csr_array((product.X.data * U.data, U.indices, U.indptr), U.shape)
            product.values = product.values * U.data
        else:
            product.X = product.X * U
        return product

    @cached_property
    def _totals(self) -> tuple[float, float, float]:
        """Σ m x², Σ m x and Σ m."""
        m, n = self.shape
        if self.weights.complement:
            total = m * n - float(self.weights.U.mean) * m * n
            return self.plain.norm2, self.plain.mean * m * n, total
        U: Any = self.weights.U.X
        plain: Any = self.plain
        M, x = (U.data, plain.values) if self.is_sparse else (U, plain.X)
        squares = float((M * np.square(x, dtype=np.float64)).sum()) * plain.scale**2
        return squares, float(self.product.mean) * m * n, float(M.sum(dtype=np.float64))

    def HXt(self, H: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Cross product ((M∘X) Hᵀ)ᵀ, r × m, into ``out``."""
        return self.product.HXt(H, out)

    def WtX(self, Wt: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Cross product Wᵀ (M∘X), r × n, into ``out``."""
        return self.product.WtX(Wt, out)

    def residual_norm2(self, Wt: np.ndarray, H: np.ndarray) -> float:
        """Σ m (x − y)²."""
        Wt, H = (F.astype(np.float64, copy=False) for F in (Wt, H))
        everywhere = float(np.vdot(gram64(Wt), gram64(H)))
        return self.weighted_sum(lambda x, y, _: (x - y) ** 2, everywhere, Wt, H)

    def weighted_sum(self, term: Term, everywhere: float, Wt: np.ndarray, H: np.ndarray) -> float:
        """Σ m·term(x, y) in float64; ``everywhere`` is Σ term(0, y) over all entries."""
        Wt, H = (F.astype(np.float64, copy=False) for F in (Wt, H))
        if not self.is_sparse:
            return self._sum_of_all(term, Wt, H)
        stored, zeros = 0.0, 0.0
        x, u = self._stored_values()
        for part, y in self._stored_fit(Wt, H):
            stored += float(np.vdot(u[part], term(x[part], y, np)))
            zeros += float(term(np.zeros_like(y), y, np).sum())
        if not self.weights.complement:
            return stored
        total = stored + max(0.0, everywhere - zeros)
        if _ROUNDING * everywhere <= _EXACT * abs(total):
            return total
        return self._sum_of_all(term, Wt, H)  # WH is huge where X is missing, or fits X

    def _sum_of_all(self, term: Term, Wt: np.ndarray, H: np.ndarray) -> float:
        """Σ m·term(x, y), entry by entry."""
        return sum(float(np.vdot(M, term(x, y, np))) for M, x, y in self._blocks(Wt, H))

    def _blocks(
        self, Wt: np.ndarray, H: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """M, X and WH, some rows at a time, in float64."""
        step = max(1, _BLOCK_ENTRIES // self.shape[1])
        X, scale = self.plain.X, self.plain.scale  # type: ignore[attr-defined]
        for start in range(0, self.shape[0], step):
            rows = slice(start, start + step)
            x = (X[rows].toarray() if self.is_sparse else X[rows]).astype(np.float64) * scale
            yield self.weights.rows(rows).astype(np.float64, copy=False), x, Wt[:, rows].T @ H

    def _stored_values(self) -> tuple[np.ndarray, np.ndarray]:
        """The stored values of a CSR matrix, and their weights."""
        x = self.plain.values.astype(np.float64) * self.plain.scale  # type: ignore[attr-defined]
        U = self.weights.U.X
        if not self.weights.complement:
            return x, U.data
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.X.indptr))
        return x, 1 - entries(U, rows, self.X.indices)

    def _stored_fit(self, Wt: np.ndarray, H: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """WH at the stored entries of a CSR matrix, some at a time."""
        step = max(1, _BLOCK_ENTRIES // max(1, len(H)))
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.X.indptr))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            yield part, np.einsum("ke,ke->e", Wt[:, rows[part]], H[:, self.X.indices[part]])

    def completed(self, Wt: np.ndarray, H: np.ndarray) -> DataMatrix:
        """M∘X + (1 − M)∘WH of one start: X / unit² where its weight is 1, WH where it is missing.

        The squared distance of any W'H' from it bounds the weighted one of X, up to a constant,
        and the two agree at WH.
        """
        scale = self.dtype.type(self.plain.scale)  # type: ignore[attr-defined]
        if not self.is_sparse:
            X = np.multiply(self.plain.X, scale, order="C", dtype=self.dtype)
            step = max(1, _BLOCK_ENTRIES // self.shape[1])
            for start in range(0, self.shape[0], step):
                rows = slice(start, start + step)
                M, y = self.weights.rows(rows), Wt[:, rows].T @ H
                X[rows] = y + M * (X[rows] - y)
            return DenseData(X)
        x, m = self._stored_values()
        values = np.empty(len(x), self.dtype)
        for part, y in self._stored_fit(Wt, H):
            rest = 1 - m[part] if self.weights.complement else -m[part]
            values[part] = m[part] * x[part] + rest * y
        stored = sp.csr_array((values, self.X.indices, self.X.indptr), self.shape)
        return SparseData(stored) if self.weights.complement else LowRankPlus(stored, Wt, H)

    def margins(self) -> tuple[np.ndarray, np.ndarray]:
        """Factors of rank 1 (1 × m and 1 × n) whose weighted row and column sums are those of X.

        They are its best fit of rank 1 by the Kullback–Leibler divergence, which without weights
        is the product of the row and column sums over their total.
        """
        m, n = self.shape
        w, h = np.ones((1, m), self.dtype), np.ones((1, n), self.dtype)
        rows, columns = (
            product(ones, np.empty((1, length), self.dtype))
            for product, ones, length in ((self.HXt, h, m), (self.WtX, w, n))
        )
        for _ in range(_MARGIN_ROUNDS):
            before = h
            w = ratio(rows, self.weights.cross("W", h[None])[0])
            h = ratio(columns, self.weights.cross("H", w[None])[0])
            if np.abs(h - before).max() <= _MARGIN_TOLERANCE * h.max():
                break
        size = np.sqrt(h.max() / (w.max() or 1)) or h.dtype.type(1)
        return w * size, h / size

    def _compute_svd(self, r: int, check: Check | None) -> TruncatedSVD:
        return self.completed(*self.margins())._compute_svd(r, check)

    def digest(self) -> str:
        """A hash of the observed values and of the weights."""
        parts = self.plain.digest(), self.weights.U.digest(), self.weights.complement
        return digest(f"weighted {parts}", [])

    def with_values(self, X: Any) -> "WeightedData":
        """Other values in the place of X, zero where it is missing."""
        exponent = unit_exponent(float(X.max()))
        return WeightedData(X, self.weights, exponent, self.weight_unit, self.n_missing)

    def transposed(self) -> "WeightedData":
        """Xᵀ, with its weights."""
        return self._of_each(lambda A: A.T)

    def part(self, axis: int, places: Any) -> "WeightedData":
        """Some rows (axis 0) or columns (axis 1) of X, with their weights."""
        return self._of_each(lambda A: A[places] if axis == 0 else A[:, places])

    def _of_each(self, taken: Callable[[Any], Any]) -> "WeightedData":
        """The same of X and of its weights."""
        X, U = (sp.csr_array(A) if sp.issparse(A) else np.ascontiguousarray(A)
                for A in map(taken, (self.X, self.weights.U.X)))  # fmt: skip
        weights = EntryWeights(U, self.weights.complement)
        return WeightedData(X, weights, unit_exponent(float(X.max())), self.weight_unit)

    def sample(self, max_entries: int) -> Sample | None:
        """The heaviest rows and columns of X, with their weights."""
        found = self.plain.sample(max_entries)
        assert found is not None
        U = self.weights.U.X[found.rows][:, found.columns]
        U = U.toarray() if self.weights.is_sparse else U
        return found._replace(weights=1 - U if self.weights.complement else U)


def ratio(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """Quotients, zero where there is nothing."""
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)
