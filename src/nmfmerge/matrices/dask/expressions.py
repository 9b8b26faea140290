"""Expressions: how a shard makes its part of one start of a long factor, from X and small arrays.

A part is component-major, r × the rows of a block. Parts are kept under the number of their
expression; one that was lost with its worker is made again. A sweep begins from the part before it.
Where that is lost the best part for the same H takes its place, so that only H must survive.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nmfmerge.backends.numba import extrapolated_, gram64, hals_sweep_, inner_product, nnls_columns
from nmfmerge.matrices.rules import Rule

if TYPE_CHECKING:
    from nmfmerge.matrices.dask.part import Part


@dataclass(frozen=True, eq=False)
class FactorExpression:
    """How to make the part of one start."""

    reads: ClassVar[bool] = False  # whether it looks at X itself

    @property
    def parents(self) -> tuple[int, ...]:
        """Numbers of the parts that it is made from."""
        return ()

    @property
    def short(self) -> np.ndarray | None:
        """The short factor whose cross product with X it needs."""
        return None

    def for_rows(self, first: int, last: int) -> "FactorExpression":
        """The part that a shard of these rows needs."""
        return self

    def make(self, part: "Part", cross: Any) -> np.ndarray:
        """Make the part, given the cross product of `short` with the block."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class FromShort(FactorExpression):
    """A part that is made from the cross product of a short factor with X, less ``l1``."""

    H: np.ndarray
    l1: float = field(default=0.0, kw_only=True)  # weight of the sum of the part

    @property
    def short(self) -> np.ndarray:
        """The short factor."""
        return self.H


class Crossed(FromShort):
    """The cross product (X Hᵀ)ᵀ itself."""

    def make(self, part: "Part", cross: Any) -> np.ndarray:
        """Copy it: the room that it lies in is used again."""
        return np.array(cross)


@dataclass(frozen=True, eq=False)
class Solved(FromShort):
    """The best nonnegative part for H, exactly."""

    l2: float = field(default=0.0, kw_only=True)  # weight of half the squared norm of the part

    def make(self, part: "Part", cross: Any) -> np.ndarray:
        """Solve nonnegative least squares for each row of X."""
        return nnls_columns(gram64(self.H) + self.l2 * np.eye(len(self.H)), cross)


@dataclass(frozen=True, eq=False)
class Swept(FromShort):
    """A HALS sweep for H, from an earlier part, extrapolated along its last move."""

    G: np.ndarray  # HHᵀ, with an L2 penalty on its diagonal
    base: int
    previous: int
    weight: float  # of the extrapolation; 0: it begins at base
    n_sweeps: int

    def make(self, part: "Part", cross: Any) -> np.ndarray:
        """Sweep; where the parts that it begins from were lost, solve for H instead."""
        r = len(self.H)
        notes = np.zeros(2 * r + 3)
        base, previous = part.found(self.base), part.found(self.previous)
        if base is None or (self.weight != 0 and previous is None):
            F = nnls_columns(self.G.astype(np.float64), cross)
            part.put(self.base, F)
        else:
            F = part.room(r)
            if self.weight == 0:
                F[:] = base
            else:
                extrapolated_(F, base, previous, self.weight)
            moved, total, decrease = hals_sweep_(
                F[None], self.G[None], cross[None], self.n_sweeps
            )  # fmt: skip
            notes[:r], notes[r : 2 * r], notes[2 * r] = moved[0], total[0], decrease[0]
        # All arguments are given: with defaults Numba looks up the types in every call.
        notes[2 * r + 1] = inner_product(F, cross, 0, F.shape[1])
        if self.l1:  # then the objective needs it
            notes[2 * r + 2] = F.sum(dtype=np.float64)
        part.note(notes)
        return F


@dataclass(frozen=True, eq=False)
class Extrapolated(FactorExpression):
    """A part moved further along its last move, cut off at zero."""

    base: int
    previous: int
    weight: float

    @property
    def parents(self) -> tuple[int, ...]:
        """The part."""
        return (self.base,)

    def make(self, part: "Part", cross: Any) -> np.ndarray:
        """Extrapolate; a part whose predecessor was lost stays where it is."""
        F = part.value(self.base)
        previous = part.found(self.previous)
        if previous is None:
            return F.copy()
        out = part.room(len(F))
        extrapolated_(out, F, previous, self.weight)
        return out


@dataclass(frozen=True, eq=False)
class Mixed(FactorExpression):
    """Small matrices times other parts, added up; negative numbers may become zero."""

    terms: tuple[tuple[np.ndarray, int], ...]
    positive: bool = False

    @property
    def parents(self) -> tuple[int, ...]:
        """The parts that are mixed."""
        return tuple(parent for _, parent in self.terms)

    def make(self, part: "Part", cross: Any) -> np.ndarray:
        """Mix."""
        total: Any = 0
        for A, parent in self.terms:
            F = part.value(parent)
            total = total + A.astype(F.dtype) @ F
        return np.maximum(total, 0, out=total) if self.positive else total


@dataclass(frozen=True, eq=False)
class ElementwiseCrossed(FactorExpression):
    """The product (E Hᵀ)ᵀ of E = rule(X, WH) for a part of W; its sum is noted."""

    reads: ClassVar[bool] = True
    rule: Rule
    H: np.ndarray
    parent: int

    @property
    def parents(self) -> tuple[int, ...]:
        """The part of W."""
        return (self.parent,)

    def make(self, part: "Part", cross: Any) -> np.ndarray:
        """Multiply."""
        Wt = part.value(self.parent)
        product, sums = part.matrix.elementwise_cross("W", Wt[None], self.H[None], self.rule)
        part.note(sums)
        return np.asarray(product[0])


@dataclass(frozen=True, eq=False)
class Uniform(FactorExpression):
    """Uniform random numbers: those that one generator draws for the whole factor.

    ``by_rows`` says whether it draws them row by row of X, or component by component.
    """

    r: int
    generator: dict[str, Any]  # its state
    length: int  # of the whole factor
    by_rows: bool
    dtype: np.dtype

    def make(self, part: "Part", cross: Any) -> np.ndarray:
        """Draw the numbers of these rows."""
        first, count = part.first, part.n_rows
        if self.by_rows:
            drawn = self.at(first * self.r).random((count, self.r)).T
        else:
            drawn = np.stack(
                [self.at(t * self.length + first).random(count) for t in range(self.r)]
            )
        return np.ascontiguousarray(drawn, dtype=self.dtype)

    def at(self, draws: int) -> np.random.Generator:
        """The generator after so many draws."""
        bits = getattr(np.random, self.generator["bit_generator"])()
        bits.state = self.generator
        bits.advance(draws)
        return np.random.Generator(bits)


@dataclass(frozen=True, eq=False)
class Filled(FactorExpression):
    """Another part with a number for its zeros, or uniform numbers up to it."""

    parent: int
    value: float
    random: Uniform | None = None

    @property
    def parents(self) -> tuple[int, ...]:
        """The part that is filled."""
        return (self.parent,)

    def make(self, part: "Part", cross: Any) -> np.ndarray:
        """Fill it."""
        F = part.value(self.parent)
        fill: Any = F.dtype.type(self.value)
        if self.random is not None:
            fill = fill * self.random.make(part, None)
        return np.where(F == 0, fill, F)


@dataclass(frozen=True, eq=False)
class GivenRows(FactorExpression):
    """Numbers that the user gave."""

    F: np.ndarray
    first: int = 0  # the row of X that its first column belongs to

    def for_rows(self, first: int, last: int) -> "GivenRows":
        """Those of a shard."""
        return replace(self, F=np.ascontiguousarray(self.F[:, first:last]), first=first)

    def make(self, part: "Part", cross: Any) -> np.ndarray:
        """Take those of a block."""
        first = part.first - self.first
        return np.ascontiguousarray(self.F[:, first : first + part.n_rows])
