"""Single cells: counts of genes in cells, either of them in rows."""

from nmfmerge.datasets.base import Axis, Dataset


def is_single_cell(data: Dataset) -> bool:
    """True if the axes of data are cells and genes."""
    return {data.rows.name, data.columns.name} == {"cell", "gene"}


def cells_first(data: Dataset) -> bool:
    """True if the rows are cells."""
    return data.rows.name == "cell"


def cells_and_genes(data: Dataset) -> tuple[Axis, Axis]:
    """The axis of cells and that of genes."""
    return (data.rows, data.columns) if cells_first(data) else (data.columns, data.rows)


def has_cells(data: Dataset, axis: Axis) -> bool:
    """True if an axis is that of the cells of single-cell data."""
    return axis.name == "cell" and is_single_cell(data)
