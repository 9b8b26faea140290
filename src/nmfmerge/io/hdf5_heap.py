"""The heaps in which HDF5 keeps strings: the library hangs at one that is damaged in a certain way.

A heap is a run of entries, each with a number and a size. At entry 0, which stands for free space,
the library goes on by its size; where that is 0 it goes on for ever.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_START = b"GCOL\x01\0\0\0"  # and 8 bytes with the size of the heap
_HEAD = 16  # bytes before the first entry, and of each entry before its contents
_BLOCK = 1 << 20  # bytes that are searched at a time


def check_heaps(path: Path) -> None:
    """Raise ValueError where a heap has free space of size 0; the whole file is searched."""
    with path.open("rb") as file:
        for at in list(_starts(file)):
            file.seek(at)
            _check(file.read(_HEAD), file, path.stat().st_size - at)


def _starts(file: BinaryIO) -> Iterator[int]:
    begin, before = 0, b""
    while block := file.read(_BLOCK):
        text = before + block
        at = text.find(_START)
        while at >= 0:
            yield begin + at
            at = text.find(_START, at + 1)
        before = text[-len(_START) + 1 :]
        begin += len(text) - len(before)


def _check(head: bytes, file: BinaryIO, most: int) -> None:
    heap = file.read(max(0, min(int.from_bytes(head[8:], "little"), most) - _HEAD))
    at = 0
    while at + _HEAD <= len(heap):
        number = int.from_bytes(heap[at : at + 2], "little")
        size = int.from_bytes(heap[at + 8 : at + 16], "little")
        if number == 0 and size == 0:
            raise ValueError("a heap of strings in it is damaged")
        at += size if number == 0 else _HEAD + (size + 7) // 8 * 8
