"""Points (W, H) on a data matrix with their products, each computed once per change of a factor.

This is all that solvers know of X: the Grams HHᵀ and WᵀW and the cross products XHᵀ and WᵀX.
"""

from collections.abc import Sequence

import numpy as np

from nmfmerge.data import Array, DataMatrix, Side
from nmfmerge.held import Held

SIDES: tuple[Side, Side] = ("W", "H")


class Point:
    """A batch of starts: ``Wt`` (n_starts × r × m), ``H`` (n_starts × r × n), and their products.

    The arrays are the point's own: solvers change them in place and say so by `changed`. Components
    that are held are not part of the subproblems that solvers get. The starts are multiplied with X
    together, in one product.
    """

    def __init__(self, data: DataMatrix, Wt: Array, H: Array, held: Held | None = None) -> None:
        self.data, self.held = data, held
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
        self._objective: Array | None = None
        self._parts: dict[Side, _Part] = {}  # of the sides that have held components
        if held is not None:
            masks: dict[Side, np.ndarray] = {"W": held.W, "H": held.H}
            self._parts = {s: _Part(self, s, m) for s, m in masks.items() if m.any()}

    @property
    def n_starts(self) -> int:
        """Number of starts in the batch."""
        return len(self.H)

    @property
    def n_components(self) -> int:
        """Number of components of each start."""
        return self.H.shape[1]

    def select(self, rows: Sequence[int]) -> "Point":
        """A batch of some of the starts."""
        Wt, H = (self.kernels.take(F, rows) for F in (self.Wt, self.H))
        return Point(self.data, Wt, H, self.held)

    def factor(self, side: Side) -> Array:
        """The factors of one side, component-major."""
        return self.Wt if side == "W" else self.H

    def gram(self, side: Side) -> Array:
        """WᵀW or HHᵀ of each start."""
        if "gram " + side not in self._fresh:
            self.data.gram(self.factor(side), out=self._gram[side])
            self._fresh.add("gram " + side)
        return self._gram[side]

    def cross(self, side: Side) -> Array:
        """The cross product that an update of ``side`` needs: (XHᵀ)ᵀ for "W", WᵀX for "H"."""
        if "cross " + side not in self._fresh:
            self._multiply(side)
            self._fresh.add("cross " + side)
        return self._cross[side]

    def _multiply(self, side: Side) -> None:
        """Bring a cross product up to date; the rows of held components are computed once."""
        F, part = self.factor(other(side)), self._parts.get(other(side))
        room = self._cross.get(side)
        if part is None or self.data.defers(side):
            self._cross[side] = self.data.cross(side, F, out=room)
            return
        if room is None:
            room = self._cross[side] = self.kernels.empty(self.factor(side).shape, self.H)
            room[:, part.held] = self.data.cross(side, part.F_held)
        part.product = self.data.cross(side, part.take(F), out=part.product)
        room[:, part.free] = part.product

    def subproblem(self, side: Side) -> tuple[Array, Array, Array]:
        """``F, G, C`` of ``min ½⟨F, G F⟩ − ⟨C, F⟩, F ≥ 0`` for one side.

        Where components are held, F is a copy of the others, to be given to `put`, and C is what
        the held ones leave of the cross product. Both are good until the next subproblem.
        """
        F, G, C = self.factor(side), self.gram(other(side)), self.cross(side)
        part = self._parts.get(side)
        return (F, G, C) if part is None else part.subproblem(F, G, C)

    def free(self, side: Side, F: Array) -> Array:
        """The rows of an array that are of components not held on this side."""
        return F[:, self._parts[side].free] if side in self._parts else F

    def of_all(self, side: Side, values: Array) -> Array:
        """Numbers of components that are not held, with zeros for those that are."""
        if side not in self._parts:
            return values
        filled = self.kernels.numbers((self.n_starts, self.n_components), 0.0, self.H)
        filled[:, self._parts[side].free] = values
        return filled

    def put(self, side: Side, F: Array) -> None:
        """Put the F of `subproblem`, which a solver has changed, in its place."""
        if side in self._parts:
            self.factor(side)[:, self._parts[side].free] = F
        self.changed(side)

    def replace(self, Wt: Array, H: Array) -> None:
        """Overwrite both factors by others of the same shapes."""
        self.Wt[:], self.H[:] = Wt, H
        self.changed("W")
        self.changed("H")

    def changed(self, side: Side) -> None:
        """Say that the factor of ``side`` was changed."""
        self._fresh.discard("gram " + side)
        self._fresh.discard("cross " + other(side))
        self._objective = None

    def fit(self, side: Side, noted: Array | None = None) -> Array:
        """⟨F, C⟩ of each start, which a sweep may have noted on its way."""
        if noted is not None and side not in self._parts:
            return noted
        return self.kernels.inner_products(self.factor(side), self.cross(side))

    def forget_products(self) -> None:
        """Say that anything may have changed, and free the memory of the cross products."""
        self._fresh.clear()
        self._cross.clear()
        self._objective = None

    def objective(self) -> Array:
        """½‖X − WH‖² of each start from the products at hand; cancels near an exact fit."""
        if self._objective is None:
            self._objective = self._compute_objective()
        return self._objective

    def know_objective(self, objective: Array) -> None:
        """Note what `objective` would compute."""
        self._objective = self.kernels.copy(objective)

    def _compute_objective(self) -> Array:
        fresh = [side for side in reversed(SIDES) if f"cross {side}" in self._fresh]
        side = next((side for side in fresh if not self.data.defers(side)), self._cheap_side())
        model = self.kernels.inner_products(self.gram("W"), self.gram("H"))
        return (0.5 * self.data.norm2 - self.fit(side) + 0.5 * model).clip(min=0.0)

    def _cheap_side(self) -> Side:
        """The side whose cross product a fit is best computed with, where none is at hand."""
        return "H" if self.data.defers("W") else "W"

    def fitting_errors(self) -> np.ndarray:
        """100·‖X − WH‖²/‖X‖² from the products at hand; 0 for a zero matrix fitted by zero."""
        objectives = self.kernels.to_host(self.objective())
        return np.array([percent(2 * value, self.data.norm2) for value in objectives.tolist()])


class _Part:
    """The components of one factor that are not held, with room for what is computed of them."""

    def __init__(self, point: Point, side: Side, held: np.ndarray) -> None:
        F = point.factor(side)
        self.free, self.held = (
            point.kernels.indices(np.flatnonzero(mask), F) for mask in (~held, held)
        )
        self.F_held = point.kernels.contiguous(F[:, self.held])
        self.product: Array = None  # with X, once it is computed
        shape = (len(F), len(self.free), F.shape[2])
        self._F, self._C, self._from_held = (point.kernels.empty(shape, F) for _ in range(3))

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


def percent(residual2: float, norm2: float) -> float:
    """Fitting error in percent; a zero matrix counts as fitted when the residual is zero."""
    if norm2 > 0:
        return 100.0 * residual2 / norm2
    return 0.0 if residual2 == 0 else float("inf")
