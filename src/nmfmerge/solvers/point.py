"""A point (W, H) on a data matrix with its products, each computed once per change of a factor.

This is all that solvers know of X: the Grams HHᵀ and WᵀW and the cross products XHᵀ and WᵀX.
"""

from typing import Literal

import numpy as np

from nmfmerge.data import DataMatrix
from nmfmerge.held import Held
from nmfmerge.kernels import inner_product

Side = Literal["W", "H"]


class Point:
    """Component-major factors ``Wt`` (r × m) and ``H`` (r × n) and their products with X.

    The arrays are the point's own: solvers change them in place and say so by `changed`. Components
    that are held are not part of the subproblems that solvers get.
    """

    def __init__(
        self, data: DataMatrix, Wt: np.ndarray, H: np.ndarray, held: Held | None = None
    ) -> None:
        self.data = data
        self.Wt = np.ascontiguousarray(Wt)
        self.H = np.ascontiguousarray(H)
        self.eps = float(np.finfo(H.dtype).eps)
        r = len(H)
        self._gram = {"W": np.empty((r, r), H.dtype), "H": np.empty((r, r), H.dtype)}
        self._cross: dict[Side, np.ndarray] = {}
        self._fresh: set[str] = set()
        self._objective: float | None = None
        self._parts: dict[Side, _Part] = {}  # of the sides that have held components
        if held is not None:
            masks: dict[Side, np.ndarray] = {"W": held.W, "H": held.H}
            self._parts = {s: _Part(self.factor(s), m) for s, m in masks.items() if m.any()}

    def factor(self, side: Side) -> np.ndarray:
        """The factor of one side, component-major."""
        return self.Wt if side == "W" else self.H

    def gram(self, side: Side) -> np.ndarray:
        """WᵀW or HHᵀ."""
        if "gram " + side not in self._fresh:
            self.data.gram(self.factor(side), out=self._gram[side])
            self._fresh.add("gram " + side)
        return self._gram[side]

    def cross(self, side: Side) -> np.ndarray:
        """The cross product that an update of ``side`` needs: (XHᵀ)ᵀ for "W", WᵀX for "H"."""
        if "cross " + side not in self._fresh:
            self._multiply(side)
            self._fresh.add("cross " + side)
        return self._cross[side]

    def _multiply(self, side: Side) -> None:
        """Bring a cross product up to date; the rows of held components are computed once."""
        source = other(side)
        product = self.data.HXt if side == "W" else self.data.WtX
        part = self._parts.get(source)
        first = side not in self._cross
        if first:
            self._cross[side] = np.empty_like(self.factor(side))
        if part is None:
            product(self.factor(source), out=self._cross[side])
            return
        length = self._cross[side].shape[1]
        if first:
            rows = np.empty((len(part.held), length), self.H.dtype)
            self._cross[side][part.held] = product(part.F_held, out=rows)
            part.product = np.empty((len(part.free), length), self.H.dtype)
        self._cross[side][part.free] = product(part.take(self.factor(source)), out=part.product)

    def subproblem(self, side: Side) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """``F, G, C`` of ``min ½⟨F, G F⟩ − ⟨C, F⟩, F ≥ 0`` for one side.

        Where components are held, F is a copy of the others, to be given to `put`, and C is what
        the held ones leave of the cross product. Both are good until the next subproblem.
        """
        F, G, C = self.factor(side), self.gram(other(side)), self.cross(side)
        part = self._parts.get(side)
        return (F, G, C) if part is None else part.subproblem(F, G, C)

    def free(self, side: Side, F: np.ndarray) -> np.ndarray:
        """The rows of an array that are of components not held on this side."""
        return F[self._parts[side].free] if side in self._parts else F

    def of_all(self, side: Side, values: np.ndarray) -> np.ndarray:
        """Numbers of components that are not held, with zeros for those that are."""
        if side not in self._parts:
            return values
        filled = np.zeros(len(self.H))
        filled[self._parts[side].free] = values
        return filled

    def put(self, side: Side, F: np.ndarray) -> None:
        """Put the F of `subproblem`, which a solver has changed, in its place."""
        if side in self._parts:
            self.factor(side)[self._parts[side].free] = F
        self.changed(side)

    def replace(self, Wt: np.ndarray, H: np.ndarray) -> None:
        """Overwrite both factors by others of the same shapes."""
        self.Wt[:], self.H[:] = Wt, H
        self.changed("W")
        self.changed("H")

    def changed(self, side: Side) -> None:
        """Say that the factor of ``side`` was changed."""
        self._fresh.discard("gram " + side)
        self._fresh.discard("cross " + other(side))
        self._objective = None

    def forget_products(self) -> None:
        """Say that anything may have changed, and free the memory of the cross products."""
        self._fresh.clear()
        self._cross.clear()
        self._objective = None

    def objective(self) -> float:
        """½‖X − WH‖² from the products at hand; cancels near an exact fit."""
        if self._objective is None:
            self._objective = self._compute_objective()
        return self._objective

    def _compute_objective(self) -> float:
        side: Side = "H" if "cross H" in self._fresh else "W"
        F, C = self.factor(side), self.cross(side)
        fit = inner_product(F, C)
        model = inner_product(self.gram("W"), self.gram("H"))
        return max(0.0, 0.5 * self.data.norm2 - fit + 0.5 * model)

    def fitting_error(self) -> float:
        """100·‖X − WH‖²/‖X‖² from the products at hand; 0 for a zero matrix fitted by zero."""
        return percent(2 * self.objective(), self.data.norm2)


class _Part:
    """The components of one factor that are not held, with room for what is computed of them."""

    def __init__(self, F: np.ndarray, held: np.ndarray) -> None:
        self.free, self.held = np.flatnonzero(~held), np.flatnonzero(held)
        self.F_held = F[self.held]
        self.product = np.empty(0)  # with X, once it is computed
        self._F, self._C, self._from_held = (
            np.empty((len(self.free), F.shape[1]), F.dtype) for _ in range(3)
        )

    def take(self, F: np.ndarray) -> np.ndarray:
        """Copy the free components."""
        return np.take(F, self.free, axis=0, out=self._F)

    def subproblem(
        self, F: np.ndarray, G: np.ndarray, C: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The subproblem of the free components, beside the held ones."""
        np.take(C, self.free, axis=0, out=self._C)
        self._C -= np.matmul(G[np.ix_(self.free, self.held)], self.F_held, out=self._from_held)
        return self.take(F), G[np.ix_(self.free, self.free)], self._C


def other(side: Side) -> Side:
    """The other side."""
    return "H" if side == "W" else "W"


def percent(residual2: float, norm2: float) -> float:
    """Fitting error in percent; a zero matrix counts as fitted when the residual is zero."""
    if norm2 > 0:
        return 100.0 * residual2 / norm2
    return 0.0 if residual2 == 0 else float("inf")
