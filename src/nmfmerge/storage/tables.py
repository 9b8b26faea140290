"""Tables as plain columns, and one writer for each format: csv, Parquet, Excel.

Input: tables with a name, heads and columns. Output: one file for each table, or one workbook
with a sheet for each.
"""

import csv
import importlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.arguments.errors import Given, Message
from nmfmerge.fields.table import Table
from nmfmerge.io.formulas import mark

_DIGITS = ".9g"  # of a number of an array in a csv file; factors.npz has all
_NAME_DIGITS = ".12g"  # of a number that is a name: 391.285, not 391.28499999999997
_MOST_LINES = 1_048_575  # of an Excel sheet, without the heads
_MOST_COLUMNS = 16_384
_MOST_LETTERS = 32_767  # of a cell
_LINES = 4096  # that are written at once
_EXACT = 2**53  # whole numbers up to here are exact in Excel
WORKBOOK = "tables.xlsx"


class TableError(ValueError):
    """Tables cannot be written in a format; the message says what to do."""


def check_tables(kind: str, n_columns: int) -> None:
    """Check, before a fit, that its tables can be written in a format.

    Parameters
    ----------
    kind : str
        "csv", "parquet" or "xlsx".
    n_columns : int
        Of the widest table.
    """
    if kind not in WRITERS:
        raise TableError(
            Message(
                "{tables} is not known: choose from {known}",
                tables=Given("tables", kind),
                known=", ".join(WRITERS),
            )
        )
    if kind == "parquet":
        _library("pyarrow", kind)
    if kind == "xlsx":
        _library("openpyxl", kind)
        if n_columns > _MOST_COLUMNS:
            raise TableError(
                Message(
                    "{tables} cannot hold {n} columns: a sheet of Excel has at most {most}; choose "
                    "parquet or csv",
                    tables=Given("tables", "xlsx"),
                    n=n_columns,
                    most=_MOST_COLUMNS,
                )
            )


def write_tables(folder: Path, tables: Sequence[Table], kind: str = "csv") -> None:
    """Write tables into a folder.

    Parameters
    ----------
    folder : Path
        Where; it exists.
    tables : sequence of Table
    kind : str
        "csv" or "parquet": a file for each table. "xlsx": one workbook, ``tables.xlsx``, with a
        sheet for each table, and more where a table has more lines than a sheet.
    """
    for table in tables:
        check_tables(kind, len(table.heads))
    WRITERS[kind](folder, tables)


def _write_csv(folder: Path, tables: Sequence[Table]) -> None:
    """Names of files that are not UTF-8 keep their bytes; harmful formulas become text."""
    for table in tables:
        with open(
            folder / f"{table.name}.csv", "w", newline="", encoding="utf-8",
            errors="surrogateescape",
        ) as file:  # fmt: skip
            writer = csv.writer(file)
            writer.writerow(map(_csv_cell, table.heads))
            for part in _parts(table):
                writer.writerows(zip(*map(_csv_cells, part), strict=True))


def _parts(table: Table) -> Iterator[list[Sequence[Any] | np.ndarray]]:
    """The columns, some lines at a time, so that not all numbers are Python's at once."""
    for start in range(0, table.n_lines, _LINES):
        yield [column[start : start + _LINES] for column in table.columns]


def _csv_cells(column: Sequence[Any] | np.ndarray) -> Iterator[Any]:
    digits = _DIGITS if isinstance(column, np.ndarray) else _NAME_DIGITS
    return (_csv_cell(value, digits) for value in _plain(column))


def _csv_cell(value: Any, digits: str = _NAME_DIGITS) -> Any:
    """A number with its digits; text of letters, or bytes of a name that was not UTF-8."""
    if isinstance(value, float):
        return "" if math.isnan(value) else format(value, digits)
    if not isinstance(value, str):
        return value
    return mark(re.sub(r"[\ud800-\udc7f\udd00-\udfff]", "\ufffd", value))


def _write_parquet(folder: Path, tables: Sequence[Table]) -> None:
    arrow, parquet = (_library(name, "parquet") for name in ("pyarrow", "pyarrow.parquet"))
    for table in tables:
        columns = [
            arrow.array(column) if _is_numeric(column) else arrow.array(_text_or_number(column))
            for column in table.columns
        ]
        heads = _unique([_printable(head) for head in table.heads])
        parquet.write_table(
            arrow.Table.from_arrays(columns, names=heads), folder / f"{table.name}.parquet"
        )


def _write_xlsx(folder: Path, tables: Sequence[Table]) -> None:
    openpyxl = _library("openpyxl", "xlsx")
    book = openpyxl.Workbook(write_only=True)
    for table in chain.from_iterable(map(_sheets, tables)):
        sheet = book.create_sheet(table.name)
        sheet.freeze_panes = "B2"
        sheet.append([_excel_cell(sheet, head) for head in table.heads])
        for part in _parts(table):
            for line in zip(*map(_exact, part), strict=True):
                sheet.append([_excel_cell(sheet, value) for value in line])
    book.save(folder / WORKBOOK)


def _sheets(table: Table) -> Iterator[Table]:
    """A table cut where a sheet is full: "peaks", "peaks (2)", …."""
    yield Table(table.name, table.heads, [column[:_MOST_LINES] for column in table.columns])
    for number, start in enumerate(range(_MOST_LINES, table.n_lines, _MOST_LINES), 2):
        columns = [column[start : start + _MOST_LINES] for column in table.columns]
        yield Table(f"{table.name} ({number})", table.heads, columns)


def _excel_cell(sheet: Any, value: Any) -> Any:
    """A cell whose text stays text: "=A1" is no formula and "#N/A" no error."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if not isinstance(value, str):
        return value
    cell = _library("openpyxl.cell", "xlsx").WriteOnlyCell(sheet, _printable(value)[:_MOST_LETTERS])
    cell.data_type = "s"
    return cell


def _exact(column: Sequence[Any] | np.ndarray) -> list[Any]:
    """Values, whole numbers as text where Excel would round them."""
    return [
        str(value) if isinstance(value, int) and abs(value) > _EXACT else value
        for value in _plain(column)
    ]


def _is_numeric(column: Sequence[Any] | np.ndarray) -> bool:
    return isinstance(column, np.ndarray) and column.dtype.kind in "fiub"


def _text_or_number(column: Sequence[Any] | np.ndarray) -> list[Any]:
    """Values of one type: numbers, or text where one of them is text or a huge whole number."""
    values = _plain(column)
    if any(isinstance(v, str) or (isinstance(v, int) and abs(v) > _EXACT) for v in values):
        return [None if value is None else _printable(str(value)) for value in values]
    return values


def _plain(column: Sequence[Any] | np.ndarray) -> list[Any]:
    return column.tolist() if isinstance(column, np.ndarray) else list(column)


def _printable(text: str) -> str:
    """Text that any program can read: bytes that are no text and control characters become �."""
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]", "\ufffd", text)


def _unique(heads: Sequence[str]) -> list[str]:
    """Heads that are all different, as Parquet wants them."""
    unique: list[str] = []
    for head in heads:
        name, count = head, 1
        while name in unique:
            count += 1
            name = f"{head} ({count})"
        unique.append(name)
    return unique


def _library(module: str, kind: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise TableError(
            Message(
                '{tables} needs {library}: pip install "nmfmerge[tables]", or choose csv',
                tables=Given("tables", kind),
                library=module.split(".")[0],
            )
        ) from error


WRITERS: Mapping[str, Callable[[Path, Sequence[Table]], None]] = {
    "csv": _write_csv,
    "parquet": _write_parquet,
    "xlsx": _write_xlsx,
}
