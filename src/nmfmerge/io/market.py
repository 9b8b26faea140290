"""Matrix Market files, plain or gzipped: sparse ones become CSR."""

import gzip
from pathlib import Path
from typing import Any

from nmfmerge.datasets.base import Dataset
from nmfmerge.io.build import build
from nmfmerge.io.errors import FormatError
from nmfmerge.io.memory import Memory, Metered

_ENTRY = 48  # bytes for an entry while a sparse matrix is made; a symmetric one has two of each


def read_mtx(path: Path, memory: Memory) -> Dataset:
    """Read a Matrix Market file."""
    return build(path, load_mtx(path, memory), memory=memory)


def load_mtx(path: Path, memory: Memory) -> Any:
    """The matrix of a Matrix Market file, where it fits into memory."""
    from scipy.io import mminfo, mmread  # slow to import

    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as raw:
        rows, columns, entries, layout, *_ = mminfo(_Lines(path, Metered(raw, memory)))
        if rows < 1 or columns < 1:  # SciPy would divide by them
            raise FormatError(f"{path} holds an empty matrix, {rows} × {columns}: store entries")
        if layout == "array":
            memory.array((rows, columns))
        else:
            memory.needs(_ENTRY * entries + 8 * (rows + columns))
        raw.seek(0)
        return mmread(_Lines(path, Metered(raw, memory)))


class _Lines:
    """A file for SciPy's parser, which crashes at zero bytes and at half a number at the end."""

    def __init__(self, path: Path, file: Metered) -> None:
        self.path, self.file, self.end, self.tail = path, file, b"\n", b""

    def read(self, size: int = -1) -> bytes:
        text = self.file.read(size)
        if b"\0" in text:
            raise FormatError(f"{self.path} is not text: write it again as Matrix Market")
        if text:
            self.tail = (self.tail + text)[-200:]
            return text
        self._check_tail()
        text, self.end = self.end, b""
        return text

    def _check_tail(self) -> None:
        """The last line, where no line end follows, has to be of whole numbers."""
        try:
            [float(number) for number in self.tail.split(b"\n")[-1].split()]
        except ValueError as error:
            raise FormatError(f"{self.path} is cut short: copy or write it again") from error
