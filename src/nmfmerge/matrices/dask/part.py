"""One block of X in a pass: its part of every factor, computed from expressions on demand."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nmfmerge.matrices.dask.chunk_reader import portable_size
from nmfmerge.matrices.dask.expressions import FactorExpression, FromShort, Swept
from nmfmerge.matrices.dask.reductions import Facts
from nmfmerge.matrices.dask.spans import Span
from nmfmerge.matrices.dask.weighted_block import WeightedBlock, entries, observed_sums
from nmfmerge.matrices.dense import DenseData
from nmfmerge.matrices.scale import unit_exponent
from nmfmerge.matrices.sparse import SparseData


@dataclass(eq=False)
class Scratch:
    """Reusable arrays: allocating temporary ones would be expensive."""

    dtype: np.dtype
    _kept: dict[str, np.ndarray] = field(default_factory=dict)
    _free: dict[tuple[int, int], list[np.ndarray]] = field(default_factory=dict)
    _components: int = 0  # of what is free

    def array(self, name: str, shape: tuple[int, int]) -> np.ndarray:
        """The array of this name; what it holds is lost."""
        kept = self._kept.get(name)
        if kept is None or kept.shape != shape:
            kept = self._kept[name] = np.empty(shape, self.dtype)
        return kept

    def room(self, shape: tuple[int, int]) -> np.ndarray:
        """An array of one's own."""
        if shape[0] != self._components:  # what is free is of no use any more
            self._free, self._components = {}, shape[0]
        free = self._free.get(shape)
        return free.pop() if free else np.empty(shape, self.dtype)

    def give_back(self, A: np.ndarray) -> None:
        """Take back an array that is no longer needed."""
        if A.flags.owndata and A.flags.c_contiguous and len(A) == self._components:
            self._free.setdefault(A.shape, []).append(A)


@dataclass(eq=False)
class Block:
    """The state of one span of a shard."""

    span: Span
    rows: dict[int, np.ndarray] = field(default_factory=dict)  # parts of factors, by their numbers
    notes: dict[int, np.ndarray] = field(default_factory=dict)

    def drop(self, number: int, scratch: Scratch) -> None:
        """Forget a part."""
        F = self.rows.pop(number, None)
        self.notes.pop(number, None)
        if F is not None:
            scratch.give_back(F)


class Part:
    """A block with expressions, while a message is dealt with."""

    def __init__(
        self,
        block: Block,
        expressions: Mapping[int, FactorExpression],
        scratch: Scratch,
        read: Callable[[], Any],
    ) -> None:
        self.block, self.first, self.n_rows = block, block.span.first, block.span.n_rows
        self._recipes, self._scratch, self._read = expressions, scratch, read
        self._matrix: DenseData | SparseData | None = None
        self._made: dict[int, np.ndarray] = {}
        self._crosses: dict[int, np.ndarray] = {}
        self._making = 0

    def missing(self, wanted: tuple[int, ...]) -> list[int]:
        """Parts that have to be made for these, by their numbers."""
        found: dict[int, None] = {}
        stack = list(wanted)
        while stack:
            number = stack.pop()
            expression = self._recipes.get(number)
            if expression is not None and number not in found and number not in self.block.rows:
                found[number] = None
                stack += expression.parents
        return sorted(found)

    def multiply(self, numbers: list[int], shorts: np.ndarray) -> None:
        """Multiply X with the short factors of all parts that are to be made, at once."""
        matrix = self.matrix
        out = self._scratch.array("cross", (len(shorts), matrix.shape[0]))
        matrix.HXt(shorts, out)
        first = 0
        for number in numbers:
            expression = self._recipes[number]
            assert isinstance(expression, FromShort)
            self._crosses[number] = cross = out[first : first + len(expression.H)]
            if expression.l1:
                cross -= expression.l1
            first += len(cross)

    def subproblem(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """The Gram and the cross product that a part is swept by."""
        expression = self._recipes[number]
        assert isinstance(expression, Swept)
        if number not in self._crosses:  # it was made in an earlier pass
            room = np.empty((len(expression.H), self.n_rows), expression.H.dtype)
            self._crosses[number] = self.matrix.HXt(expression.H, room) - expression.l1
        return expression.G, self._crosses[number]

    def value(self, number: int) -> np.ndarray:
        """A part; it is made if it is not there."""
        F = self.known(number)
        if F is None:
            before, self._making = self._making, number
            F = self._recipes[number].make(self, self._crosses.get(number))
            self._made[number], self._making = F, before
        return F

    def known(self, number: int) -> np.ndarray | None:
        """A part, if it is there."""
        F = self.block.rows.get(number)
        return self._made.get(number) if F is None else F

    def found(self, number: int) -> np.ndarray | None:
        """A part that is there, or that there is a expression for."""
        return self.value(number) if number in self._recipes else self.known(number)

    def put(self, number: int, F: np.ndarray) -> None:
        """Put a copy in the place of a part that was lost."""
        self.block.rows[number] = F.copy()

    def note(self, notes: np.ndarray) -> None:
        """Note numbers about the part that is being made."""
        self.block.notes[self._making] = notes

    def noted(self, number: int) -> np.ndarray:
        """The sums noted when a part was computed."""
        return self.block.notes[number]

    def keep(self, numbers: tuple[int, ...]) -> None:
        """Keep parts for later passes; make them if they were not asked for."""
        for number in numbers:
            self.block.rows[number] = self.value(number)
        for number, F in self._made.items():
            if number not in numbers:
                self._scratch.give_back(F)
        self._made.clear()

    def room(self, r: int) -> np.ndarray:
        """An array for a part of r components."""
        return self._scratch.room((r, self.n_rows))

    @property
    def matrix(self) -> DenseData | SparseData:
        """The block of X, long side first."""
        if self._matrix is None:
            self._matrix = self._read()
        return self._matrix

    def crossed(self, parts: list[np.ndarray]) -> np.ndarray:
        """Cross product of parts with X, one after the other; it is good until the next."""
        F = parts[0]
        if len(parts) > 1:
            shape = (sum(map(len, parts)), self.n_rows)
            F = np.concatenate(parts, out=self._scratch.array("stacked", shape))
        out = self._scratch.array("crossed", (len(F), self.matrix.shape[1]))
        return self.matrix.WtX(F, out)

    def facts(self) -> Facts:
        """Check that the values can be factorized, and measure their size."""
        matrix = self.matrix
        X = matrix.X
        is_sparse = isinstance(matrix, SparseData)
        values = X.data if is_sparse else entries(matrix)[0]
        low, high = (values.min(), values.max()) if values.size else (0.0, 0.0)
        has_weights = isinstance(matrix, WeightedBlock) or (np.isnan(low) and not is_sparse)
        if has_weights:
            low, high = np.nanmin(values, initial=0), np.nanmax(values, initial=0)
        by_rows = X.format == "csr" if is_sparse else bool(X.flags.c_contiguous)
        size = (matrix.shape[0], portable_size(X), is_sparse, by_rows)
        known = (self.block.span.chunks.start, *size, float(low), float(high))
        if not (np.isfinite(low) and np.isfinite(high)) or low < 0:
            return Facts(*known, 0, 0.0, 0.0, _first_wrong(X if is_sparse else values))
        if matrix.shape[0] == 0:  # which has no mean
            return Facts(*known, 0, 0.0, 0.0, "")
        exponent = unit_exponent(float(high))
        scaled = type(matrix)(X, exponent)
        if has_weights:
            found = observed_sums(scaled)
            of_weights = found.weights, found.unobserved, found.n_missing
            return Facts(*known, exponent, found.squares, found.total, "", *of_weights)
        return Facts(*known, exponent, scaled.norm2, scaled.mean * X.shape[0] * X.shape[1], "")


def _first_wrong(X: Any) -> str:
    """Row, column and value of the first entry that is not finite, else of the first negative."""
    values = X if isinstance(X, np.ndarray) else X.data
    dense = isinstance(X, np.ndarray)
    wrong = np.isinf(values) if dense else ~np.isfinite(values)  # NaN in an array is missing
    at = int(np.argmax(wrong if wrong.any() else values < 0))
    if dense:
        i, j = np.unravel_index(at, X.shape)
    else:
        X = X.tocoo()
        i, j = X.row[at], X.col[at]
    return f"{i} {j} {values.ravel()[at]:.6g}"
