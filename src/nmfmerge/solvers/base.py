"""What a solver is: the order of its two updates, the update of one factor, and the step rule."""

from abc import ABC, abstractmethod

import numpy as np

from nmfmerge.kernels import available_threads, largest_step, n_blocks, note_steps_
from nmfmerge.solvers.point import Point, Side

Norms = tuple[np.ndarray, np.ndarray]


class Solver(ABC):
    """An algorithm that improves a `Point`, one factor after the other.

    A solver is made for one run of the loop and may keep state between its iterations.
    """

    order: tuple[Side, Side] = ("W", "H")

    def __init__(self) -> None:
        self.threads = available_threads()
        self._norms: dict[Side, Norms] = {}
        self._ratio = np.empty(0)

    def iterate(self, point: Point) -> float:
        """Update both factors; return the largest relative displacement of a component."""
        self.clear_steps(point)
        for side in self.order:
            self.update(point, side)
        return self.largest_step(point)

    def settle(self, point: Point) -> None:  # noqa: B027
        """Leave ``point`` fit to be returned after an iteration was cut off; by default it is."""

    def state(self) -> dict[str, np.ndarray]:
        """What another solver needs to go on from here to the same bits; by default nothing."""
        return {}

    def restore(self, point: Point, state: dict[str, np.ndarray]) -> None:  # noqa: B027
        """Go on where a solver with that state stopped."""

    def update(self, point: Point, side: Side) -> None:
        """Update one factor and note how far its components moved."""
        F, G, C = point.subproblem(side)
        if side not in self._norms:
            self._norms[side] = _block_norms(F)
        moved, total = self._norms[side]
        self.update_(F, G, C, moved, total)
        point.changed(side)
        note_steps_(self._ratio, moved, total)

    def clear_steps(self, point: Point) -> None:
        """Forget how far components moved."""
        self._ratio = np.zeros(len(point.H))

    def largest_step(self, point: Point) -> float:
        """Largest relative displacement noted, of a component that counts."""
        negligible = point.eps**0.75
        return largest_step(self._ratio, point.gram("W"), point.gram("H"), negligible)

    @abstractmethod
    def update_(
        self, F: np.ndarray, G: np.ndarray, C: np.ndarray, moved: np.ndarray, total: np.ndarray
    ) -> None:
        """Improve F in place for ``min ½⟨F, G F⟩ − ⟨C, F⟩, F ≥ 0``.

        ``moved`` and ``total``, float64 arrays (n_blocks, r), receive ‖new − old‖² and
        ‖new + old‖² of each component by blocks of columns; only their sums matter.
        """


def _block_norms(F: np.ndarray) -> Norms:
    shape = (n_blocks(F.shape[1]), len(F))
    return np.zeros(shape), np.zeros(shape)
