"""Missing values and weights: what the user gave as one weighted matrix, or X itself without them.

Input: X as an array or a compressed matrix, in which NaN is missing, and weights in the forms that
users write them. Output: X with zeros for what is missing, and weights from 0 to 1 with their unit.
Values of entries without a weight are never looked at.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.inputs import refusals, tensors
from nmfmerge.inputs.arrays import check_array, first_wrong
from nmfmerge.inputs.conversion import is_a, to_compressed
from nmfmerge.matrices import DataMatrix, wrap
from nmfmerge.matrices.scale import unit_exponent
from nmfmerge.matrices.sparse import entries
from nmfmerge.matrices.weighted import EntryWeights, WeightedData

_MOSTLY = 0.5  # share of missing entries from which only the observed ones are kept
_LARGEST_FULL = 2**28  # entries of a sparse X that are made dense for its weights


class _Weights(NamedTuple):
    """Weights from 0 to 1 as an array or a CSR matrix, and what to multiply them by."""

    values: Any
    unit: float


def weighted_matrix(X: Any, weights: Any, missing: str, instead: str) -> DataMatrix:
    """X with its weights and without its missing values as a data matrix.

    Parameters
    ----------
    X : array or compressed matrix (m, n)
        float32 or float64; NaN is missing.
    weights : array, sparse matrix or None
        As the user gave them.
    missing : "nan" or "zeros"
        Whether entries that a sparse X does not store are zeros, or missing.
    instead : str
        The remedy for negative values.
    """
    only_stored = missing == "zeros"
    if only_stored and not sp.issparse(X):
        raise ArgumentError(
            "missing",
            "is for a sparse X, whose entries that are not stored are then missing",
            value=missing,
            fix="write NaN for missing entries of a dense X",
        )
    known = _Weights(None, 1.0) if weights is None else check_weights(weights, X.shape)
    if known.values is not None and sp.issparse(X) and not only_stored:
        X = _as_the_weights(X, known.values)
    data = _of_sparse(X, known, only_stored) if sp.issparse(X) else _of_dense(X, known)
    values = data.X.data if sp.issparse(data.X) else data.X
    _check_values(values, data.X, instead)
    return data


def check_weights(weights: Any, shape: tuple[int, int]) -> _Weights:
    """Check weights, and divide them so that the largest is in (½, 1], or all that count are 1."""
    dtype = np.dtype(np.float64)
    if tensors.is_tensor(weights):
        weights = tensors.host_matrix(weights.cpu())
    if sp.issparse(weights):
        weights = to_compressed("weights", weights, dtype).tocsr()
    else:
        weights = as_lines(weights, shape)
        weights = check_array("weights", weights).astype(dtype)
    check_weights_shape(weights, shape)
    values = weights.data if sp.issparse(weights) else weights
    largest = float(values.max(initial=0))
    unit = unit_of_weights(
        bool(np.isfinite(values).all()), values.min(initial=0), largest,
        bool((values[values > 0] == largest).all()),
    )  # fmt: skip
    weights = weights / unit
    if sp.issparse(weights):
        weights.eliminate_zeros()
    return _Weights(weights, unit)


def check_weights_shape(weights: Any, shape: tuple[int, int]) -> None:
    """Check that there is a weight for each entry of X, or of dense ones for each line."""
    of_lines = weights.shape in ((shape[0], 1), (1, shape[1])) and not sp.issparse(weights)
    if weights.shape != shape and not of_lines:
        raise ArgumentError(
            "weights",
            f"has shape {weights.shape} and X has shape {shape}",
            expected="one weight for each entry of X, or one for each row or column",
        )


def unit_of_weights(finite: bool, low: float, high: float, even: bool) -> float:
    """The unit by which weights from ``low`` to ``high`` are divided.

    ``even`` says that all that are not zero are equal.
    """
    if not finite:
        raise ArgumentError("weights", "contains NaN or infinity", expected="finite weights")
    if low < 0:
        raise ArgumentError(
            "weights", "has negative values", expected="weights of at least 0; 0 is missing"
        )
    if high == 0:
        raise ArgumentError("weights", "is zero everywhere", expected="some positive weights")
    if even:
        return high
    mantissa, exponent = np.frexp(high)  # a power of two, so that no digit changes
    return float(np.ldexp(1.0, int(exponent) - int(mantissa == 0.5)))


def as_lines(weights: Any, shape: tuple[int, int]) -> Any:
    """Weights of one dimension as a column or a row, by which side of X has as many."""
    plain = isinstance(weights, list | tuple | int | float)
    weights = np.asarray(weights) if plain else weights
    if getattr(weights, "ndim", 2) > 1:
        return weights
    weights = weights if is_a(weights, "dask", "Array") else np.asarray(weights)
    if weights.shape not in ((shape[0],), (shape[1],)):
        check_weights_shape(weights, shape)
    fits = [len(weights) == length for length in shape]
    if all(fits):
        raise ArgumentError(
            "weights",
            f"has {len(weights)} numbers for an X of as many rows as columns",
            expected="weights of rows as a column, or of columns as a row",
            fix="use {given}.reshape(-1, 1) or {given}.reshape(1, -1)",
        )
    return weights.reshape(-1, 1) if fits[0] else weights.reshape(1, -1)


def _as_the_weights(X: Any, weights: Any) -> Any:
    """A sparse X as its weights are: as a dense array, or with the places of sparse weights."""
    if not sp.issparse(weights):
        if X.shape[0] * X.shape[1] > _LARGEST_FULL:
            raise ArgumentError(
                "weights",
                f"is dense, and X {X.shape} is sparse and too large to be so",
                expected="sparse weights, which are zero where they have no entry",
            )
        return np.ascontiguousarray(X.toarray())
    return X


def _of_dense(X: np.ndarray, known: _Weights) -> Any:
    M = known.values
    if sp.issparse(M):
        return _at_places(X, M.tocsr(), known.unit)
    missing = np.isnan(X)
    if M is not None:
        missing |= M == 0
    n_missing = int(np.count_nonzero(missing))
    clean = np.where(missing, X.dtype.type(0), X) if n_missing else X
    exponent = _exponent(clean)
    M = None if M is not None and (M == 1).all(where=M > 0) else M
    if M is None and n_missing > _MOSTLY * X.size:
        U = sp.csr_array((~missing).astype(X.dtype))
        return _at_places(clean, U, known.unit)
    if M is None and n_missing == 0:
        data = wrap(clean, exponent)
        data.weight_unit = known.unit
        return data
    if M is None:
        weights = EntryWeights(sp.csr_array(missing.astype(X.dtype)), complement=True)
    else:
        U = np.where(missing, 0.0, M).astype(X.dtype)
        weights = EntryWeights(np.ascontiguousarray(U), complement=False)
    return WeightedData(np.ascontiguousarray(clean), weights, exponent, known.unit, n_missing)


def _of_sparse(X: Any, known: _Weights, only_stored: bool) -> Any:
    X = X.tocsr()
    if known.values is not None:
        M = known.values
        if only_stored:
            rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
            M = M if sp.issparse(M) else np.broadcast_to(M, X.shape)
            M = sp.csr_array((entries(M, rows, X.indices), X.indices, X.indptr), X.shape)
        return _at_places(X, sp.csr_array(M), known.unit)
    holes = np.isnan(X.data)
    if only_stored:
        ones = sp.csr_array((np.where(holes, 0.0, 1.0), X.indices, X.indptr), X.shape)
        return _at_places(X, ones, 1.0)
    clean = sp.csr_array((np.where(holes, 0, X.data).astype(X.dtype), X.indices, X.indptr), X.shape)
    U = sp.csr_array((holes.astype(X.dtype), X.indices, X.indptr), X.shape, copy=True)
    U.eliminate_zeros()
    return WeightedData(
        clean, EntryWeights(U, complement=True), _exponent(clean.data), 1.0, int(holes.sum())
    )


def _at_places(X: Any, U: Any, unit: float) -> WeightedData:
    """X, dense or sparse, at the places where sparse weights have an entry."""
    U = U.astype(X.dtype)
    rows = np.repeat(np.arange(U.shape[0]), np.diff(U.indptr))
    x = entries(X, rows, U.indices)
    observed = ~np.isnan(x) & (U.data > 0)
    U = sp.csr_array((np.where(observed, U.data, 0), U.indices, U.indptr), U.shape, copy=True)
    U.eliminate_zeros()
    U.sort_indices()
    clean = sp.csr_array((x[observed].astype(X.dtype), U.indices, U.indptr), U.shape)
    n_missing = U.shape[0] * U.shape[1] - U.nnz
    weights = EntryWeights(U, complement=False)
    return WeightedData(clean, weights, _exponent(clean.data), unit, n_missing)


def _exponent(values: np.ndarray) -> int:
    largest = float(values.max(initial=0))
    return unit_exponent(largest) if np.isfinite(largest) else 0


def _check_values(values: np.ndarray, X: Any, instead: str) -> None:
    """Check the observed values of X."""
    if not np.isfinite(values).all():
        raise refusals.infinite(first_wrong(X, lambda v: ~np.isfinite(v)))
    if values.size and values.min() < 0:
        raise refusals.negative(first_wrong(X, lambda v: v < 0), instead)
