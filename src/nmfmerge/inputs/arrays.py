"""Arrays of numbers in two dimensions, from whatever the user gave."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from nmfmerge.arguments.errors import ArgumentTypeError
from nmfmerge.inputs import refusals, tensors
from nmfmerge.inputs.conversion import to_numpy
from nmfmerge.matrices.scale import float_type


def check_array(name: str, A: Any, missing_allowed: bool = False) -> np.ndarray:
    """Check that A is a 2-D array of real numbers; return it as float32 or float64.

    NaN, masked entries and NA of pandas may be ``missing_allowed``; they are NaN then.
    """
    A = to_numpy(name, tensors.to_numpy(A), missing_allowed)
    if np.ma.is_masked(A) and not missing_allowed:
        raise ArgumentTypeError(name, "has masked entries", expected="all entries", fix="fill them")
    A = np.asarray(without_holes(A))
    if A.dtype.kind not in "fiub":
        raise refusals.not_numbers(name, A.dtype)
    if A.ndim != 2:
        raise refusals.not_a_matrix(name, A.ndim)
    return A.astype(float_type(A.dtype), copy=False)


def without_holes(A: Any) -> Any:
    """A masked array with NaN where it is masked; anything else unchanged."""
    if not np.ma.is_masked(A):
        return A
    dtype = A.dtype if A.dtype.kind == "f" else np.dtype(np.float64)
    return A.astype(dtype).filled(np.nan)


def first_wrong(X: Any, wrong: Callable[[np.ndarray], np.ndarray]) -> str:
    """Name the first entry of X that is wrong."""
    if sp.issparse(X):
        X = X.tocoo()
        at = int(np.argmax(wrong(X.data)))
        i, j, value = X.row[at], X.col[at], X.data[at]
    else:
        i, j = np.unravel_index(int(np.argmax(wrong(X))), X.shape)
        value = X[i, j]
    return f"X[{i}, {j}] is {value:.6g}"
