"""Allowed values of arguments: each class checks a value and describes what it expects.

The arguments of functions, the options of readers and those of the command line are declared by
these.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from nmfmerge.arguments.errors import ArgumentError, wrong_type


@dataclass(frozen=True)
class Value:
    """Any value; what it may be is checked where it is used."""

    expected: ClassVar[Any] = "a value"  # in words
    metavar: ClassVar[str] = "NAME"
    kind: ClassVar[type] = str  # what a command line makes of a text

    def check(self, name: str, value: Any) -> Any:
        """The checked value; raise `ArgumentError` or `ArgumentTypeError` if it is wrong."""
        return value


@dataclass(frozen=True)
class Whole(Value):
    """A whole number of at least ``low``; booleans count where they are ``a_level``."""

    low: int
    a_level: bool = False
    metavar: ClassVar[str] = "N"
    kind: ClassVar[type] = int

    @property
    def expected(self) -> str:
        """A description of the allowed values."""
        return f"a whole number of at least {self.low}"

    def check(self, name: str, value: Any) -> int:
        """An int."""
        boolean = isinstance(value, bool | np.bool_)
        if (boolean and not self.a_level) or not (boolean or isinstance(value, Integral)):
            raise wrong_type(name, value, self.expected)
        if value < self.low:
            raise ArgumentError(name, "is out of range", value=value, expected=self.expected)
        return int(value)


@dataclass(frozen=True)
class Threads(Value):
    """A number of threads; below zero it counts from all of them, −1."""

    expected = "a whole number of at least 1, or -1 for all"
    metavar: ClassVar[str] = "N"
    kind: ClassVar[type] = int

    def check(self, name: str, value: Any) -> int:
        """An int that is not 0."""
        if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
            raise wrong_type(name, value, self.expected)
        if value == 0:
            raise ArgumentError(name, "is out of range", value=value, expected=self.expected)
        return int(value)


@dataclass(frozen=True)
class Ranks(Value):
    """Ranks: a whole number, several of them, or a text such as "5-13" or "5,8,13"."""

    expected: ClassVar[str] = 'whole numbers of at least 1, as range(5, 14), "5-13" or "5,8,13"'
    metavar: ClassVar[str] = "RANKS"

    def check(self, name: str, value: Any) -> tuple[int, ...]:
        """The ranks, ascending, each once."""
        given = value
        if isinstance(given, str):
            given = self._read(name, given)
        elif not isinstance(given, Iterable) or isinstance(given, Mapping):
            given = [given]
        ranks = sorted({Whole(1).check(name, rank) for rank in given})
        if not ranks:
            raise ArgumentError(name, "is empty", value=value, expected=self.expected)
        return tuple(ranks)

    def _read(self, name: str, text: str) -> list[int]:
        ranks: list[int] = []
        for part in text.replace("–", "-").split(","):
            first, dash, last = part.strip().partition("-")
            if not (first.isdecimal() and (last.isdecimal() or not dash)):
                raise ArgumentError(name, "is not known", value=text, expected=self.expected)
            ranks += range(int(first), int(last or first) + 1)
        return ranks


@dataclass(frozen=True)
class Number(Value):
    """A finite number from ``low``, itself excluded where it must be ``above``, to ``high``."""

    low: float = -np.inf
    high: float = np.inf
    above: bool = False
    metavar: ClassVar[str] = "NUMBER"
    kind: ClassVar[type] = float

    @property
    def expected(self) -> str:
        """A description of the allowed values."""
        if np.isfinite(self.high):
            return f"a number from {self.low:g} to {self.high:g}"
        if not np.isfinite(self.low):
            return "a number"
        return f"a number {'above' if self.above else 'of at least'} {self.low:g}"

    def check(self, name: str, value: Any) -> float:
        """A float."""
        if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
            raise wrong_type(name, value, self.expected)
        number = float(value)
        inside = self.low <= number <= self.high and not (self.above and number == self.low)
        if not (np.isfinite(number) and inside):
            raise ArgumentError(name, "is out of range", value=value, expected=self.expected)
        return number


@dataclass(frozen=True)
class Word(Value):
    """One of a few words."""

    words: tuple[str, ...]

    @property
    def expected(self) -> str:
        """A description of the allowed values."""
        return "one of " + ", ".join(map(repr, self.words))

    def check(self, name: str, value: Any) -> str:
        """The word."""
        if not isinstance(value, str) or value not in self.words:
            raise ArgumentError(name, "is not known", value=value, expected=self.expected)
        return value


@dataclass(frozen=True)
class LongWord(Word):
    """One of a few words, of which some have a short form."""

    short: tuple[tuple[str, str], ...]  # short forms and what they stand for

    def check(self, name: str, value: Any) -> str:
        """The word in full."""
        in_full = dict(self.short).get(value, value) if isinstance(value, str) else value
        return super().check(name, in_full)


@dataclass(frozen=True)
class WordOr(Word):
    """One of a few words, or something else, which is checked where it is used."""

    other: str

    @property
    def expected(self) -> str:
        """A description of the allowed values."""
        return f"{super().expected}, or {self.other}"

    def check(self, name: str, value: Any) -> Any:
        """The value."""
        return super().check(name, value) if isinstance(value, str) else value


@dataclass(frozen=True)
class NumberOr(Number):
    """A number, or a word."""

    word: str = ""
    kind: ClassVar[type] = str

    @property
    def expected(self) -> str:
        """A description of the allowed values."""
        return f"{super().expected}, or {self.word!r}"

    def check(self, name: str, value: Any) -> Any:
        """A float, or the word; a text that is a number counts as one."""
        if value == self.word:
            return value
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                raise ArgumentError(
                    name, "is not known", value=value, expected=self.expected
                ) from None
        return super().check(name, value)


@dataclass(frozen=True)
class Seed(Value):
    """A seed of random numbers, or what makes them."""

    expected: ClassVar[str] = "None, a whole number, a numpy Generator or a RandomState"
    metavar: ClassVar[str] = "N"
    kind: ClassVar[type] = int

    def check(self, name: str, value: Any) -> Any:
        """The value."""
        if value is None or isinstance(value, np.random.Generator | np.random.RandomState):
            return value
        if isinstance(value, Integral) and not isinstance(value, bool):
            return Whole(0).check(name, value)
        raise wrong_type(name, value, self.expected)


@dataclass(frozen=True)
class Flag(Value):
    """True or False."""

    expected: ClassVar[str] = "True or False"

    def check(self, name: str, value: Any) -> bool:
        """A bool."""
        if not isinstance(value, bool | np.bool_):
            raise wrong_type(name, value, self.expected)
        return bool(value)


@dataclass(frozen=True)
class Text(Value):
    """A name: printable text on one line."""

    expected: ClassVar[str] = "a name"

    def check(self, name: str, value: Any) -> str:
        """A str."""
        if not isinstance(value, str):
            raise wrong_type(name, value, "a string")
        if not value.strip() or not value.isprintable():
            raise ArgumentError(
                name,
                "is not a valid name",
                value=value,
                expected="non-empty printable text on one line",
            )
        return str(value)


@dataclass(frozen=True)
class Function(Value):
    """A function."""

    expected: ClassVar[str] = "a function"

    def check(self, name: str, value: Any) -> Callable[..., Any]:
        """The function."""
        if not callable(value):
            raise wrong_type(name, value, self.expected)
        return value


@dataclass(frozen=True)
class NewFile(Value):
    """A file that is to be written, in a folder that exists."""

    expected: ClassVar[str] = "a path"

    def check(self, name: str, value: Any) -> Path:
        """A path."""
        if not isinstance(value, str | os.PathLike):
            raise wrong_type(name, value, self.expected)
        path = Path(value)
        if path.is_dir():
            raise ArgumentError(name, "is a folder", value=str(path), expected="a file")
        if not path.parent.is_dir():
            raise ArgumentError(
                name,
                "is in a folder that does not exist",
                value=str(path),
                fix="make the folder {folder}",
                folder=repr(str(path.parent)),
            )
        return path
