"""MS-Numpress (Teleman et al. 2014): three ways in which mzML files pack numbers.

`pynumpress` decodes; this module gives it only what it can read, because the library ends the whole
process at an array that is cut short, and refuses a linear array of a single value.
"""

from typing import Any

import numpy as np

from nmfmerge.io.errors import library

_HEAD = 8  # bytes of the fixed point, before the values of a linear or slof array
_WIDTH = [9 - (head if head <= 8 else head - 8) for head in range(16)]


def decode_linear(packed: bytes) -> np.ndarray:
    """Fixed-point numbers, from the third on by how far they are from a straight line."""
    if len(packed) == _HEAD + 4:
        scale = np.frombuffer(packed, ">f8", 1)[0]
        return np.frombuffer(packed, "<u4", offset=_HEAD) / scale
    if len(packed) > _HEAD:
        _check_integers(packed[_HEAD + 8 :])
    return _decode("linear", packed, least=_HEAD)


def decode_slof(packed: bytes) -> np.ndarray:
    """Logarithms in 16 bits."""
    if len(packed) % 2:
        raise ValueError("Numpress array is cut short")
    return _decode("slof", packed, least=_HEAD)


def decode_pic(packed: bytes) -> np.ndarray:
    """Counts."""
    _check_integers(packed)
    return _decode("pic", packed, least=0)


def _decode(kind: str, packed: bytes, least: int) -> np.ndarray:
    if len(packed) < least:
        raise ValueError("Numpress array is cut short")
    pynumpress: Any = library("pynumpress", "MS-Numpress arrays of mzML", "pynumpress", "ms")
    return getattr(pynumpress, f"decode_{kind}")(np.frombuffer(packed, np.uint8))


def _check_integers(packed: bytes) -> None:
    """Check that the last integer ends where the bytes end.

    An integer is a half byte that says how many of its eight half bytes are left out, and the
    others. A last half byte of 0 may be there only to fill the byte.
    """
    halves = [half for byte in packed for half in (byte >> 4, byte & 15)]
    at, last = 0, 0
    while at < len(halves):
        last, at = at, at + _WIDTH[halves[at]]
    if at > len(halves) and not (last == len(halves) - 1 and halves[last] == 0):
        raise ValueError("Numpress array is cut short")
