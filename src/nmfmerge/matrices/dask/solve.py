"""The long factor of a result: lazy, a chunk of it from a chunk of X and the short factor."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from nmfmerge.matrices import DataMatrix, DenseData, wrap
from nmfmerge.matrices.dask.chunk_reader import prepared
from nmfmerge.matrices.dask.weighted_block import WeightedBlock, weighted_data
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
    weighted: bool = False,
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
    weighted : bool
        Whether a chunk has X and then its weights, side by side.

    Returns
    -------
    F : dask.array.Array (length of the long side, r)
    """
    X = X.T if by_columns else X
    rows = tuple(X.chunks[0] if lengths is None else lengths)
    short = short.copy()  # what is computed later is not to change with the user's
    return X.map_blocks(
        weights_of_chunk, short=short, solve=solve, weighted=weighted,
        chunks=(rows, (len(short),)), dtype=dtype, meta=np.empty((0, 0), dtype), name=None,
    )  # fmt: skip


def weights_of_chunk(
    chunk: Any, short: np.ndarray, solve: Solve = penalised_weights, weighted: bool = False
) -> np.ndarray:
    """The best nonnegative weights of the short factor's components in each row of a chunk."""
    X = prepared(chunk, False, short.shape[1] * (2 if weighted else 1), short.dtype)
    if X.shape[0] == 0:
        return np.empty((0, len(short)), short.dtype)
    return solve(matrix_of_chunk(X, weighted), short)


def matrix_of_chunk(X: Any, weighted: bool = False) -> DataMatrix:
    """A chunk in memory as a data matrix, where all its entries can be used."""
    values = X.data if sp.issparse(X) else X[:, : X.shape[1] // 2] if weighted else X
    high = np.nanmax(values, initial=0)
    has_missing = weighted or (not sp.issparse(X) and np.isnan(values).any())
    fits = np.isfinite(high) and np.nanmin(values, initial=0) >= 0
    if not fits or (np.isnan(values).any() and not has_missing):
        raise ValueError(
            "X has negative or infinite values in a chunk of rows, or missing ones in a sparse "
            "chunk; NMF needs finite values of at least 0: drop, fill or clip them first"
        )
    exponent = unit_exponent(float(high))
    if not has_missing:
        return wrap(X, exponent)
    data = weighted_data((WeightedBlock if weighted else DenseData)(X, exponent))
    if len(data.weights.unobserved("W")):
        raise ValueError(
            "X has a row without any observed entry in a chunk of rows: drop such rows first"
        )
    return data
