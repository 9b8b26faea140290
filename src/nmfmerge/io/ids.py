"""Names of rows and columns that are ids: places in a list of names, counted from 0 or from 1.

Sparse tables often have numbers of words and documents, with the words and documents themselves in
files beside them.
"""

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nmfmerge.arguments.errors import Message
from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.io.build import named_axis
from nmfmerge.io.errors import FormatError, ReadingWarning
from nmfmerge.io.memory import Memory
from nmfmerge.io.names import GivenNames, files_beside, joined, read_names

_TITLES = {  # how titles of columns begin that speak of a kind
    "word": ("word", "term", "vocab", "token"),
    "document": ("doc", "title", "text"),
    "gene": ("gene", "feature"),
    "cell": ("cell", "barcode"),
}


def are_ids(axis: Axis) -> bool:
    """True if the entries of an axis may be ids: nonnegative integers."""
    return axis.values.dtype.kind in "iu" and int(axis.values.min()) >= 0


def first_id(axis: Axis) -> int:
    """Where ids are counted from: 0 if that is one of them, else 1."""
    return int(axis.values.min() > 0)


def reach(axis: Axis) -> int:
    """How many names a list has at least, that ids are places in."""
    return int(axis.values.max()) - first_id(axis) + 1


def name_by_id(
    data: Dataset, side: str, names: Sequence[str], kind: str | None, origin: str
) -> Dataset:
    """Name the rows or columns by the places of their ids in a list."""
    axis: Axis = getattr(data, side)
    first = first_id(axis)
    chosen = [names[i - first] for i in axis.values.tolist()]
    named: dict[str, Any] = {side: named_axis(kind or axis.name, chosen)}
    origin = origin and f"{origin}, by ids from {first}"
    return replace(data, **named, description=joined(data.description, origin))


def name_ids(data: Dataset, side: str, given: GivenNames, path: Path) -> Dataset:
    """Name ids by a list that the user gives; it may have more names than there are ids."""
    axis: Axis = getattr(data, side)
    if reach(axis) > len(given.names):
        raise FormatError(
            f"{given.option} has {len(given.names)} names where the {side} of {path} are ids up to "
            f"{axis.values.max()}, counted from {first_id(axis)}: give a name for each id"
        )
    return name_by_id(data, side, given.names, given.kind, given.origin)


def ids_beside(
    path: Path, data: Dataset, memory: Memory, given: Collection[Path], sides: Collection[str]
) -> Dataset:
    """Name those of the sides that are ids by the files of names in the folder of a table.

    A title of the table such as "docID" or "word" says which side a file is for; without it, that
    is the one side whose ids the file has names for, or the one for which it has just enough.
    """
    for kind, file in files_beside(path):
        free = {side: axis for side in sides if are_ids(axis := getattr(data, side))}
        possible = _possible_sides(kind, free)
        if not possible or file.resolve() in (path.resolve(), *given):
            continue
        names = read_names(file, memory)
        fit = [side for side in possible if reach(free[side]) <= len(names)]
        exact = [side for side in fit if reach(free[side]) == len(names)]
        found = fit if len(fit) == 1 else exact
        if len(found) == 1:
            origin = f"names of the {found[0]} from {file.name}"
            data = name_by_id(data, found[0], names, kind, origin)
        else:
            _warn_left_out(path, file, len(names), bool(fit))
    return data


def _possible_sides(kind: str, axes: Mapping[str, Axis]) -> list[str]:
    """The sides that names of a kind may be for, by their titles; else those without a kind."""
    kinds = {side: _kind_of_title(axis.name) for side, axis in axes.items()}
    own = [side for side in axes if kinds[side] == kind]
    return own or [side for side in axes if kinds[side] is None]


def _warn_left_out(path: Path, file: Path, n: int, both: bool) -> None:
    why = (
        "which fits the ids of both sides: say which with {row_names=} or {column_names=}"
        if both
        else "and there are ids beyond them: correct the file, or move it elsewhere"
    )
    warnings.warn(
        ReadingWarning(
            Message(
                "{file} was left out: it has {n} names for ids of {path}, " + why,
                file=file,
                n=n,
                path=path,
            )
        ),
        stacklevel=3,
    )


def _kind_of_title(title: str) -> str | None:
    for kind, starts in _TITLES.items():
        if title.lower().startswith(starts):
            return kind
    return None
