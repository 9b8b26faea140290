"""How much memory a file may take: what it declares is compared with a limit before it is made.

A file of a kilobyte can declare a matrix of gigabytes, or unpack to one. Each reader asks here
before it allocates what the file says.
"""

import io
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from nmfmerge.arguments.errors import ArgumentError, Given, Message
from nmfmerge.io.errors import FormatError, TooLarge
from nmfmerge.io.parts import files_of
from nmfmerge.machine import machine_memory

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SMALL_FILE = 10**9  # what any file may take, however small it is
_MAX_RATIO = 1000  # of memory to size on disk, beyond that; deflate packs 1032 to 1 at most


@dataclass(frozen=True)
class Memory:
    """The bytes that reading one file may take.

    Attributes
    ----------
    path : Path
        The file, for messages.
    limit : int
        In bytes.
    """

    path: Path
    limit: int

    def needs(self, size: float) -> None:
        """Raise if ``size`` bytes are more than the limit."""
        if size > self.limit:
            raise TooLarge(
                Message(
                    "{path} needs {size} of memory and the limit is {limit}: check that the file "
                    "is not damaged, or raise the limit with {more}",
                    path=self.path,
                    size=shown_size(size),
                    limit=shown_size(self.limit),
                    more=Given("max_memory", _enough(size)),
                )
            )

    def unpacks_beyond(self) -> FormatError:
        """The error for a file that unpacks to more than the limit; how much more is not known."""
        return FormatError(
            Message(
                "{path} unpacks to more memory than the limit of {limit}: check that the file is "
                "not damaged, or raise the limit, for example {more}",
                path=self.path,
                limit=shown_size(self.limit),
                more=Given("max_memory", _enough(2 * self.limit)),
            )
        )

    def array(self, shape: Iterable[int], item_size: int = 8) -> None:
        """Refuse an array of this shape where it is larger than the limit."""
        self.needs(math.prod(int(length) for length in shape) * item_size)


class Metered(io.RawIOBase):
    """A binary file that refuses to hand out more than the limit before a `reset`.

    Parameters
    ----------
    file : binary file
        Plain, or unpacked while it is read.
    memory : Memory
        The limit.
    weight : float
        Bytes of memory that a byte of the file becomes.
    """

    def __init__(self, file: BinaryIO | Any, memory: Memory, weight: float = 1.0) -> None:
        super().__init__()
        self._file, self._memory, self._weight = file, memory, weight
        self._taken = 0

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read as much as the buffer takes."""
        part = self._file.read(len(buffer))
        buffer[: len(part)] = part
        self._taken += len(part)
        if self._taken * self._weight > self._memory.limit:
            raise self._memory.unpacks_beyond()
        return len(part)

    def reset(self) -> None:
        """Note that the data read so far have left the memory."""
        self._taken = 0


def memory_for(path: Path, max_memory: str | float | None) -> Memory:
    """The limit for a file, as the user wrote it or by default.

    By default it is half the memory of the machine; for a file that takes more than a thousand
    times its size on disk, 1 GB.
    """
    if max_memory is not None:
        return Memory(path, parse_size(max_memory))
    return Memory(path, min(machine_memory() // 2, max(_SMALL_FILE, _MAX_RATIO * _on_disk(path))))


def parse_size(text: str | float, name: str = "max_memory") -> int:
    """Bytes of a size such as ``"8GB"``, ``"500 MB"``, ``"1.5GiB"`` or a number of bytes.

    ``name`` is that of the argument, for messages.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)(?:e\+?(\d+))?\s*([kmgt]?)(i?)b?\s*",
                         str(text).lower(), re.ASCII)  # fmt: skip
    if not found or (found[4] and not found[3]):
        raise ArgumentError(
            name, "is not a size", value=text, fix="write one such as '8GB' or '500MB'"
        )
    factor = (_BINARY_UNITS if found[4] else _UNITS)[found[3]]
    size = float(found[1]) * 10.0 ** min(int(found[2] or 0), 30) * factor
    if size < 1:
        raise ArgumentError(
            name, "is not a positive size", value=text, fix="write one such as '8GB'"
        )
    return int(size)


def _on_disk(path: Path) -> int:
    """Bytes of all files that a data set consists of."""
    return sum(file.stat().st_size for file in files_of(path))


def shown_size(size: float) -> str:
    """A number of bytes in words."""
    unit, letter = next(
        ((unit, letter) for letter, unit in reversed(_UNITS.items()) if size >= unit), (1, "")
    )
    return f"{size / unit:.3g} {letter.upper()}B"


def _enough(size: float) -> str:
    """A round size above what is needed, as the option takes it."""
    letter, unit = next(
        (letter, unit) for letter, unit in reversed(_UNITS.items()) if size >= unit or not letter
    )
    return f"{math.ceil(1.05 * size / unit)}{letter.upper()}B"
