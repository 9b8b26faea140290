"""A batch of starts (W, H) with their products, each computed once per change of a factor.

Solvers for the squared error know nothing else of X: the Grams HHᵀ and WᵀW and the cross products
XHᵀ and WᵀX, with the penalties of the problem in them.
"""

from collections.abc import Sequence

import numpy as np

from nmfmerge.losses import Problem
from nmfmerge.matrices import SIDES, Array, Side


class Batch:
    """A batch of starts: ``Wt`` (n_starts × r × m), ``H`` (n_starts × r × n), and their products.

    The batch owns its arrays: solvers change them in place and call `changed`. Components
    that are held are not part of the subproblems that solvers get. The starts are multiplied with X
    together, in one product.
    """

    def __init__(self, problem: Problem, Wt: Array, H: Array) -> None:
        self.problem = problem = problem.with_held(H.shape[1])
        self.data = data = problem.matrix
        self.kernels = data.kernels
        self.Wt = self.kernels.contiguous(Wt)
        self.H = self.kernels.contiguous(H)
        self.eps = float(np.finfo(data.dtype).eps)
        self.negligible = self.eps**0.75  # share of ‖WH‖ below which a component does not count
        self.active: Array | None = None  # where starts wait for others on a device: which do not
        n_starts, r, _ = H.shape
        self._gram = {side: self.kernels.empty((n_starts, r, r), self.H) for side in ("W", "H")}
        self._cross: dict[Side, Array] = {}
        self._fresh: set[str] = set()
        self._value: Array | None = None
        self._parts: dict[Side, _Part] = {}  # of the sides that have held components
        if problem.held is not None:
            masks: dict[Side, np.ndarray] = {"W": problem.held.W, "H": problem.held.H}
            self._parts = {s: _Part(self, s, m) for s, m in masks.items() if m.any()}

    @property
    def n_starts(self) -> int:
        """Number of starts in the batch."""
        return len(self.H)

    @property
    def n_components(self) -> int:
        """Number of components of each start."""
        return self.H.shape[1]

    def select(self, rows: Sequence[int]) -> "Batch":
        """A batch of some of the starts."""
        Wt, H = (self.kernels.take(F, rows) for F in (self.Wt, self.H))
        return Batch(self.problem, Wt, H)

    def factor(self, side: Side) -> Array:
        """The factors of one side, component-major."""
        return self.Wt if side == "W" else self.H

    def gram(self, side: Side) -> Array:
        """WᵀW or HHᵀ of each start, with the L2 penalty of the other side on the diagonal."""
        if "gram " + side not in self._fresh:
            G = self._gram[side]
            self.data.gram(self.factor(side), out=G)
            if l2 := self.problem.penalty.l2(other(side)):
                self.kernels.diagonals(G)[:] += l2
            self._fresh.add("gram " + side)
        return self._gram[side]

    def cross(self, side: Side) -> Array:
        """The cross product for ``side``, (XHᵀ)ᵀ or WᵀX, less the L1 penalty of this side."""
        if "cross " + side not in self._fresh:
            self._multiply(side)
            self._fresh.add("cross " + side)
        return self._cross[side]

    def _multiply(self, side: Side) -> None:
        """Bring a cross product up to date; the rows of held components are computed once."""
        F, part = self.factor(other(side)), self._parts.get(other(side))
        room, l1 = self._cross.get(side), self.problem.penalty.l1(side)
        if part is None or self.data.is_sharded(side):
            room = self._cross[side] = self.data.cross(side, F, out=room)
            if l1:
                room -= l1
            return
        if room is None:
            room = self._cross[side] = self.kernels.empty(self.factor(side).shape, self.H)
            room[:, part.held] = self.data.cross(side, part.F_held) - l1
        part.product = self.data.cross(side, part.take(F), out=part.product)
        room[:, part.free] = part.product
        if l1:
            room[:, part.free] -= l1

    def subproblem(self, side: Side) -> tuple[Array, Array, Array]:
        """``F, G, C`` of ``min ½⟨F, G F⟩ − ⟨C, F⟩, F ≥ 0`` for one side.

        Where components are held, F is a copy of the others, to be stored by `put`, and C is the
        cross product less the part of the held ones. Both are valid until the next subproblem.
        """
        F, G, C = self.factor(side), self.gram(other(side)), self.cross(side)
        part = self._parts.get(side)
        return (F, G, C) if part is None else part.subproblem(F, G, C)

    def free(self, side: Side, F: Array) -> Array:
        """The rows of an array that belong to components not held on this side."""
        return F[:, self._parts[side].free] if side in self._parts else F

    def of_all(self, side: Side, values: Array) -> Array:
        """Expand values of the free components to all, with zeros for those held."""
        if side not in self._parts:
            return values
        filled = self.kernels.numbers((self.n_starts, self.n_components), 0.0, self.H)
        filled[:, self._parts[side].free] = values
        return filled

    def put(self, side: Side, F: Array) -> None:
        """Store the F of `subproblem` that a solver has changed."""
        if side in self._parts:
            self.factor(side)[:, self._parts[side].free] = F
        self.changed(side)

    def replace(self, Wt: Array, H: Array) -> None:
        """Overwrite both factors by others of the same shapes."""
        self.Wt[:], self.H[:] = Wt, H
        self.changed("W")
        self.changed("H")

    def changed(self, side: Side) -> None:
        """Note that the factor of ``side`` was changed."""
        self._fresh.discard("gram " + side)
        self._fresh.discard("cross " + other(side))
        self._value = None

    def fit(self, side: Side, noted: Array | None = None) -> Array:
        """⟨F, C⟩ of each start, which a sweep may have noted, less the L1 penalty of the other F.

        The value of a start is a constant less this and plus half the product of its Grams.
        """
        if noted is None or side in self._parts:
            noted = self.kernels.inner_products(self.factor(side), self.cross(side))
        if l1 := self.problem.penalty.l1(other(side)):
            noted = noted - l1 * self.kernels.sums(self.factor(other(side)))
        return noted

    def cheapest_fit(self) -> Array:
        """`fit` of a side whose cross product is up to date, or cheapest to compute."""
        fresh = [side for side in reversed(SIDES) if f"cross {side}" in self._fresh]
        cheap: Side = "H" if self.data.is_sharded("W") else "W"
        return self.fit(next((side for side in fresh if not self.data.is_sharded(side)), cheap))

    def forget_products(self) -> None:
        """Forget all products, as anything may have changed, and free the cross products."""
        self._fresh.clear()
        self._cross.clear()
        self._value = None

    def value(self) -> Array:
        """The objective of each start; subject to cancellation near an exact fit."""
        if self._value is None:
            self._value = self.problem.value(self)
        return self._value

    def know_value(self, value: Array) -> None:
        """Note what `value` would compute."""
        self._value = self.kernels.copy(value)

    def fitting_errors(self) -> np.ndarray:
        """Fitting error of each start in percent, from products already computed."""
        return self.problem.fitting_errors(self)


class _Part:
    """The free components of one factor, with buffers for their subproblem."""

    def __init__(self, batch: Batch, side: Side, held: np.ndarray) -> None:
        F = batch.factor(side)
        self.free, self.held = (
            batch.kernels.indices(np.flatnonzero(mask), F) for mask in (~held, held)
        )
        self.F_held = batch.kernels.contiguous(F[:, self.held])
        self.product: Array = None  # with X, once it is computed
        shape = (len(F), len(self.free), F.shape[2])
        self._F, self._C, self._from_held = (batch.kernels.empty(shape, F) for _ in range(3))

    def take(self, F: Array) -> Array:
        """Copy the free components."""
        self._F[:] = F[:, self.free]
        return self._F

    def subproblem(self, F: Array, G: Array, C: Array) -> tuple[Array, Array, Array]:
        """The subproblem of the free components, beside the held ones."""
        rows = G[:, self.free]
        self._from_held[:] = rows[:, :, self.held] @ self.F_held
        self._C[:] = C[:, self.free]
        self._C -= self._from_held
        return self.take(F), rows[:, :, self.free], self._C


def other(side: Side) -> Side:
    """The other side."""
    return "H" if side == "W" else "W"
