"""Tables as text: numbers, with the names of rows and columns where the table has them.

A first line is a header where most of its cells are not numbers, where its first cell is empty, or
where its first cell is text and the next line begins with a number; ``header`` decides otherwise.
A first column has names where most of its cells are not numbers, or where the header has an empty
cell, no cell, or the only text above it. `notation` says what a number is.
"""

import csv
import gzip
from collections.abc import Iterator
from io import BufferedReader, TextIOWrapper
from itertools import chain, islice, product
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.arguments.errors import Given, Message
from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.io.build import build, named_axis
from nmfmerge.io.errors import FormatError
from nmfmerge.io.formulas import unmark
from nmfmerge.io.memory import Memory, Metered
from nmfmerge.io.notation import (
    Notation,
    find_notation,
    is_missing,
    is_name,
    is_number,
    is_quantity,
)
from nmfmerge.io.triplets import read_triplets

_SAMPLE = 30  # lines from which the layout is decided
_ROW = 200  # bytes of a line of numbers in memory, beside the numbers
_CELLS = 30  # bytes of memory that a byte of text may become when its line is cut into cells

Line = tuple[int, list[str]]  # number of the line in the file, and its cells


def read_text(
    path: Path,
    memory: Memory,
    header: bool | None = None,
    triplets: bool = False,
    decimal: str | None = None,
) -> Dataset:
    """Read a table of numbers separated by commas, semicolons, tabs or spaces."""
    try:
        with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as file:
            delimiter = _delimiter(path, _text(Metered(file, memory, _CELLS)))
            file.seek(0)
            lines = _cells(Metered(file, memory, _CELLS), delimiter)
            return (read_triplets if triplets else read_lines)(path, lines, header, memory, decimal)
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not text in UTF-8: save it as plain text in UTF-8") from error


def read_lines(
    path: Path,
    lines: Iterator[Line],
    header: bool | None,
    memory: Memory,
    decimal: str | None = None,
) -> Dataset:
    """Read a table from the cells of its lines."""
    sample = list(islice(lines, _SAMPLE))
    if not sample:
        raise FormatError(f"{path} has no lines with numbers: write the table again")
    if header is None:
        header = _has_header(sample)
    if header and len(sample) < 2:
        raise FormatError(f"{path} has a header and no lines of numbers: write the table again")
    named = _has_row_names(sample, header)
    title = [unmark(cell) for cell in sample.pop(0)[1]] if header else []
    first = [cell for _, cells in sample for cell in cells[named:]]
    notation, remark = find_notation(path, first, decimal)
    width = len(sample[0][1])
    names, values, size = [], [], 0
    for number, cells in chain(sample, lines):
        if len(cells) != width:
            raise FormatError(
                f"{path} has {len(cells)} cells in line {number} where the lines before have "
                f"{width}: give all lines as many"
            )
        names.append(unmark(cells[0]) if named else "")
        values.append(_row(path, number, cells, named, notation))
        size += _ROW + len(names[-1]) + 2 * values[-1].nbytes  # as a list, and as a matrix
        memory.needs(size)
    corner = title[0] if len(title) == width else ""
    rows = named_axis("row", notation.plain(names), corner) if named else None
    columns = _columns(path, title, width, named, notation)
    return build(path, np.array(values), rows, columns, memory=memory, description=remark)


def _columns(
    path: Path, title: list[str], width: int, named: bool, notation: Notation
) -> Axis | None:
    if not title:
        return None
    names = title[1:] if named and len(title) == width else title
    if len(names) != width - named:
        raise FormatError(
            f"{path} has {len(title)} cells in its header where the lines below have {width}: name "
            "each column once"
        )
    return named_axis("column", notation.plain(names))


def _row(path: Path, number: int, cells: list[str], named: bool, notation: Notation) -> np.ndarray:
    numbers = cells[named:]
    convert = notation.number if notation.grouped else float
    try:
        row = np.fromiter(map(convert, numbers), np.float64, len(numbers))
    except ValueError:
        row = np.array([np.nan])
    if "_" in "".join(numbers) or not (row == row).all():  # Python allows 1_000, NaN is not NaN
        for at, cell in enumerate(numbers, int(named)):
            if not (notation.reads(cell) or is_missing(cell)):
                raise FormatError(_bad_cell(path, number, at + 1, cell))
        row = np.array([np.nan if is_missing(cell) else convert(cell) for cell in numbers])
    return row


def _bad_cell(path: Path, number: int, column: int, cell: str) -> Message:
    def message(template: str) -> Message:
        return Message(
            "{path}, line {number}, column {column}: " + template,
            path=path,
            number=number,
            column=column,
            cell=repr(cell[:40]),
            point=Given("decimal", "."),
            comma=Given("decimal", ","),
        )

    fix = "write a number, or drop what is not data"
    if is_number(cell):
        fix = "write all numbers alike, or give the decimal sign with {comma} or {point}"
    elif is_quantity(cell):
        fix = "write digits and a decimal point only"
        if column == 1:
            fix += ", or leave the cell of the header above it empty if this column names the rows"
    return message("{cell} is not a number; " + fix)


def _has_header(sample: list[Line]) -> bool:
    first = sample[0][1]
    below = sample[1][1] if len(sample) > 1 else []
    if len(first) == len(below) - 1:
        return _mostly_names(first) or is_name(below[0])
    if len(first) == 1:
        return is_name(first[0])
    rest = first[1:]
    if _mostly_names(rest):
        return True
    if any(map(is_missing, rest)) or not below:
        return False
    return not first[0].strip() or (is_name(first[0]) and is_number(below[0]))


def _has_row_names(sample: list[Line], header: bool) -> bool:
    below = [cells for _, cells in sample[header:]]
    if len(below[0]) < 2:
        return False
    if header:
        title = sample[0][1]
        if len(title) == len(below[0]) - 1 or not title[0].strip():
            return True
        if is_name(title[0]) and all(map(is_number, title[1:])):
            return True
    names = [cells[0] for cells in below if is_name(cells[0]) and not is_quantity(cells[0])]
    return len(names) > len(below) / 2


def _mostly_names(cells: list[str]) -> bool:
    return sum(map(is_name, cells)) > len(cells) / 2


def _text(file: Metered) -> TextIOWrapper:
    return TextIOWrapper(BufferedReader(file), encoding="utf-8-sig", newline="")


def _delimiter(path: Path, text: TextIOWrapper) -> str:
    """The first of tab, semicolon and comma that splits the first lines; in .txt, spaces too."""
    start = [line for line in islice(text, _SAMPLE) if line.strip() and not line.startswith("#")]
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if suffix == ".tsv":
        return "\t"
    known = "\t;," if suffix == ".csv" else "\t;, "
    for lines, delimiter in product((start[:2], start[:1]), known):
        if _splits(lines, delimiter):
            return delimiter
    return known[-1]


def _splits(lines: list[str], delimiter: str) -> bool:
    """True if each of the lines has more than one cell."""
    try:
        return min((len(row) for row in csv.reader(lines, delimiter=delimiter)), default=0) > 1
    except csv.Error:  # a cell is longer than cells can be: the line has another delimiter
        return False


def _cells(file: Metered, delimiter: str) -> Iterator[Line]:
    """Lines that are not blank; a comment just above the table with as many cells is its header."""
    comment: list[str] = []
    text: Any = _text(file)
    if delimiter == " ":
        text = (line.strip(" \r\n") + "\n" for line in text)
    reader = csv.reader(text, delimiter=delimiter, skipinitialspace=delimiter == " ")
    begun = False
    for cells in reader:
        file.reset()
        if not any(cell.strip() for cell in cells) and len(cells) < 2:
            continue
        if not begun and cells[0].startswith("#"):
            comment = [cells[0].lstrip("# "), *cells[1:]] if delimiter != " " else []
            continue
        if not begun and len(comment) == len(cells) and _mostly_names(comment[1:]):
            yield reader.line_num - 1, comment
        begun = True
        yield reader.line_num, cells
