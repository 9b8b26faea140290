"""The only code that touches X: one file per kind of data matrix, one interface for all.

`base` is the interface: products with factors, norms and residuals. A new kind of data is one file
here. `scale` takes the scale off X, `digest` hashes its values, `svd` is the truncated SVD.
"""

from typing import Any

from nmfmerge.matrices.base import SIDES, Array, DataMatrix, DataReadError, Side
from nmfmerge.matrices.dense import DenseData
from nmfmerge.matrices.sparse import SparseData
from nmfmerge.matrices.svd import Check, TruncatedSVD

__all__ = [
    "SIDES",
    "Array",
    "Check",
    "DataMatrix",
    "DataReadError",
    "DenseData",
    "Side",
    "SparseData",
    "TruncatedSVD",
    "wrap",
]


def wrap(X: Any, unit_exponent: int = 0) -> DataMatrix:
    """Wrap X / 4ᵏ, k the exponent of the unit, as a data matrix of its kind.

    X is checked already; it is copied only if its numbers are extremely large or small.
    """
    for kind in (DenseData, SparseData):
        if kind.accepts(X):
            return kind(X, unit_exponent)
    raise TypeError(f"no data matrix for X of type {type(X).__name__}")
