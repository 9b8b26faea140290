"""A table as plain columns, which `nmfmerge.storage.tables` writes in every format."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nmfmerge.datasets.base import Axis

if TYPE_CHECKING:
    from nmfmerge.results.factorization import Factorization


@dataclass(frozen=True, eq=False)
class Table:
    """A table as plain columns.

    Attributes
    ----------
    name : str
        Name of its file without the suffix, or of its sheet.
    heads : sequence of str
        Names of the columns.
    columns : sequence of lists or arrays
        All of one length. A missing value is None or NaN. In a csv file numbers of arrays have
        nine digits, and those of lists twelve: lists are for names, such as those of an axis.
    """

    name: str
    heads: Sequence[str]
    columns: Sequence[Sequence[Any] | np.ndarray]

    def __post_init__(self) -> None:
        lengths = {len(column) for column in self.columns}
        if len(self.heads) != len(self.columns) or len(lengths) > 1:
            raise ValueError(
                f"the table {self.name!r} has {len(self.heads)} heads and {len(self.columns)} "
                f"columns of lengths {sorted(lengths)}; expected a head for each, and one length"
            )

    @property
    def n_lines(self) -> int:
        """Number of lines, without the heads."""
        return len(self.columns[0]) if self.columns else 0


def factor_table(name: str, axis: Axis, result: "Factorization", F: np.ndarray) -> Table:
    """One line for each entry of the axis, one column for each component."""
    heads = [axis.label, *(result.label(k) for k in range(result.n_components))]
    return Table(name, heads, [axis.values.tolist(), *F.T])
