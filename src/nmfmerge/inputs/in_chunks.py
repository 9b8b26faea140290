"""Weights of the entries of a Dask array: checked in one pass over them, and divided by their unit.

Input: weights in the forms that users write them, which may be a Dask array, too. Output: X with
NaN where a weight is zero, and weights from 0 to 1 with the chunks of X.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.inputs import missing, refusals
from nmfmerge.inputs.conversion import is_a
from nmfmerge.matrices.scale import float_type


def weighted(X: Any, weights: Any) -> tuple[Any, Any, float]:
    """X and its weights as Dask arrays, and the unit of the weights.

    There are no weights where all that are not zero are equal: then NaN in X says it all.
    """
    import dask.array as da

    _check_chunks("X", X)
    weights = weights.data if is_a(weights, "xarray", "DataArray") else weights
    if is_a(weights, "dask", "Array"):
        M, unit, even = _of_dask(weights, X.shape)
    else:
        known = missing.check_weights(weights, X.shape)
        if sp.issparse(known.values):
            fix = "make them a Dask array of dense chunks"
            raise ArgumentError("weights", "is sparse, and X is a Dask array", fix=fix)
        even = bool((known.values == 1).all(where=known.values > 0))
        own = zip(known.values.shape, X.shape, X.chunks, strict=True)
        chunks = tuple(cut if length == whole else 1 for length, whole, cut in own)
        M, unit = da.from_array(known.values, chunks=chunks), known.unit  # a worker gets its part
    M = da.broadcast_to(M, X.shape).rechunk(X.chunks)
    dtype = float_type(X.dtype)
    X = da.where(M > 0, X.astype(dtype), dtype.type(np.nan))
    return X, None if even else M.astype(dtype), unit


def _of_dask(weights: Any, shape: tuple[int, int]) -> tuple[Any, float, bool]:
    """Weights divided by their unit, this, and whether all that are not zero are equal."""
    import dask

    if weights.dtype.kind not in "fiub":
        raise refusals.not_numbers("weights", weights.dtype)
    _check_chunks("weights", weights)
    weights = missing.as_lines(weights, shape)
    missing.check_weights_shape(weights, shape)
    chunks = weights.to_delayed().ravel()
    found = np.array(dask.compute(*(dask.delayed(_extremes)(chunk) for chunk in chunks)))
    low, least = found[:, :2].min(axis=0).tolist()
    high = float(found[:, 2].max())
    finite = bool(np.isfinite([low, high]).all())
    unit = missing.unit_of_weights(finite, low, high, least == high)
    return weights / unit, unit, least == high


def _extremes(chunk: Any) -> tuple[float, float, float]:
    """The least weight of a chunk, or 0, the least that is not zero, and the largest."""
    values = np.asarray(chunk).astype(np.float64, copy=False)
    counted = values[values != 0]
    return values.min(initial=0), counted.min(initial=np.inf), values.max(initial=0)


def _check_chunks(name: str, A: Any) -> None:
    """Refuse X or weights that cannot be laid beside each other."""
    if np.isnan(A.shape).any():
        raise ArgumentError(
            "weights",
            "must lie beside X, and Dask does not know the size of the chunks of {name}",
            fix="call {name}.compute_chunk_sizes() first",
            name=name,
        )
    if sp.issparse(A._meta) or hasattr(A._meta, "to_scipy_sparse"):
        raise ArgumentError(
            "weights",
            "must lie beside X, and {name} has sparse chunks",
            fix="make them dense with {name}.map_blocks(lambda chunk: chunk.toarray())",
            name=name,
        )


def imputed(X: Any, W: Any, H: Any, weights: Any = None) -> Any:
    """X, a Dask array, with WH where an entry is missing or has the weight zero."""
    import dask.array as da

    if weights is not None:
        X = weighted(X, weights)[0]
    rows, columns = X.chunks
    W, H = da.asarray(W).rechunk((rows, -1)), da.asarray(H).rechunk((-1, columns))
    return da.where(da.isnan(X), W @ H, X)
