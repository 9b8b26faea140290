"""Optical spectra, as of hyperspectral pictures: one side of the data is wavelengths or bands."""

from typing import TYPE_CHECKING

from nmfmerge.datasets.base import Dataset
from nmfmerge.fields.base import Field, Sides
from nmfmerge.fields.table import Table, factor_table

if TYPE_CHECKING:
    from nmfmerge.results.factorization import Factorization

_AXES = ("wavelength", "band")


class Spectra(Field):
    """Spectra: each component has one."""

    def suits(self, data: Dataset) -> bool:
        """True if one side of the data is wavelengths or bands."""
        return data.rows.name in _AXES or data.columns.name in _AXES

    def tables(self, result: "Factorization", data: Dataset, sides: Sides) -> list[Table]:
        """The spectra of the components."""
        return [factor_table("spectra", axis, result, F) for axis, F in sides if axis.name in _AXES]
