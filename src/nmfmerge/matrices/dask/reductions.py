"""Reductions: what a shard may be asked. An answer is small: a sum over its blocks, or like one.

The answers of several shards are combined in the order of the shards, so that the bits do not
depend on which worker has which shard.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nmfmerge.backends.numba import gram64, part_norms, rise
from nmfmerge.matrices.dask.fingerprint import fingerprint
from nmfmerge.matrices.rules import Rule
from nmfmerge.matrices.sparse import SparseData

if TYPE_CHECKING:
    from nmfmerge.matrices.dask.part import Part


@dataclass(frozen=True, eq=False)
class Reduction:
    """Something to sum over blocks; it is about parts of factors, by their numbers."""

    reads: ClassVar[bool] = False  # whether it looks at X itself
    parts: tuple[int, ...] = ()

    def of(self, part: "Part") -> Any:
        """The answer of one block."""
        raise NotImplementedError

    def add(self, total: Any, more: Any) -> Any:
        """Two answers as one; ``total`` may be changed."""
        total += more
        return total


@dataclass(frozen=True, eq=False)
class Products(Reduction):
    """F Oᵀ of two parts, summed in float64; ``exact``: multiplied in float64, too."""

    exact: bool = False

    def of(self, part: "Part") -> np.ndarray:
        """F Oᵀ of one block."""
        F, other = (part.value(number) for number in self.parts)
        if self.exact and F.dtype != np.float64:
            if F is other:
                return gram64(F)
            F, other = F.astype(np.float64), other.astype(np.float64)
        return np.matmul(F, other.T).astype(np.float64, copy=False)


@dataclass(frozen=True, eq=False)
class Crosses(Reduction):
    """The cross product of several parts with X, one after the other."""

    reads: ClassVar[bool] = True

    def of(self, part: "Part") -> np.ndarray:
        """Wᵀ X of one block."""
        return part.crossed([part.value(one) for one in self.parts])


@dataclass(frozen=True, eq=False)
class Notes(Reduction):
    """The sums noted during sweeps."""

    def of(self, part: "Part") -> np.ndarray:
        """One row of notes for each part."""
        for one in self.parts:
            part.value(one)
        return np.stack([part.noted(one) for one in self.parts])


@dataclass(frozen=True, eq=False)
class Rise(Reduction):
    """By how much the objective rises from a part that was swept to its extrapolation.

    That is for the H of the sweep, and summed from its parts, as `kernels.rise` does.
    """

    def of(self, part: "Part") -> np.ndarray:
        """One number."""
        swept, extrapolated = self.parts
        F, old = part.value(extrapolated), part.value(swept)
        G, C = part.subproblem(swept)
        return rise(F[None], G[None], C[None], old[None])


@dataclass(frozen=True, eq=False)
class PartSquares(Reduction):
    """Sums of squares of the positive and negative entries of each component."""

    def of(self, part: "Part") -> np.ndarray:
        """Sums of squares, r × 2."""
        return part_norms(part.value(*self.parts)[None])[0] ** 2


@dataclass(frozen=True, eq=False)
class Sums(Reduction):
    """The sum of each component."""

    def of(self, part: "Part") -> np.ndarray:
        """Sums, in float64."""
        return part.value(*self.parts).sum(axis=1, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Extremes(Reduction):
    """The largest entry of each component, and the largest of its opposite."""

    def of(self, part: "Part") -> np.ndarray:
        """Both, r × 2."""
        F = part.value(*self.parts)
        return np.stack([F.max(axis=1, initial=0), -F.min(axis=1, initial=0)], axis=1)

    def add(self, total: Any, more: Any) -> Any:
        """The larger ones."""
        return np.maximum(total, more)


@dataclass(frozen=True, eq=False)
class Triangle(Reduction):
    """The triangle R of Fᵀ = QR, in float64: it has the singular values of F, to full precision."""

    def of(self, part: "Part") -> np.ndarray:
        """R of one block."""
        return _triangle(part.value(*self.parts).T.astype(np.float64))

    def add(self, total: Any, more: Any) -> Any:
        """R of both."""
        return _triangle(np.concatenate([total, more]))


def _triangle(A: np.ndarray) -> np.ndarray:
    R: Any = np.linalg.qr(A, mode="r")
    return np.asarray(R)


@dataclass(frozen=True, eq=False)
class ColumnGram(Reduction):
    """XᵀX, of the short side of X, in float64."""

    reads: ClassVar[bool] = True

    def of(self, part: "Part") -> np.ndarray:
        """XᵀX of one block."""
        return self.gram(part.matrix)

    def gram(self, matrix: Any) -> np.ndarray:
        """XᵀX of a matrix."""
        X, scale = matrix.X, matrix.scale
        if not isinstance(matrix, SparseData):
            return gram64(X.T) * scale**2
        X = type(X)((matrix.values, X.indices, X.indptr), X.shape).astype(np.float64)
        return np.asarray((X.T @ X).toarray() * scale**2)


@dataclass(frozen=True, eq=False)
class Residuals(Reduction):
    """‖X − WH‖² for each of several parts and its H."""

    reads: ClassVar[bool] = True
    H: Sequence[np.ndarray] = ()

    def of(self, part: "Part") -> np.ndarray:
        """One number for each part."""
        return np.array(
            [
                part.matrix.residual_norm2(part.value(one), H)
                for one, H in zip(self.parts, self.H, strict=True)
            ]
        )


@dataclass(frozen=True, eq=False)
class ElementwiseCrosses(Reduction):
    """WᵀE of E = rule(X, WH) for each of several parts and its H, and the sums of the rule.

    In float64, one row for each part: the product, r × the short side, and then the sum.
    """

    reads: ClassVar[bool] = True
    H: Sequence[np.ndarray] = ()
    rule: Rule | None = None

    def of(self, part: "Part") -> np.ndarray:
        """One row for each part."""
        assert self.rule is not None
        rows = []
        for one, H in zip(self.parts, self.H, strict=True):
            Wt = part.value(one)
            product, sums = part.matrix.elementwise_cross("H", Wt[None], H[None], self.rule)
            rows.append(np.append(product.ravel().astype(np.float64), sums))
        return np.stack(rows)


@dataclass(frozen=True)
class Facts:
    """Facts about a chunk from the first pass; squares and total are of X / 4ᵏ, k its exponent.

    Both are weighted sums over what is observed, if entries are missing or have weights.
    """

    chunk: int
    n_rows: int
    n_bytes: int  # as `portable_size` counts them
    is_sparse: bool
    by_rows: bool  # whether rows lie one after the other in memory, else columns
    low: float
    high: float
    exponent: int
    squares: float
    total: float
    wrong: str  # where its first wrong entry is
    weights: np.ndarray | None = None  # Σ m of each column, if entries are missing or have weights
    unobserved: tuple[int, ...] = ()  # rows without any weight
    n_missing: int = 0


@dataclass(frozen=True, eq=False)
class Survey(Reduction):
    """The facts of each chunk."""

    reads: ClassVar[bool] = True

    def of(self, part: "Part") -> list[Facts]:
        """Of one."""
        return [part.facts()]


@dataclass(frozen=True, eq=False)
class Fingerprint(Reduction):
    """Sums of hashes of the values."""

    reads: ClassVar[bool] = True

    def of(self, part: "Part") -> np.ndarray:
        """Of a block."""
        return fingerprint(part.matrix.X, part.first)
