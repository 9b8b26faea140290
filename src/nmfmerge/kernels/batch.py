"""Arrays of a batch: numbers of each start, and starts taken out of it or put together."""

from collections.abc import Sequence

import numpy as np


def numbers(n_starts, value, like):
    """An array (n_starts,) of a number or truth value; ``like`` is a factor of the batch."""
    return np.full(n_starts, value, dtype=bool if isinstance(value, bool) else np.float64)


def empty(shape, like):
    """An array of the kind of ``like``."""
    return np.empty(shape, like.dtype)


def indices(array, like):
    """Indices for arrays of the kind of ``like``."""
    return array


def copy(A):
    """A copy."""
    return A.copy()


def take(A, rows):
    """A copy of some starts."""
    return A[rows]


def stack(factors: Sequence[np.ndarray]):
    """Factors of single starts as one batch; a single one is not copied."""
    return factors[0][None] if len(factors) == 1 else np.stack(factors)


def contiguous(A):
    """The array, or a copy that lies in one piece."""
    return np.ascontiguousarray(A)


def to_host(A):
    """The array in NumPy."""
    return A


def from_host(A, like):
    """An array of NumPy where ``like`` is."""
    return A
