"""Dask arrays that users give: told apart without importing Dask, checked, opened."""

from typing import Any

import numpy as np

from nmfmerge.data import DataMatrix
from nmfmerge.data.scale import float_type
from nmfmerge.labels import matrix_of


def is_lazy(X: Any) -> bool:
    """Whether X is a Dask array, or an xarray DataArray or a data set that has one."""
    X = matrix_of(X)
    return _origin(X) == ("dask", "Array") or (
        _origin(X) == ("xarray", "DataArray") and is_lazy(X.data)
    )


def _origin(X: Any) -> tuple[str, str]:
    return type(X).__module__.partition(".")[0], type(X).__name__


def computed(A: Any) -> Any:
    """What a Dask array comes to; anything else as it is."""
    return (A.data if _origin(A)[0] == "xarray" else A).compute() if is_lazy(A) else A


def checked(X: Any) -> Any:
    """The Dask array itself, of two dimensions and real numbers."""
    X = matrix_of(X)
    X = X.data if _origin(X)[0] == "xarray" else X
    if X.dtype.kind == "c":
        raise TypeError("X is complex; NMF needs real values: take abs(X)")
    if X.dtype.kind not in "fiub":
        raise TypeError(
            f"X has dtype {X.dtype}; expected real numbers: convert it with X.astype(float)"
        )
    if X.ndim != 2:
        fix = "-1, 1) for a single column" if X.ndim == 1 else "-1, X.shape[-1]) for rows of these"
        raise ValueError(
            f"X has {X.ndim} dimension(s); expected a 2-D array of rows and columns: use "
            f"X.reshape({fix}"
        )
    if 0 in X.shape:
        raise ValueError(f"X is empty: its shape is {X.shape}; it needs rows and columns")
    return X


def in_rows(X: Any) -> Any:
    """The Dask array with chunks that are whole rows."""
    X = checked(X)
    if X.numblocks[1] == 1:
        return X
    return X.rechunk({1: -1} if X.numblocks[0] > 1 else {0: "auto", 1: -1})


def open_matrix(X: Any) -> DataMatrix:
    """A Dask array as a data matrix: on the active client of `distributed`, else in threads."""
    X = checked(X)
    try:
        from nmfmerge.data.opening import open_dask
    except ImportError as error:
        raise ImportError(
            f"X is a Dask array and {error.name} is not installed: install it with pip install "
            "'nmfmerge[dask]'"
        ) from None
    return open_dask(X)


def weights(X: Any, H: np.ndarray) -> Any:
    """The weights of known components in X, as a Dask array that is computed when asked for."""
    from nmfmerge.data.shards.solve import lazy_weights

    X = in_rows(X)
    dtype = float_type(X.dtype)
    return lazy_weights(X, np.asarray(H, dtype), dtype, by_columns=False)
