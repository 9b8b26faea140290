"""How a table writes numbers: with a decimal point or comma, and with or without thousands apart.

Input: the cells of the first lines. Output: the one notation that all of them fit, or an error
where none or more than one does.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.arguments.errors import ArgumentError, Given, Message
from nmfmerge.io.errors import FormatError

_MISSING = {"", "na", "n/a", "nan", "null", "none", "-", "."}
_SIGNS = re.compile(r"[%$€£¥]|(?<=\d) (?=\d{3}(?!\d))")  # which no notation has


@dataclass(frozen=True)
class Notation:
    """A decimal sign, and whether thousands may be apart: 1,234.5 or 1.234,5 or 1'234.5."""

    decimal: str = "."
    grouped: bool = False

    def number(self, cell: str) -> float:
        """The number in a cell; ValueError where there is none."""
        if not self.grouped:
            return _plain(cell)
        if not _PATTERNS[self.decimal].fullmatch(cell.strip()):
            raise ValueError(f"{cell!r} is not a number with the decimal sign {self.decimal}")
        return float(re.sub(rf"[^\d{self.decimal}eE+-]", "", cell).replace(self.decimal, "."))

    def reads(self, cell: str) -> bool:
        """True if a cell has a number in this notation."""
        try:
            self.number(cell)
        except ValueError:
            return False
        return True

    def plain(self, names: Sequence[str]) -> Sequence[str]:
        """Names of an axis; where all are numbers, as Python writes these."""
        if not self.grouped or not all(map(self.reads, names)):
            return names
        return [str(self.number(name)) for name in names]


PLAIN, POINT, COMMA = Notation(), Notation(".", True), Notation(",", True)


def _pattern(decimal: str, marks: str) -> re.Pattern[str]:
    whole = rf"(?:\d{{1,3}}(?P<mark>[{marks}])\d{{3}}(?:(?P=mark)\d{{3}})*|\d+)"
    point = re.escape(decimal)
    return re.compile(rf"[+-]?(?:{whole}(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?")


_PATTERNS = {
    ".": _pattern(".", ",'’\u00a0\u202f"),
    ",": _pattern(",", ".'’\u00a0\u202f"),
}


def _plain(cell: str) -> float:
    """A number as Python writes it, but without 1_000 and NaN."""
    number = float(cell)
    if "_" in cell or np.isnan(number):
        raise ValueError(f"{cell!r} is not a number")
    return number


def is_number(cell: str) -> bool:
    """True if a cell has a number in any notation."""
    return any(notation.reads(cell) for notation in (PLAIN, POINT, COMMA))


def is_quantity(cell: str) -> bool:
    """True if a cell is a number in any notation, possibly with a sign such as percent."""
    return is_number(_SIGNS.sub("", cell))


def is_missing(cell: str) -> bool:
    """True if a cell is a missing value."""
    return cell.strip().lower() in _MISSING


def is_name(cell: str) -> bool:
    """True if a cell is neither a number nor a missing value."""
    return not is_number(cell) and not is_missing(cell)


def check_decimal(value: Any) -> str:
    """Check the decimal sign, as `read` takes it."""
    if value not in (".", ","):
        raise ArgumentError("decimal", "is not a decimal sign", value=value, fix="write '.' or ','")
    return str(value)


def find_notation(path: Path, cells: Sequence[str], decimal: str | None) -> tuple[Notation, str]:
    """The notation of these cells, and a sentence about it where it is not the plain one.

    Parameters
    ----------
    path : Path
        The file, for messages.
    cells : sequence of str
        Cells of the first lines; those that are no numbers in any notation do not count.
    decimal : str or None
        The decimal sign, where the user gives it.
    """
    if decimal is not None:
        return Notation(decimal, grouped=True), ""
    special = [cell for cell in cells if not PLAIN.reads(cell) and is_number(cell)]
    if not special:
        return PLAIN, ""
    numbers = [cell for cell in cells if is_number(cell)]
    fitting = [one for one in (POINT, COMMA) if all(map(one.reads, numbers))]
    if not fitting:
        of_point, of_comma = (
            next(cell for cell in numbers if not other.reads(cell)) for other in (COMMA, POINT)
        )
        raise FormatError(
            f"{path} has {of_point!r} and {of_comma!r}, which do not have the same decimal sign: "
            "write all numbers with a decimal point"
        )
    cell = next((cell for cell in special if len({one.number(cell) for one in fitting}) > 1), None)
    if cell is not None:
        raise FormatError(
            Message(
                "{path} has {cell}, which is {of_point} or {of_comma}: say which with {point} or "
                "{comma}",
                path=path,
                cell=repr(cell),
                of_point=f"{POINT.number(cell):.15g}",
                of_comma=f"{COMMA.number(cell):.15g}",
                point=Given("decimal", "."),
                comma=Given("decimal", ","),
            )
        )
    notation = fitting[0]
    return notation, f"numbers such as {special[0]!r} were read as {notation.number(special[0])!r}"
