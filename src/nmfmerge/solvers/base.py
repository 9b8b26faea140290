"""What a solver is: the order of its two updates, the update of one factor, and the step rule."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from nmfmerge.data import Array
from nmfmerge.solvers.point import Point, Side

Norms = tuple[Array, Array]


class Solver(ABC):
    """An algorithm that improves the starts of a `Point`, one factor after the other.

    A solver is made for one stage of a run and may keep state between its iterations. All that it
    does, it does for every start of the batch, and no start depends on another.
    """

    order: tuple[Side, Side] = ("W", "H")
    warm_up: "type[Solver] | None" = None  # what goes before it
    warm_up_tol = 0.0  # until no component moves more
    name = ""  # as users know it
    on_devices = True  # whether it works on tensors of a device
    on_shards = False  # whether it works on factors in shards
    can_wait = False  # whether it leaves starts alone that are not `Point.active`
    graph: Any = None  # of a pass that a device has recorded

    def __init__(self, point: Point) -> None:
        self._ratio = _no_steps(point)

    def iterate(self, point: Point) -> Array:
        """Update both factors; return the largest relative displacement of a component.

        One number for each start, NaN where an iteration was taken back and is to be done again.
        """
        self.clear_steps(point)
        for side in self.order:
            self.update(point, side)
        return self.largest_step(point)

    def passes(self, point: Point, tol: float, n: int) -> np.ndarray:
        """Iterate ``n`` times; return the steps (n × n_starts), NaN where there was no iteration.

        A start whose step is at most ``tol`` is left as it is from then on.
        """
        self.look(point)
        if n == 1 or not self.can_wait:
            return point.kernels.to_host(self.iterate(point))[None]
        return point.kernels.several_passes(self, point, tol, n)

    def graph_key(self) -> object:
        """What decides which operations a pass does."""
        return None

    def look(self, point: Point) -> None:  # noqa: B027
        """Look at numbers of the batch, between passes; by default there is nothing to see."""

    def update(self, point: Point, side: Side) -> None:
        """Update one factor and note how far its components moved."""
        F, G, C = point.subproblem(side)
        if F.shape[1] > 0:  # else all are held
            moved, total = self.update_(point, F, G, C)
            self.note_steps(point, side, moved, total)
            point.put(side, F)

    @abstractmethod
    def update_(self, point: Point, F: Array, G: Array, C: Array) -> Norms:
        """Improve F in place for ``min ½⟨F, G F⟩ − ⟨C, F⟩, F ≥ 0``, in every start.

        Returns ‖new − old‖² and ‖new + old‖² of each component (n_starts × r), in float64.
        """

    def clear_steps(self, point: Point) -> None:
        """Forget how far components moved."""
        self._ratio[:] = 0

    def note_steps(self, point: Point, side: Side, moved: Array, total: Array) -> None:
        """Note how far the components of a subproblem moved."""
        moved, total = point.of_all(side, moved), point.of_all(side, total)
        point.kernels.note_steps_(self._ratio, moved, total)

    def largest_step(self, point: Point) -> Array:
        """Largest relative displacement noted, of a component that counts."""
        WtW, HHt = point.gram("W"), point.gram("H")
        return point.kernels.largest_step(self._ratio, WtW, HHt, point.negligible)

    def select(self, point: Point, rows: Sequence[int]) -> None:
        """Keep some of the starts only; ``point`` is the new batch."""
        self.graph = None
        self._ratio = _no_steps(point)

    def tidy_(self, point: Point) -> None:  # noqa: B027
        """Make ``point`` fit to be returned after an iteration was cut off; by default it is."""

    def state(self) -> dict[str, np.ndarray]:
        """What another solver needs to continue from here to the same bits; by default nothing."""
        return {}

    def continue_from(self, point: Point, state: dict[str, np.ndarray]) -> None:  # noqa: B027
        """Take up the state of a solver that stopped at ``point``."""


def _no_steps(point: Point) -> Array:
    return point.kernels.numbers((point.n_starts, point.n_components), 0.0, point.H)
