"""What a solver is: a name, the order of its two updates, and the update of one factor."""

from abc import ABC, abstractmethod

import numpy as np

from nmfmerge.kernels import n_blocks
from nmfmerge.solvers.point import Point, Side

Norms = tuple[np.ndarray, np.ndarray]


class Solver(ABC):
    """An algorithm that improves a `Point`, one factor after the other.

    A solver is made for one run of the loop and may keep state between its iterations.
    """

    order: tuple[Side, Side] = ("W", "H")

    def iterate(self, point: Point) -> float:
        """Update both factors; return the largest relative displacement of a component."""
        ratio = np.zeros(len(point.H))
        for side in self.order:
            moved, total = self.update_(*point.subproblem(side), side)
            point.changed(side)
            np.maximum(ratio, relative_step(moved, total), out=ratio)
        # A component that is rounding noise beside the rest never settles, and need not.
        negligible = point.component_share2() <= np.finfo(point.H.dtype).eps ** 1.5
        ratio[negligible] = 0
        return float(ratio.max())

    @abstractmethod
    def update_(self, F: np.ndarray, G: np.ndarray, C: np.ndarray, side: Side) -> Norms:
        """Improve F in place for ``min ½⟨F, G F⟩ − ⟨C, F⟩, F ≥ 0``.

        Returns
        -------
        moved, total : float64 arrays (r,)
            ‖new − old‖² and ‖new + old‖² of each component.
        """


def relative_step(moved: np.ndarray, total: np.ndarray) -> np.ndarray:
    """‖new − old‖/‖new + old‖ of each component; 0 where it is zero before and after."""
    return np.sqrt(np.divide(moved, total, out=np.zeros_like(moved), where=total > 0))


def block_norms(F: np.ndarray) -> Norms:
    """Make the arrays in which kernels keep ``moved`` and ``total`` per block of columns."""
    shape = (n_blocks(F.shape[1]), len(F))
    return np.empty(shape), np.empty(shape)
