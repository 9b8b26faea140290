"""How components are drawn along the rows and the columns of the data."""

from dataclasses import dataclass

import numpy as np

from nmfmerge.datasets.base import Dataset
from nmfmerge.plot.side import Side, sides_of, with_strengths


@dataclass(frozen=True, eq=False)
class View:
    """One side of the data, as the page draws it: names by how specific they are."""

    side: Side

    def drawn(self, F: np.ndarray) -> tuple[Side, np.ndarray]:
        """What to draw for components, which are rows of F, and the side that it is drawn along."""
        return with_strengths(self.side, F.T), F

    @property
    def label(self) -> str:
        """What the axis is called."""
        return self.side.label


def views_of(data: Dataset) -> tuple[View, View]:
    """The views of the rows and of the columns."""
    left, right = sides_of(data)
    return View(left), View(right)
