"""Blocks of X of which entries are missing, which is NaN, or have weights beside them."""

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from nmfmerge.matrices.base import DataMatrix, Side
from nmfmerge.matrices.dense import DenseData
from nmfmerge.matrices.rules import Rule
from nmfmerge.matrices.scale import split_scale
from nmfmerge.matrices.weighted import EntryWeights, WeightedData

_BLOCK_ENTRIES = 2**18  # that are summed at a time
_MOSTLY = 0.5  # share of missing entries from which the observed ones are listed


class WeightedBlock(DenseData):
    """Rows of X beside their weights from 0 to 1, in one array; X is NaN where these are zero."""

    def __init__(self, X: np.ndarray, unit_exponent: int = 0) -> None:
        n = X.shape[1] // 2
        DataMatrix.__init__(self, X[:, :n], unit_exponent)
        self.X, self.M = X, X[:, n:]
        self.values, self.scale = split_scale(X[:, :n], unit_exponent)

    def _elementwise_cross_(
        self, side: Side, own: np.ndarray, other: np.ndarray, rule: Rule, out: np.ndarray
    ) -> float:
        Wt, H = (own, other) if side == "W" else (other, own)
        e, terms = rule.of(self.values * self.dtype.type(self.scale), Wt.T @ H, np)
        E = self.M * e
        np.matmul(other, E.T if side == "W" else E, out=out)
        return float(np.vdot(self.M, terms.astype(np.float64, copy=False)))


def weighted_data(matrix: Any) -> WeightedData:
    """A block with NaN, or beside its weights, as data in memory of the same scale and unit."""
    X, M = entries(matrix)
    missing = np.isnan(X)
    if M is None and np.count_nonzero(missing) > _MOSTLY * X.size:
        M = (~missing).astype(X.dtype)
    if M is None:
        weights = EntryWeights(sp.csr_array(missing.astype(X.dtype)), complement=True)
    else:
        weights = EntryWeights(np.where(missing, M.dtype.type(0), M), complement=False)
    clean = np.ascontiguousarray(np.where(missing, X.dtype.type(0), X))
    data = WeightedData(clean, weights, round(-math.log2(matrix.scale) / 2))
    data.unit = matrix.unit  # of which the values may have been divided already
    return data


class ObservedSums(NamedTuple):
    """Sums over the observed entries of a block, in float64."""

    squares: float  # Σ m x²
    total: float  # Σ m x
    weights: np.ndarray  # Σ m of each column
    unobserved: tuple[int, ...]  # rows without any weight
    n_missing: int


def observed_sums(matrix: Any) -> ObservedSums:
    """The sums of a block, some rows at a time, as it may be a large chunk."""
    X, M = entries(matrix)
    squares, total, n_missing = 0.0, 0.0, 0
    weights, unobserved = np.zeros(X.shape[1]), []
    step = max(1, _BLOCK_ENTRIES // X.shape[1])
    for first in range(0, len(X), step):
        x = X[first : first + step].astype(np.float64) * matrix.scale
        missing = np.isnan(x)
        m = np.where(missing, 0.0, 1.0 if M is None else M[first : first + step])
        x[missing] = 0
        squares, total = squares + float(np.vdot(m, x * x)), total + float(np.vdot(m, x))
        weights += m.sum(axis=0)
        unobserved += (first + np.flatnonzero(~m.any(axis=1))).tolist()
        n_missing += int(np.count_nonzero(m == 0))
    return ObservedSums(squares, total, weights, tuple(unobserved), n_missing)


def entries(matrix: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """The values of a block, NaN where they are missing, and their weights if they have any."""
    if isinstance(matrix, WeightedBlock):
        return matrix.values, matrix.M
    return matrix.X, None
