"""MS-Numpress (Teleman et al. 2014): three ways in which mzML files pack numbers."""

import numpy as np


def decode_linear(packed: bytes) -> np.ndarray:
    """Fixed-point numbers, from the third on by how far they are from a straight line."""
    scale = _scale(packed)
    first = np.frombuffer(packed[8:16], "<u4").astype(np.int64)
    if len(first) < 2:
        return first / scale
    bends = _integers(packed[16:])
    steps = np.cumsum(np.concatenate([np.diff(first), bends]))
    return np.concatenate([first[:1], first[0] + np.cumsum(steps)]) / scale


def decode_slof(packed: bytes) -> np.ndarray:
    """Logarithms in 16 bits."""
    return np.expm1(np.frombuffer(packed, "<u2", offset=8) / _scale(packed))


def decode_pic(packed: bytes) -> np.ndarray:
    """Counts."""
    return _integers(packed).astype(np.float64)


def _scale(packed: bytes) -> float:
    return float(np.frombuffer(packed, ">f8", 1)[0])


def _integers(packed: bytes) -> np.ndarray:
    """Integers of 32 bits without their leading nibbles, which are all 0 or all F.

    Before each stands a nibble with their number; 8 more if they are F. A last 0 may be there only
    to fill the byte.
    """
    bytes_ = np.frombuffer(packed, np.uint8)
    nibbles = np.stack([bytes_ >> 4, bytes_ & 15], axis=1).ravel().astype(np.int64)
    left_out = np.where(nibbles > 8, nibbles - 8, nibbles)
    width = (9 - left_out).tolist()
    starts, at = [], 0
    while at < len(nibbles):
        starts.append(at)
        at += width[at]
    if at > len(nibbles) and (starts.pop() != len(nibbles) - 1 or nibbles[-1] != 0):
        raise ValueError("Numpress array is cut short")
    start = np.array(starts, dtype=np.int64)
    kept = 8 - left_out[start]
    value = np.where(nibbles[start] > 8, -1 << 4 * kept, 0)
    for i in range(8):
        here = kept > i
        value[here] += nibbles[start[here] + 1 + i] << 4 * i
    return value
