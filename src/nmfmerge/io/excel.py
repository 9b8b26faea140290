"""Excel workbooks: one sheet, a table by the same rules as a table of text."""

from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from nmfmerge.datasets.base import Dataset
from nmfmerge.io.build import choose
from nmfmerge.io.errors import library
from nmfmerge.io.memory import Memory
from nmfmerge.io.text import Line, read_lines

_MOST_LINES = 1_048_576  # of a sheet
_UNPACKED = 4  # bytes of memory for a byte of the unpacked workbook


def read_excel(
    path: Path,
    memory: Memory,
    header: bool | None = None,
    variable: str | None = None,
    decimal: str | None = None,
) -> Dataset:
    """Read a sheet of an Excel workbook; ``variable`` is its name."""
    openpyxl = library("openpyxl", path.suffix, "openpyxl", "tables")
    with ZipFile(path) as parts:
        memory.needs(_UNPACKED * sum(part.file_size for part in parts.infolist()))
    with redirect_stdout(StringIO()):  # where the library prints what it thinks of damaged styles
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    try:
        sheet = choose(path, {sheet.title: None for sheet in book.worksheets}, variable)
        return read_lines(path, _lines(book[sheet]), header, memory, decimal)
    finally:
        book.close()


def _lines(sheet: Any) -> Iterator[Line]:
    """Cells of each line that has some, as text; empty cells at its end are left out."""
    sheet.reset_dimensions()  # which some programs write wrong
    for number, line in enumerate(sheet.iter_rows(values_only=True), 1):
        if number > _MOST_LINES:  # a damaged number of a line would be counted up to
            raise ValueError(f"it has a line after line {_MOST_LINES}, the last of a sheet")
        cells = ["" if value is None else str(value) for value in line]
        while cells and not cells[-1].strip():
            cells.pop()
        if cells:
            yield number, cells
