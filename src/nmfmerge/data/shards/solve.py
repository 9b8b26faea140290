"""The long factor of a result: lazy, a chunk of it from a chunk of X and the short factor."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nmfmerge.data import wrap
from nmfmerge.data.scale import unit_exponent
from nmfmerge.data.shards.chunks import prepared
from nmfmerge.data.weights import weights


def lazy_weights(
    X: Any,
    short: np.ndarray,
    dtype: np.dtype,
    by_columns: bool,
    lengths: Sequence[int] | None = None,
) -> Any:
    """The best nonnegative long factor for a short one (r × the short side), as a Dask array.

    Parameters
    ----------
    X : dask.array.Array
        In chunks along its long side.
    lengths : sequence of int, optional
        Of the chunks, if X does not know them.

    Returns
    -------
    F : dask.array.Array (length of the long side, r)
    """
    X = X.T if by_columns else X
    rows = tuple(X.chunks[0] if lengths is None else lengths)
    short = short.copy()  # what is computed later is not to change with the user's
    return X.map_blocks(
        weights_of_chunk, short=short, chunks=(rows, (len(short),)), dtype=dtype,
        meta=np.empty((0, 0), dtype), name=None,
    )  # fmt: skip


def weights_of_chunk(chunk: Any, short: np.ndarray) -> np.ndarray:
    """The best nonnegative weights of the short factor's components in each row of a chunk."""
    X = prepared(chunk, False, short.shape[1], short.dtype)
    values = X if isinstance(X, np.ndarray) else X.data
    high = values.max(initial=0)
    if not np.isfinite(high) or values.min(initial=0) < 0:
        raise ValueError(
            "X has negative, infinite or missing values in a chunk of rows; NMF needs finite "
            "values of at least 0: drop, fill or clip them first"
        )
    return weights(wrap(X, unit_exponent(float(high))), short)
