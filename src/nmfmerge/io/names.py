"""Names of rows and columns from text files: those that the user gives, and those beside a matrix.

A vocabulary, a list of documents, genes or barcodes that stands in the folder of a matrix belongs
to the side of the matrix that has as many entries.
"""

import csv
import gzip
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from io import BufferedReader, TextIOWrapper
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.arguments.errors import ABSENT, ArgumentError, Message, short
from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.io.build import UNNAMED, named_axis
from nmfmerge.io.errors import FormatError, ReadingWarning
from nmfmerge.io.formulas import unmark
from nmfmerge.io.memory import Memory, Metered

_LINE = 100  # bytes of a line in memory, beside its letters
_TABLES = (".txt", ".tsv", ".csv")
_BESIDE = {  # what the entries are: names of files, and their suffixes
    "word": (("vocabulary", "vocab", "terms", "words"), _TABLES),
    "document": (("documents", "docs", "titles"), _TABLES),
    "gene": (("features", "genes"), (".tsv",)),
    "cell": (("barcodes",), (".tsv",)),
}


def read_lines(file: Path, memory: Memory) -> list[list[str]]:
    """The cells of each line of a text file; blank lines at the end are left out."""
    if not file.is_file():
        raise FileNotFoundError(f"{file} was not found: check its name and folder")
    lines: list[list[str]] = []
    size = 0
    try:
        with gzip.open(file) if file.suffix.lower() == ".gz" else file.open("rb") as raw:
            for cells in _cells(file, Metered(raw, memory)):
                lines.append(cells)
                size += _LINE + sum(_LINE + len(cell) for cell in cells)
                memory.needs(size)
    except UnicodeDecodeError as error:
        raise FormatError(f"{file} is not text in UTF-8: save it as plain text in UTF-8") from error
    except (gzip.BadGzipFile, EOFError) as error:
        raise FormatError(f"{file} is not a complete .gz file: copy or write it again") from error
    while lines and not any(cell.strip() for cell in lines[-1]):
        lines.pop()
    return lines


def _cells(file: Path, raw: Metered) -> Iterator[list[str]]:
    text = TextIOWrapper(BufferedReader(raw), encoding="utf-8-sig")
    if file.name.lower().removesuffix(".gz").endswith(".csv"):
        yield from csv.reader(text)
    else:
        yield from (line.rstrip("\r\n").split("\t") for line in text)


def read_names(file: Path, memory: Memory) -> list[str]:
    """One name a line; of a table the first column, but the symbols of genes where they are."""
    lines = read_lines(file, memory)
    if kind_of(file) == "gene" and lines and all(len(cells) > 1 for cells in lines):
        return make_unique([cells[1] for cells in lines])
    return [unmark(cells[0]) if cells else "" for cells in lines]


def make_unique(names: Sequence[str]) -> list[str]:
    """Names of which no two are the same: repetitions get -1, -2, … at their end, as in scanpy."""
    taken, counts, unique = set(names), dict.fromkeys(names, -1), []
    for name in names:
        counts[name] += 1
        new = name
        while counts[name] and (new := f"{name}-{counts[name]}") in taken:
            counts[name] += 1
        taken.add(new)
        unique.append(new)
    return unique


def check_names(value: Any) -> None:
    """Names, as `read` takes them: a file, or one name for each entry."""
    if isinstance(value, str | PathLike):
        return
    if np.ndim(value) != 1 or isinstance(value, bytes):
        raise ArgumentError(
            "row_names",
            "or {column_names} is {found}",
            fix="name a text file with one name a line, or give a list of names",
            found=short(value),
        )


@dataclass(frozen=True)
class GivenNames:
    """Names that the user gives for the rows or columns.

    Attributes
    ----------
    names : list of str
        The names.
    option : str
        The option that they came by, for messages.
    value : optional
        Its value, if that was a file.
    kind : str or None
        The kind of the names, if the file name implies it.
    origin : str
        Where they are from, for the description of the data; empty for a list.
    """

    names: list[str]
    option: str
    value: Any = ABSENT
    kind: str | None = None
    origin: str = ""

    @classmethod
    def read(cls, given: Any, side: str, option: str, memory: Memory) -> "GivenNames":
        """The names of a file or a list."""
        if not isinstance(given, str | PathLike):
            return cls([str(name) for name in given], option)
        file = Path(fspath(given))
        origin = f"names of the {side} from {file.name}"
        return cls(read_names(file, memory), option, str(given), kind_of(file), origin)


def name_side(data: Dataset, side: str, given: GivenNames, path: Path) -> Dataset:
    """Give names to the rows or columns, one for each."""
    axis: Axis = getattr(data, side)
    n, wanted = len(given.names), len(axis.values)
    if n != wanted:
        title = n == wanted + 1
        fix = "remove its first line if that is a title" if title else "give one for each"
        raise ArgumentError(
            given.option,
            f"has {n} names where {{path}} has {wanted} {side}",
            value=given.value,
            fix=fix,
            path=path,
        )
    named: dict[str, Any] = {side: named_axis(given.kind or axis.name, given.names)}
    return replace(data, **named, description=joined(data.description, given.origin))


def kind_of(file: Path) -> str | None:
    """The kind of the names in a file, if the file name implies it."""
    name = file.name.lower().removesuffix(".gz")
    for kind, (words, suffixes) in _BESIDE.items():
        if name.endswith(tuple(word + suffix for word in words for suffix in suffixes)):
            return kind
    return None


def names_beside(path: Path, data: Dataset, memory: Memory, given: Collection[Path]) -> Dataset:
    """Name the sides of a matrix by the files of names in its folder.

    Parameters
    ----------
    path : Path
        The file of the matrix.
    data : Dataset
        The matrix, whose sides are numbered.
    memory : Memory
        What reading may take.
    given : collection of Path
        Files that the user has given for a side; they are not looked at.
    """
    for kind, file in files_beside(path):
        if file.resolve() in given:
            continue
        names = read_names(file, memory)
        sides = [
            side
            for side in ("rows", "columns")
            if getattr(data, side).name in UNNAMED and len(names) == len(getattr(data, side).values)
        ]
        if len(sides) == 1:
            axis: dict[str, Any] = {sides[0]: Axis(kind, np.array(names, dtype=np.str_))}
            origin = f"names of the {sides[0]} from {file.name}"
            data = replace(data, **axis, description=joined(data.description, origin))
        else:
            _warn_left_out(path, file, len(names), data, bool(sides))
    return data


def files_beside(path: Path) -> Iterator[tuple[str, Path]]:
    """The files of names in the folder of a matrix, each with the kind of its names."""
    stem = path.name.removesuffix(".gz").rsplit(".", 1)[0]
    for kind, (words, suffixes) in _BESIDE.items():
        file = _first(path.parent, stem, words, suffixes)
        if file is not None:
            yield kind, file


def _first(folder: Path, stem: str, words: Sequence[str], suffixes: Sequence[str]) -> Path | None:
    """The first file of names that exists; files with the prefix of the matrix come first."""
    for start in (f"{stem}_", f"{stem}-", f"{stem}.", ""):
        for word in words:
            for suffix in suffixes:
                for end in ("", ".gz"):
                    file = folder / f"{start}{word}{suffix}{end}"
                    if file.is_file():
                        return file
    return None


def _warn_left_out(path: Path, file: Path, n: int, data: Dataset, both: bool) -> None:
    m, k = (len(axis.values) for axis in (data.rows, data.columns))
    fits = (
        "which fits both sides: say which with {row_names=} or {column_names=}"
        if both
        else "which fits no side that has no names yet: correct the file, or move it elsewhere"
    )
    warnings.warn(
        ReadingWarning(
            Message(
                "{file} was left out: it has {n} names and {path} has {m} rows and {k} columns, "
                + fits,
                file=file,
                n=n,
                path=path,
                m=m,
                k=k,
            )
        ),
        stacklevel=2,
    )


def joined(*sentences: str) -> str:
    """Sentences as one, without full stops before its semicolons."""
    *before, last = [sentence for sentence in sentences if sentence] or [""]
    return "; ".join([*(sentence.rstrip(".") for sentence in before), last])
