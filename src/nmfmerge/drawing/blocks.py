"""Block averages of X and of WH, small enough to draw, without forming WH."""

from typing import Any

import numpy as np
import scipy.sparse as sp


def block_starts(length: int, most: int) -> np.ndarray:
    """First index of each of at most ``most`` blocks of nearly equal length."""
    n = min(length, most)
    return (np.arange(n) * length) // n


def average(X: Any, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Averages of X, dense or sparse, over the blocks that begin at ``rows`` and ``columns``."""
    m, n = X.shape
    if sp.issparse(X):
        left, right = averaging(rows, m), averaging(columns, n)
        return np.asarray((left @ sp.csr_array(X) @ right.T).todense(), dtype=np.float64)
    return _along(_along(np.asarray(X), rows, 0), columns, 1)


def averaged(X: Any, rows: sp.csr_array, columns: sp.csr_array) -> np.ndarray:
    """Averages of X, dense or sparse, by a matrix for its rows and one for its columns."""
    if sp.issparse(X):
        return np.asarray((rows @ sp.csr_array(X) @ columns.T).todense(), dtype=np.float64)
    return np.asarray(((rows @ np.asarray(X)) @ columns.T), dtype=np.float64)


def average_product(
    W: np.ndarray, H: np.ndarray, rows: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """Averages of WH: the product of the averaged factors, since averaging is linear."""
    return _along(W, rows, 0) @ _along(H, columns, 1)


def _along(X: np.ndarray, starts: np.ndarray, axis: int) -> np.ndarray:
    lengths = np.diff(np.append(starts, X.shape[axis]))
    sums = np.add.reduceat(X, starts, axis=axis, dtype=np.float64)
    return sums / (lengths[:, None] if axis == 0 else lengths)


def averaging(starts: np.ndarray, length: int) -> sp.csr_array:
    """The matrix that averages over blocks: blocks × length."""
    lengths = np.diff(np.append(starts, length))
    values = np.repeat(1.0 / lengths, lengths)
    return sp.csr_array((values, np.arange(length), np.append(starts, length)))
