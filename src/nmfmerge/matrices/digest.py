"""A hash of the values of X, by which a checkpoint recognises its data.

Input: arrays, dense or the three of a sparse matrix. Output: hexadecimal digits. Values are
hashed block by block, so that no second X is ever in memory, and in an order that does not depend
on how X lies in memory.
"""

import hashlib
from collections.abc import Iterable, Iterator

import numpy as np

_SIDE = 512  # of a tile of a dense array: its rows fill cache lines in either memory order
_LENGTH = 2**18  # of a block of a 1-D array


def digest(kind: str, arrays: Iterable[np.ndarray]) -> str:
    """Hash the kind, shapes, types and values of arrays (1-D or 2-D).

    Equal values give equal digests: 0.0 and −0.0 count as equal, and integers of any width.
    """
    total = hashlib.sha256(kind.encode())  # most processors have it in hardware
    for array in arrays:
        real = array.dtype.kind == "f"
        total.update(f"{array.shape} {array.dtype if real else 'integer'}".encode())
        for block in _blocks(array):
            # Adding zero turns −0.0 into 0.0 and makes the copy that a block needs.
            same = np.add(block, 0, order="C") if real else block.astype(np.int64)
            total.update(same.ravel().data)
    return total.hexdigest()


def _blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    if array.ndim == 1:
        for start in range(0, len(array), _LENGTH):
            yield array[start : start + _LENGTH]
        return
    for i in range(0, array.shape[0], _SIDE):
        for j in range(0, array.shape[1], _SIDE):
            yield array[i : i + _SIDE, j : j + _SIDE]
