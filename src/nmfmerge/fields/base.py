"""The interface of a field of science; `Field` has the defaults for data of no field."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.fields.table import Table

if TYPE_CHECKING:
    from nmfmerge.results.factorization import Factorization

Columns = dict[str, Any]  # of a table with one line for each component
Sides = Sequence[tuple[Axis, np.ndarray]]  # axes with their factors, one column a component


class Field:
    """One field of science: how it recognises its data, tabulates and draws them.

    Attributes
    ----------
    sticks : collection of str
        Axes along which vectors are drawn as sticks, with numbers at the peaks.
    logarithmic : collection of str
        Axes whose numbers are drawn on a logarithmic scale.
    """

    sticks: ClassVar[Collection[str]] = ()
    logarithmic: ClassVar[Collection[str]] = ()

    def suits(self, data: Dataset) -> bool:
        """True if the axes of the data are those of this field."""
        raise NotImplementedError

    def peaks(self, data: Dataset, axis: Axis, F: np.ndarray) -> Columns | None:
        """Where each component (a row of F) is largest along an axis; None: nothing special."""
        return None

    def columns(self, result: "Factorization", data: Dataset) -> Columns:
        """More columns for the table of components."""
        return {}

    def tables(self, result: "Factorization", data: Dataset, sides: Sides) -> list[Table]:
        """More tables; ``sides`` are those whose factor fits into memory."""
        return []


def entries_at_peaks(axis: Axis, F: np.ndarray) -> list[object]:
    """The entry of the axis where each component is largest; None for one that is zero."""
    names = axis.values.tolist()
    return [names[int(f.argmax())] if f.any() else None for f in F]
