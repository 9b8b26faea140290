"""Dask arrays from users: recognized without importing Dask, checked, opened."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from nmfmerge.inputs import in_chunks, refusals
from nmfmerge.inputs.conversion import is_a
from nmfmerge.inputs.labels import matrix_of
from nmfmerge.matrices import DataMatrix
from nmfmerge.matrices.scale import float_type


def is_lazy(X: Any) -> bool:
    """True if X is a Dask array, or an xarray DataArray or a data set that has one."""
    X = matrix_of(X)
    return is_a(X, "dask", "Array") or (is_a(X, "xarray", "DataArray") and is_lazy(X.data))


def computed(A: Any) -> Any:
    """The computed value of a Dask array; anything else unchanged."""
    return (A.data if is_a(A, "xarray", "DataArray") else A).compute() if is_lazy(A) else A


def checked(X: Any) -> Any:
    """The Dask array itself, of two dimensions and real numbers."""
    X = matrix_of(X)
    X = X.data if is_a(X, "xarray", "DataArray") else X
    if X.dtype.kind not in "fiub":
        raise refusals.not_numbers("X", X.dtype)
    if X.ndim != 2:
        raise refusals.not_a_matrix("X", X.ndim)
    if 0 in X.shape:
        raise refusals.empty(X.shape)
    return X


def in_rows(X: Any) -> Any:
    """The Dask array with chunks that are whole rows."""
    X = checked(X)
    if X.numblocks[1] == 1:
        return X
    return X.rechunk({1: -1} if X.numblocks[0] > 1 else {0: "auto", 1: -1})


def open_matrix(X: Any, weights: Any = None) -> DataMatrix:
    """A Dask array as a data matrix: on the active client of `distributed`, else in threads."""
    X = checked(X)
    try:
        from nmfmerge.matrices.dask.opening import open_dask
    except ImportError as error:
        raise ImportError(
            f"X is a Dask array and {error.name} is not installed: install it with pip install "
            "'nmfmerge[dask]'"
        ) from None
    if weights is None:
        return open_dask(X)
    return open_dask(*in_chunks.weighted(X, weights))


def weights(
    X: Any,
    H: np.ndarray,
    solve: Callable[[DataMatrix, np.ndarray], Any],
    entry_weights: Any = None,
) -> Any:
    """The weights of known components in X, as a lazy Dask array.

    ``solve`` finds them for a chunk of rows.
    """
    from nmfmerge.matrices.dask.solve import lazy_weights
    from nmfmerge.matrices.dask.weighted import side_by_side

    X, M, unit = in_rows(X), None, 1.0
    if entry_weights is not None:
        X, M, unit = in_chunks.weighted(X, entry_weights)
    dtype = float_type(X.dtype)
    chunks = X if M is None else side_by_side(X, M, by_columns=False)
    solve = partial(_solved, solve=solve, weight_unit=unit)
    H = np.asarray(H, dtype)
    return lazy_weights(chunks, H, dtype, False, solve=solve, weighted=M is not None)


def _solved(matrix: DataMatrix, H: np.ndarray, solve: Any, weight_unit: float) -> Any:
    """The weights of components in a chunk, whose entries have weights of this unit."""
    matrix.weight_unit = weight_unit
    return solve(matrix, H)


def of_chunks(X: Any, function: Callable[[Any], Any]) -> list[Any]:
    """Apply a function to each chunk of rows; the chunks are computed in parallel."""
    import dask

    chunks = in_rows(X).to_delayed().ravel()
    return list(dask.compute(*(dask.delayed(function)(chunk) for chunk in chunks)))
