"""Pictures and movies: one side of the data is pixels, which fold into a picture."""

from typing import TYPE_CHECKING

import numpy as np

from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.fields.base import Columns, Field, Sides
from nmfmerge.fields.table import Table, factor_table

if TYPE_CHECKING:
    from nmfmerge.results.factorization import Factorization


def has_pictures(data: Dataset) -> bool:
    """True if one side of the data folds into pictures."""
    return data.is_picture(data.rows) or data.is_picture(data.columns)


class Images(Field):
    """Pictures: a peak is a pixel. Movies: the course of a component in time is its trace."""

    def suits(self, data: Dataset) -> bool:
        """True if one side of the data is pixels."""
        return "pixel" in (data.rows.name, data.columns.name)

    def peaks(self, data: Dataset, axis: Axis, F: np.ndarray) -> Columns | None:
        """Row and column of the brightest pixel, from 1."""
        if not data.is_picture(axis):
            return None
        assert data.image_shape is not None
        shape, order = data.image_shape, data.image_order
        places = [
            np.add(np.unravel_index(int(f.argmax()), shape, order), 1).tolist()
            if f.any()
            else [None, None]
            for f in F
        ]
        rows, columns = zip(*places, strict=True)
        return {"peak pixel row": list(rows), "peak pixel column": list(columns)}

    def tables(self, result: "Factorization", data: Dataset, sides: Sides) -> list[Table]:
        """The traces of a movie."""
        return [
            factor_table("traces", axis, result, F)
            for axis, F in sides
            if axis.name in ("frame", "time")
        ]
