"""How components are drawn along the rows and the columns of the data.

Names of genes say something; names of cells do not. Of cells, the page shows how much of a
component their groups have or, where no groups are known, how it is distributed over the cells.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.explore.cells import Groups
from nmfmerge.fields.single_cell import has_cells
from nmfmerge.plot.side import Side, sides_of, with_strengths


@dataclass(frozen=True, eq=False)
class View:
    """One side of the data, as the page draws it: names by how specific they are."""

    side: Side

    def drawn(self, F: np.ndarray) -> tuple[Side, np.ndarray]:
        """The values to draw for components (rows of F), and the side that they are drawn along."""
        return with_strengths(self.side, F.T), F

    @property
    def label(self) -> str:
        """The label of the axis."""
        return self.side.label


@dataclass(frozen=True, eq=False)
class GroupedCells(View):
    """Cells by their groups: the mean usage of a component in each."""

    means: sp.csr_array  # groups × cells

    def drawn(self, F: np.ndarray) -> tuple[Side, np.ndarray]:
        """The means of each component."""
        return self.side, np.asarray(self.means @ F.T).T


class SortedCells(View):
    """Cells of which nothing else is known: their usages of a component, the largest first."""

    def drawn(self, F: np.ndarray) -> tuple[Side, np.ndarray]:
        """Each component, sorted by itself."""
        return self.side, -np.sort(-F, axis=1)


def views_of(
    data: Dataset, group: str = "", groups: Groups | None = None
) -> tuple[View, View]:  # fmt: skip
    """The views of the rows and of the columns; cells in groups, where there are some."""
    left, right = (
        _cells(len(side.axis.values), group, groups) if has_cells(data, side.axis) else View(side)
        for side in sides_of(data)
    )
    return left, right


def _cells(n: int, group: str, groups: Groups | None) -> View:
    if groups is not None:
        axis = Axis(f"mean usage by {group}", np.array(groups.names))
        return GroupedCells(Side(axis, "bars"), groups.averaging())
    parts = 100 * (np.arange(n) + 0.5) / n
    return SortedCells(Side(Axis("cells, sorted by usage", parts, "%"), "line"))
