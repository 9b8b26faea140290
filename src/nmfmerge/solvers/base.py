"""What a solver is: the order of its two updates, the update of one factor, and the step rule."""

from abc import ABC, abstractmethod

import numpy as np

from nmfmerge.kernels import largest_step, note_steps_
from nmfmerge.solvers.point import Point, Side

Norms = tuple[np.ndarray, np.ndarray]


class Solver(ABC):
    """An algorithm that improves a `Point`, one factor after the other.

    A solver is made for one stage of a run and may keep state between its iterations.
    """

    order: tuple[Side, Side] = ("W", "H")

    def __init__(self) -> None:
        self._ratio = np.empty(0)

    def iterate(self, point: Point) -> float:
        """Update both factors; return the largest relative displacement of a component."""
        self.clear_steps(point)
        for side in self.order:
            self.update(point, side)
        return self.largest_step(point)

    def update(self, point: Point, side: Side) -> None:
        """Update one factor and note how far its components moved."""
        F, G, C = point.subproblem(side)
        if len(F) > 0:  # else all are held
            moved, total = self.update_(F, G, C)
            self.note_steps(point, side, moved, total)
            point.put(side, F)

    @abstractmethod
    def update_(self, F: np.ndarray, G: np.ndarray, C: np.ndarray) -> Norms:
        """Improve F in place for ``min ½⟨F, G F⟩ − ⟨C, F⟩, F ≥ 0``.

        Returns ‖new − old‖² and ‖new + old‖² of each component, in float64.
        """

    def clear_steps(self, point: Point) -> None:
        """Forget how far components moved."""
        self._ratio = np.zeros(len(point.H))

    def note_steps(self, point: Point, side: Side, moved: np.ndarray, total: np.ndarray) -> None:
        """Note how far the components of a subproblem moved."""
        note_steps_(self._ratio, point.of_all(side, moved), point.of_all(side, total))

    def largest_step(self, point: Point) -> float:
        """Largest relative displacement noted, of a component that counts."""
        negligible = point.eps**0.75
        return largest_step(self._ratio, point.gram("W"), point.gram("H"), negligible)

    def tidy_(self, point: Point) -> None:  # noqa: B027
        """Make ``point`` fit to be returned after an iteration was cut off; by default it is."""

    def state(self) -> dict[str, np.ndarray]:
        """What another solver needs to continue from here to the same bits; by default nothing."""
        return {}

    def continue_from(self, point: Point, state: dict[str, np.ndarray]) -> None:  # noqa: B027
        """Take up the state of a solver that stopped at ``point``."""
