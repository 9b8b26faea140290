"""The only code that touches X: one file per kind of data matrix, one interface for all."""

from typing import Any

from nmfmerge.data.base import DataMatrix
from nmfmerge.data.dense import DenseData
from nmfmerge.data.sparse import SparseData
from nmfmerge.data.svd import TruncatedSVD

__all__ = ["DataMatrix", "DenseData", "SparseData", "TruncatedSVD", "wrap"]


def wrap(X: Any) -> DataMatrix:
    """Wrap a checked X as a data matrix of its kind, without copying it."""
    for kind in (DenseData, SparseData):
        if kind.accepts(X):
            return kind(X)
    raise TypeError(f"no data matrix for X of type {type(X).__name__}")
