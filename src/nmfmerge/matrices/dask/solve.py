"""The long factor of a result: lazy, a chunk of it from a chunk of X and the short factor."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nmfmerge.matrices import DataMatrix, wrap
from nmfmerge.matrices.dask.chunk_reader import prepared
from nmfmerge.matrices.scale import unit_exponent
from nmfmerge.matrices.weights import weights

Solve = Callable[[DataMatrix, np.ndarray], np.ndarray]


def penalised_weights(
    matrix: DataMatrix, short: np.ndarray, l1: float = 0.0, l2: float = 0.0
) -> np.ndarray:
    """Nonnegative least squares, with penalties on the long factor of X itself."""
    for _ in range(2):  # one at a time: a power may leave the range of numbers
        l1, l2 = l1 / matrix.unit, l2 / matrix.unit
    return weights(matrix, short, l1 / matrix.unit, l2)


def lazy_weights(
    X: Any,
    short: np.ndarray,
    dtype: np.dtype,
    by_columns: bool,
    lengths: Sequence[int] | None = None,
    solve: Solve = penalised_weights,
) -> Any:
    """The best nonnegative long factor for a short one (r × the short side), as a Dask array.

    Parameters
    ----------
    X : dask.array.Array
        In chunks along its long side.
    lengths : sequence of int, optional
        Of the chunks, if X does not know them.
    solve : callable
        ``matrix, short ↦ F``: the best long factor for a matrix in memory.

    Returns
    -------
    F : dask.array.Array (length of the long side, r)
    """
    X = X.T if by_columns else X
    rows = tuple(X.chunks[0] if lengths is None else lengths)
    short = short.copy()  # what is computed later is not to change with the user's
    return X.map_blocks(
        weights_of_chunk, short=short, solve=solve, chunks=(rows, (len(short),)), dtype=dtype,
        meta=np.empty((0, 0), dtype), name=None,
    )  # fmt: skip


def weights_of_chunk(chunk: Any, short: np.ndarray, solve: Solve = penalised_weights) -> np.ndarray:
    """The best nonnegative weights of the short factor's components in each row of a chunk."""
    X = prepared(chunk, False, short.shape[1], short.dtype)
    if X.shape[0] == 0:
        return np.empty((0, len(short)), short.dtype)
    values = X if isinstance(X, np.ndarray) else X.data
    high = values.max(initial=0)
    if not np.isfinite(high) or values.min(initial=0) < 0:
        raise ValueError(
            "X has negative, infinite or missing values in a chunk of rows; NMF needs finite "
            "values of at least 0: drop, fill or clip them first"
        )
    return solve(wrap(X, unit_exponent(float(high))), short)
