"""Sparse tables as text: each line has a row, a column and a value."""

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from nmfmerge.arguments.errors import Given, Message
from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.io.build import build, named_axis
from nmfmerge.io.errors import FormatError
from nmfmerge.io.memory import Memory
from nmfmerge.io.notation import find_notation, is_missing, is_number

_LINE = 100  # bytes of a line in memory: two places and a value in lists, then in arrays
_SAMPLE = 30  # lines from which the notation of the numbers is decided
_NAME = 150  # bytes of a new name, beside its letters


def read_triplets(
    path: Path,
    lines: Iterator[tuple[int, list[str]]],
    header: bool | None,
    memory: Memory,
    decimal: str | None = None,
) -> Dataset:
    """Make a sparse matrix of lines with a row, a column and a value; duplicates are summed.

    A value such as NA is missing. Rows and columns are sorted where their names are numbers, and
    stand in the order of their first line elsewhere. A header names the axes.
    """
    number, first = next(lines, (0, []))
    if len(first) < 3:
        raise FormatError(
            Message(
                "{path} has {n} cells in its first line: a table for {triplets} has a row, a "
                "column and a value in each line",
                path=path,
                n=len(first),
                triplets=Given("triplets", True),
            )
        )
    if header is None:
        header = not is_number(first[2])
    if not header:
        lines = chain([(number, first)], lines)
    sample = list(islice(lines, _SAMPLE))
    values = [cells[2] for _, cells in sample if len(cells) > 2 and not is_missing(cells[2])]
    notation, remark = find_notation(path, values, decimal)
    places: tuple[dict[str, int], dict[str, int]] = ({}, {})
    entries: tuple[list[int], list[int], list[float]] = ([], [], [])
    size = 0
    for number, cells in chain(sample, lines):
        missing = len(cells) > 2 and is_missing(cells[2])
        if len(cells) < 3 or not (missing or notation.reads(cells[2])):
            raise FormatError(
                f"{path}, line {number}: expected a row, a column and a number, and found "
                f"{', '.join(cells)[:60]!r}"
            )
        for names, name, entry in zip(places, cells, entries[:2], strict=False):
            if name not in names:
                names[name] = len(names)
                size += _NAME + len(name)
            entry.append(names[name])
        entries[2].append(np.nan if missing else notation.number(cells[2]))
        size += _LINE
        memory.needs(size)
    if not entries[2]:
        raise FormatError(f"{path} has a header and no lines of values: write the table again")
    titles = first[:2] if header else ["row", "column"]
    rows, i = _axis(titles[0] or "row", list(places[0]), np.array(entries[0]))
    columns, j = _axis(titles[1] or "column", list(places[1]), np.array(entries[1]))
    shape = (len(rows.values), len(columns.values))
    X = sp.coo_matrix((np.array(entries[2]), (i, j)), shape=shape)
    return build(path, X, rows, columns, memory=memory, description=remark)


def _axis(title: str, names: list[str], places: np.ndarray) -> tuple[Axis, np.ndarray]:
    """The axis, in the order of its numbers where they are numbers, and the places in it."""
    axis = named_axis(title, names)
    if axis.values.dtype.kind not in "fi" or len(np.unique(axis.values)) < len(names):
        return Axis(axis.name, np.array(names, dtype=np.str_)), places
    order = np.argsort(axis.values)
    new = np.empty(len(order), dtype=np.int64)
    new[order] = np.arange(len(order))
    return Axis(axis.name, axis.values[order]), new[places]
