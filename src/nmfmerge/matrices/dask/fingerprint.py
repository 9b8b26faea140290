"""A hash of the values of X that is the same however X is cut into chunks, dense or sparse.

Each entry that is not zero has a hash of its place and value; their sums, modulo 2⁶⁴, are those of
X. So chunks, bands and shards can be added up in any order, and zeros need not be stored.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from nmfmerge.backends.numba.blocks import inlined, kernel

_STEP = np.uint64(0x9E3779B97F4A7C15)  # of the generator SplitMix64, as are the numbers below
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


def fingerprint(X: Any, first: int) -> np.ndarray:
    """Two sums of hashes of a block of X (array, CSR or CSC), whose first row is ``first``."""
    by_rows = X.format == "csr" if sp.issparse(X) else bool(X.flags.c_contiguous)
    place = (first, 0, True) if by_rows else (0, first, False)
    if sp.issparse(X):
        return _of_lines(X.data, _bits(X.data), X.indptr, X.indices, *place)
    lines = X if by_rows else X.T
    return _of_array(lines, _bits(lines), *place)


def _bits(values: np.ndarray) -> np.ndarray:
    return values.view(np.uint64 if values.dtype.itemsize == 8 else np.uint32)


@inlined
def _mixed(z):
    """A number that depends on each bit of another."""
    z = (z ^ (z >> _SHIFTS[0])) * _FIRST
    z = (z ^ (z >> _SHIFTS[1])) * _SECOND
    return z ^ (z >> _SHIFTS[2])


@inlined
def _add(sums, bits, row, column):
    """Add the hash of an entry."""
    place = _mixed(_mixed(np.uint64(row) + _STEP) + np.uint64(column) * _STEP)
    hashed = _mixed(np.uint64(bits) ^ place)
    sums[0] += hashed
    sums[1] += _mixed(hashed + _STEP)


@kernel
def _of_array(values, bits, first_line, first_place, by_rows):
    """Sums of a dense block; its lines are rows, or columns."""
    sums = np.zeros(2, np.uint64)
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            if values[i, j] != 0:
                line, place = first_line + i, first_place + j
                _add(sums, bits[i, j], line if by_rows else place, place if by_rows else line)
    return sums


@kernel
def _of_lines(values, bits, indptr, places, first_line, first_place, by_rows):
    """Sums of a sparse block."""
    sums = np.zeros(2, np.uint64)
    for i in range(indptr.size - 1):
        for k in range(indptr[i], indptr[i + 1]):
            if values[k] != 0:
                line, place = first_line + i, first_place + places[k]
                _add(sums, bits[k], line if by_rows else place, place if by_rows else line)
    return sums
