"""The only code that touches X: one file per kind of data matrix, one interface for all."""

from typing import Any

from nmfmerge.data.base import Array, DataMatrix, Side, Unreadable
from nmfmerge.data.dense import DenseData
from nmfmerge.data.sparse import SparseData
from nmfmerge.data.svd import Check, TruncatedSVD

__all__ = [
    "Array",
    "Check",
    "DataMatrix",
    "DenseData",
    "Side",
    "SparseData",
    "TruncatedSVD",
    "Unreadable",
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
