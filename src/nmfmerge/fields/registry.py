"""All fields by name, and what each part of a result asks them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.fields.audio import Audio
from nmfmerge.fields.base import Columns, Field, Sides, entries_at_peaks
from nmfmerge.fields.images import Images
from nmfmerge.fields.lcms import LCMS
from nmfmerge.fields.names import Names
from nmfmerge.fields.spectra import Spectra
from nmfmerge.fields.table import Table

if TYPE_CHECKING:
    from nmfmerge.results.factorization import Factorization

# Single cells and texts have the tables and bars of every axis with names; `single_cell` says more.
FIELDS: Mapping[str, Field] = {
    "lcms": LCMS(),
    "audio": Audio(),
    "images": Images(),
    "spectra": Spectra(),
    "names": Names(),
}


def fields_of(data: Dataset) -> list[Field]:
    """The fields that data belong to, by their axes: a movie has pictures, maybe names too."""
    return [field for field in FIELDS.values() if field.suits(data)]


def draws_sticks(axis: Axis) -> bool:
    """True if vectors along an axis are drawn as sticks with numbers at the peaks."""
    return any(axis.name.casefold() in field.sticks for field in FIELDS.values())


def is_logarithmic(axis: Axis) -> bool:
    """True if an axis has numbers that are drawn on a logarithmic scale."""
    values = np.asarray(axis.values)
    return (
        any(axis.name.casefold() in field.logarithmic for field in FIELDS.values())
        and values.dtype.kind in "iuf"
        and int(np.count_nonzero(values > 0)) > 1
    )


def peaks(data: Dataset, axis: Axis, F: np.ndarray) -> Columns:
    """Where each component (a row of F) is largest along an axis, in the words of the field."""
    for field in fields_of(data):
        if (found := field.peaks(data, axis, F)) is not None:
            return found
    return {f"peak {axis.label}": entries_at_peaks(axis, F)}


def component_columns(result: "Factorization", data: Dataset) -> Columns:
    """The columns that fields add to the table of components."""
    return {
        head: column
        for field in fields_of(data)
        for head, column in field.columns(result, data).items()
    }


def field_tables(result: "Factorization", data: Dataset, sides: Sides) -> list[Table]:
    """The tables that the fields add to a result."""
    return [table for field in fields_of(data) for table in field.tables(result, data, sides)]
