"""Names that stand for a component: genes, words, documents, by how specific they are to it."""

import csv
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.export.base import Export, Source
from nmfmerge.metrics import specificity
from nmfmerge.result import Factorization

_DIGITS = ".9g"
HEAD = ["component", "rank", "name", "weight", "specificity"]


def top_names(
    result: Factorization, data: Dataset, axis: str, n_top: int = 30
) -> list[tuple[str, int, str, float, float]]:
    """The most specific entries of an axis for each component.

    Parameters
    ----------
    result : Factorization
        The factors.
    data : Dataset
        What was factorized; one of its axes has the names.
    axis : str
        What the names stand for, as "gene" or "word": ``data.rows.name`` or ``data.columns.name``.
    n_top : int
        How many for each component; entries of weight zero are left out.

    Returns
    -------
    lines : list of tuple
        Component, rank from 1, name, weight (the entry of the factor) and specificity
        (see `nmfmerge.metrics.specificity`), by which the names of a component are sorted; where
        that is the same, by weight.
    """
    if axis == data.rows.name:
        return _lines(result, data.rows, result.numpy().W, n_top)
    if axis == data.columns.name:
        return _lines(result, data.columns, result.numpy().H.T, n_top)
    raise ValueError(
        f"axis={axis!r} is not an axis of {data.name!r}: expected {data.rows.name!r} or "
        f"{data.columns.name!r}"
    )


def component_name(result: Factorization, k: int) -> str:
    """The name of component k, its number from 1 where it has none."""
    return result.names[k] if result.names else str(k + 1)


def order_by(scores: np.ndarray, weights: np.ndarray, n_top: int) -> np.ndarray:
    """The entries of one component with a weight, highest score first."""
    order = np.lexsort((-weights, -scores))[:n_top]
    return order[weights[order] > 0]


def _lines(
    result: Factorization, axis: Axis, F: np.ndarray, n_top: int
) -> list[tuple[str, int, str, float, float]]:
    scores = specificity(F)
    return [
        (component_name(result, k), rank, str(axis.values[i]), float(F[i, k]), float(scores[i, k]))
        for k in range(F.shape[1])
        for rank, i in enumerate(order_by(scores[:, k], F[:, k], n_top), 1)
    ]


def has_names(axis: Axis) -> bool:
    """Whether the entries of an axis have names, not numbers."""
    return np.asarray(axis.values).dtype.kind in "UO"


def write_csv(file: Path, head: list[str], lines: Iterable[Iterable[Any]]) -> None:
    """Write a table; numbers have nine digits, names keep their bytes."""
    with open(file, "w", newline="", encoding="utf-8", errors="surrogateescape") as opened:
        writer = csv.writer(opened)
        writer.writerow(head)
        writer.writerows([_cell(value) for value in line] for line in lines)


def _cell(value: Any) -> Any:
    return format(value, _DIGITS) if isinstance(value, float) else value


def _suits(data: Dataset) -> bool:
    return has_names(data.rows) or has_names(data.columns)


def _write(folder: Path, source: Source) -> None:
    result, data = source.result, source.data
    for axis, F in ((data.rows, result.W), (data.columns, result.H.T)):
        if has_names(axis):
            lines = _lines(result, axis, F, 30)
            write_csv(folder / _file_name(axis, data), HEAD, lines)


def _file_name(axis: Axis, data: Dataset) -> str:
    """top-genes.csv for an axis of genes."""
    plural = re.sub(r"\W+", "-", axis.name)[:40].strip("-") + "s"
    if axis is data.columns and data.rows.name == data.columns.name:
        plural += "-of-columns"
    return f"top-{plural}.csv"


EXPORT = Export(
    "names",
    "top-genes.csv, top-words.csv, …: the most specific names of each component",
    _suits,
    _write,
)
