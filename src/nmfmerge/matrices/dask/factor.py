"""Long factors: their parts lie in shards, and only small numbers of them are here.

`Rows` is one start of a long factor, `Factor` a batch of starts. What is computed of them comes by
reductions to the shards; what follows from numbers that are known is not asked for again.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol
from weakref import finalize

import numpy as np

from nmfmerge.backends import numba as kernels
from nmfmerge.matrices.dask.expressions import Crossed, Extrapolated, FactorExpression, Mixed, Swept
from nmfmerge.matrices.dask.reductions import (
    Crosses,
    Notes,
    PartSquares,
    Products,
    Reduction,
    Rise,
    Sums,
)

_CHEAP = 2e7  # multiplications of a cross product that takes less time than a message


class Shards(Protocol):
    """Where parts are made and kept."""

    dtype: np.dtype
    size: int  # entries of X
    unneeded: list[int]  # numbers of parts that are no longer needed

    @property
    def n_long(self) -> int:
        """Length of the long side of X."""

    def number(self) -> int:
        """A number for new rows."""

    def evaluate(
        self, rows: "Iterable[Rows]", *reductions: Reduction, through: "Iterable[Rows]" = ()
    ) -> list[Any]:
        """Ask reductions about rows, which are made and kept if they are not there.

        Others that are gone ``through`` on the way are not kept.
        """


class PrefetchedProducts(NamedTuple):
    """Products computed with a sweep for the extrapolation that is likely to follow.

    These are numbers, not rows: those know the rows that they come from, and would keep all of
    them.
    """

    previous: int
    weight: float
    gram: np.ndarray
    cross: np.ndarray | None
    rise: float
    residual: "ResidualCross | None" = None


class ResidualCross(NamedTuple):
    """The cross product of rows with E = M∘(X − WH), for a short factor."""

    H: np.ndarray
    product: np.ndarray  # WᵀE
    squares: float  # Σ m (x − y)²


class Rows:
    """One start of a long factor, r × the long side of X.

    Parameters
    ----------
    shards : Shards
        Where the parts are.
    r : int
        Number of components.
    expression : FactorExpression
        How parts are made.
    parents : sequence of Rows
        Those that the expression mixes.
    """

    def __init__(
        self, shards: Shards, r: int, expression: FactorExpression, parents: "Sequence[Rows]" = ()
    ) -> None:
        self.shards, self.expression, self.parents = shards, expression, tuple(parents)
        self.number = shards.number()
        self.shape = (r, shards.n_long)
        self.dtype = shards.dtype
        self.is_made = False  # whether shards have made it, at least once
        self._gram: np.ndarray | None = None
        self._cross: np.ndarray | None = None
        self._sum: float | None = None
        self.foreseen: PrefetchedProducts | None = None  # of its extrapolation
        self.residual: ResidualCross | None = None  # the last, where X has missing values
        self.rise = 0.0  # of an extrapolation: by how much the objective rose, where it was asked
        finalize(self, shards.unneeded.append, self.number)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        """A batch of one by ``None``; some components by a slice or indices."""
        if index is None:
            return Factor([self])
        return self.mixed(np.eye(len(self))[index])

    def gram(self) -> np.ndarray:
        """F Fᵀ, float64."""
        if self._gram is None:
            self._derive()
        if self._gram is None:
            self._gram = self.shards.evaluate([self], Products((self.number, self.number), True))[0]
        return self._gram

    def cross(self) -> np.ndarray:
        """The cross product with X, r × the short side of X."""
        if self._cross is None:
            self._derive()
        if self._cross is None:
            self._cross, self._gram = self.shards.evaluate(
                [self], Crosses((self.number,)), Products((self.number, self.number), True)
            )  # fmt: skip
        return self._cross

    def sum(self) -> float:
        """The sum of all entries, float64."""
        if self._sum is None:
            self._sum = float(self.shards.evaluate([self], Sums((self.number,)))[0].sum())
        return self._sum

    def know_sum(self, total: float) -> None:
        """Note what `sum` would ask for."""
        self._sum = total

    def know(self, gram: np.ndarray, cross: np.ndarray | None) -> None:
        """Note what is known already."""
        self._gram, self._cross = gram, cross

    @property
    def knows_cross(self) -> bool:
        """True if no pass over X is needed for the cross product."""
        if self._cross is None:
            self._derive()
        return self._cross is not None

    def _derive(self) -> None:
        """Products of rows that are a mixture of others follow from those, if they are known."""
        expression = self.expression
        if not isinstance(expression, Mixed) or expression.positive or len(expression.terms) != 1:
            return
        (A, _), (parent,) = expression.terms[0], self.parents
        if parent._gram is not None:
            self._gram = A @ parent._gram @ A.T
        if parent._cross is not None:
            self._cross = A.astype(parent._cross.dtype) @ parent._cross

    def products(self, other: "Rows") -> np.ndarray:
        """F Oᵀ, float64."""
        if other is self:
            return self.gram()
        reduction = Products((self.number, other.number), True)
        product: np.ndarray = self.shards.evaluate([self, other], reduction)[0]
        return product

    def mixed(self, A: np.ndarray, positive: bool = False) -> "Rows":
        """A small matrix times these rows."""
        return Rows(self.shards, len(A), Mixed(((A, self.number),), positive), [self])

    def extrapolated(self, previous: "Rows", weight: float) -> "Rows":
        """These rows moved further along their last move; as foreseen by the sweep, if it was."""
        if weight == 0 or previous is self:
            return self
        expression = Extrapolated(self.number, previous.number, weight)
        rows = Rows(self.shards, len(self), expression, [self, previous])
        known = self.foreseen
        if known is not None and known[:2] == (previous.number, weight):
            rows.know(known.gram, known.cross)
            rows.rise, rows.residual = known.rise, known.residual
        return rows

    def swept(self, H: np.ndarray, G: np.ndarray, n_sweeps: int, l1: float = 0.0) -> "Rows":
        """New rows from a sweep that begins here."""
        swept = Swept(H, G, *self.beginning, n_sweeps, l1=l1)
        return Rows(self.shards, len(self), swept)

    @property
    def beginning(self) -> tuple[int, int, float]:
        """The numbers that a sweep begins from: of two rows, and the weight of their difference."""
        begun = self.expression
        if isinstance(begun, Extrapolated):  # which is not made for that
            return begun.base, begun.previous, begun.weight
        return self.number, self.number, 0.0

    @property
    def begins(self) -> "Rows":
        """The rows that a sweep begins from, before they are extrapolated."""
        return self.parents[0] if isinstance(self.expression, Extrapolated) else self


class Factor:
    """A batch of starts of a long factor, which behaves as an array (n_starts, r, length)."""

    def __init__(self, rows: Sequence[Rows]) -> None:
        self.rows = list(rows)
        self._weights: np.ndarray | None = None
        self._sums_rise = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """Starts, components, length of the long side of X."""
        return (len(self.rows), *self.rows[0].shape)

    @property
    def dtype(self) -> np.dtype:
        """Of the numbers."""
        return self.rows[0].dtype

    @property
    def shards(self) -> Shards:
        """Where the parts are."""
        return self.rows[0].shards

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Any:
        return iter(self.rows)

    def __getitem__(self, index: Any) -> Any:
        """One start by its number; a batch by a slice or a list of numbers."""
        if isinstance(index, int | np.integer):
            return self.rows[index]
        if isinstance(index, slice):
            return Factor(self.rows[index])
        return Factor([self.rows[i] for i in index])

    def __setitem__(self, index: Any, other: "Factor") -> None:
        which = range(len(self.rows))[index] if isinstance(index, slice) else index
        for i, rows in zip(which, other.rows, strict=True):
            self.rows[i] = rows

    def __add__(self, other: "Factor") -> "Factor":
        return self._paired(other, lambda F, G: _sum(F, G))

    def __isub__(self, l1: float) -> "Factor":
        """Take a number off cross products with X."""
        for i, (rows, crossed) in enumerate(zip(self.rows, self.crossed(), strict=True)):
            less = replace(crossed, l1=crossed.l1 + l1)
            self.rows[i] = Rows(rows.shards, len(rows), less)
        return self

    def __imul__(self, scales: np.ndarray) -> "Factor":
        """Multiply components by their scales (n_starts × r × 1); ones change nothing."""
        for i, scale in enumerate(scales[:, :, 0]):
            if (scale != 1).any():
                self.rows[i] = self.rows[i].mixed(np.diag(scale.astype(np.float64)))
        return self

    def copy(self) -> "Factor":
        """Another batch of the same rows, which never change themselves."""
        return Factor(self.rows)

    def grams(self) -> np.ndarray:
        """F Fᵀ of each start, float64."""
        return np.stack([rows.gram() for rows in self.rows])

    def crosses(self) -> np.ndarray:
        """The cross product of each start with X, in one pass."""
        unknown = [rows for rows in self.rows if not rows.knows_cross]
        if len(unknown) > 1:
            reduction = Crosses(tuple(rows.number for rows in unknown))
            grams = [Products((rows.number, rows.number), True) for rows in unknown]
            product, *G = self.shards.evaluate(unknown, reduction, *grams)
            r = self.shape[1]
            for i, rows in enumerate(unknown):
                rows.know(G[i], product[i * r : (i + 1) * r])
        return np.stack([rows.cross() for rows in self.rows])

    def mixed(self, A: np.ndarray, positive: bool = False) -> "Factor":
        """A small matrix for each start, times its rows; rows of one start serve all."""
        rows = self.rows * len(A) if len(self.rows) == 1 else self.rows
        return Factor([one.mixed(B, positive) for one, B in zip(rows, A, strict=True)])

    def joined(self, other: "Factor") -> "Factor":
        """Components of both."""
        return self._paired(other, _joined)

    def products(self, other: "Factor") -> np.ndarray:
        """F Oᵀ of each start."""
        pairs = self._pairs(other)
        return np.stack([F.products(G) for F, G in pairs])

    def part_squares(self) -> np.ndarray:
        """Sums of squares of positive and negative entries, n_starts × r × 2."""
        reductions = [PartSquares((rows.number,)) for rows in self.rows]
        return np.stack(self.shards.evaluate(self.rows, *reductions))

    def sums(self) -> np.ndarray:
        """The sum of the factor of each start."""
        return np.array([rows.sum() for rows in self.rows])

    def crossed(self) -> list[Crossed]:
        """Of cross products with X: how they are made."""
        expressions = [rows.expression for rows in self.rows]
        return [expression for expression in expressions if isinstance(expression, Crossed)]

    def inner(self, C: "Factor") -> np.ndarray:
        """⟨c_t, f_t⟩ of each component, for C the cross product of X with a short factor S.

        That is ⟨s_t, (F X)_t⟩ too, for which no pass over X is needed, less the sum of f_t times
        what was taken off C.
        """
        crossed = C.crossed()
        if not crossed:  # of a completed X
            return np.einsum("stt->st", self.products(C))
        found = kernels.row_products(np.stack([one.H for one in crossed]), self.crosses())
        l1 = np.array([one.l1 for one in crossed])
        if not l1.any():
            return found
        reductions = [Sums((rows.number,)) for rows in self.rows]
        sums = np.stack(self.shards.evaluate(self.rows, *reductions))
        return np.asarray(found - l1[:, None] * sums)

    def extrapolated(self, previous: "Factor", weights: np.ndarray) -> "Factor":
        """These rows and their last move, each start with its weight."""
        return Factor(
            [
                F.extrapolated(before, float(weight))
                for F, before, weight in zip(self.rows, previous.rows, weights, strict=True)
            ]
        )

    def foresee(self, weights: np.ndarray, sums_rise: bool) -> None:
        """Say how each start is likely to be extrapolated after the next sweep.

        With ``sums_rise`` it is noted by how much the objective rises by that.
        """
        self._weights, self._sums_rise = weights, sums_rise

    def sweep_(self, G: np.ndarray, C: "Factor", n_sweeps: int) -> tuple[Any, ...]:
        """Sweep over the components of all starts, in one pass that also gives products.

        These are the products of what is needed next: of the rows as they are foreseen to be
        extrapolated, or else of the new rows.
        Returns ‖new − old‖², ‖new + old‖², by how much the objective fell, and ⟨C, F⟩.
        """
        r, crossed = self.shape[1], C.crossed()
        new = [
            rows.swept(one.H, np.ascontiguousarray(G[i]), n_sweeps, one.l1)
            for i, (rows, one) in enumerate(zip(self.rows, crossed, strict=True))
        ]
        n, begun, next_ = len(new), [rows.begins for rows in self.rows], self.after(new)
        own = [Products((rows.number, rows.number)) for rows in new]
        ahead = [Products((rows.number, rows.number)) for rows in next_ if next_ is not new]
        moved = [i for i in range(n) if self._sums_rise and next_[i] is not new[i]]
        multiplied = next_
        if ahead and r * self.shards.size < _CHEAP:  # a step that is taken back needs these, too
            multiplied = [*next_, *new]
        notes, product, *rest = self.shards.evaluate(
            [*(rows for rows in begun if not rows.is_made), *new],
            Notes(tuple(rows.number for rows in new)),
            Crosses(tuple(rows.number for rows in multiplied)),
            *own,
            *ahead,
            *(Rise((new[i].number, next_[i].number)) for i in moved),
            through=next_,
        )
        products = [product[i * r : (i + 1) * r] for i in range(len(multiplied))]
        for i, rows in enumerate(new):
            rows.know(rest[i], products[n + i] if len(products) > n else None)
            if crossed[i].l1:
                rows.know_sum(float(notes[i, 2 * r + 2]))
            next_[i].know((rest[n:] if ahead else rest)[i], products[i])
        rises = {i: float(risen[0]) for i, risen in zip(moved, rest[2 * n :], strict=True)}
        for i, rows in enumerate(new):
            expression = next_[i].expression
            if isinstance(expression, Extrapolated):
                found = next_[i].gram(), next_[i].cross(), rises.get(i, 0.0)
                rows.foreseen = PrefetchedProducts(expression.previous, expression.weight, *found)
        self.take_up(new)
        return notes[:, :r], notes[:, r : 2 * r], notes[:, 2 * r], notes[:, 2 * r + 1]

    def after(self, new: list[Rows]) -> list[Rows]:
        """The likely extrapolation of new rows; these themselves, if none was announced."""
        if self._weights is None:
            return new
        begun = [rows.begins for rows in self.rows]
        steps = zip(new, begun, self._weights, strict=True)
        return [rows.extrapolated(old, float(weight)) for rows, old, weight in steps]

    def take_up(self, new: list[Rows]) -> None:
        """Replace all rows by those of a sweep."""
        self.rows, self._weights = new, None

    def _pairs(self, other: "Factor") -> list[tuple[Rows, Rows]]:
        n = max(len(self), len(other))
        both = (F.rows * n if len(F) == 1 else F.rows for F in (self, other))
        return list(zip(*both, strict=True))

    def _paired(self, other: "Factor", make: Callable[[Rows, Rows], Rows]) -> "Factor":
        return Factor([make(F, G) for F, G in self._pairs(other)])


def _sum(F: Rows, G: Rows) -> Rows:
    I = np.eye(len(F))  # noqa: E741
    return Rows(F.shards, len(F), Mixed(((I, F.number), (I, G.number))), [F, G])


def _joined(F: Rows, G: Rows) -> Rows:
    r = len(F) + len(G)
    upper, lower = np.eye(r)[:, : len(F)], np.eye(r)[:, len(F) :]
    return Rows(F.shards, r, Mixed(((upper, F.number), (lower, G.number))), [F, G])
