"""The paper's small examples: the 8 × 8 plateau matrix and ten Gaussian features."""

import numpy as np

from nmfmerge.datasets.base import Axis, Dataset

_W = [
    [6, 0, 4, 9],
    [0, 4, 8, 3],
    [4, 4, 0, 7],
    [9, 1, 1, 1],
    [0, 3, 0, 4],
    [8, 1, 4, 0],
    [0, 0, 4, 2],
    [0, 9, 5, 5],
]
_Ht = [
    [6, 0, 3, 4],
    [10, 10, 5, 9],
    [8, 2, 0, 10],
    [2, 9, 2, 7],
    [0, 10, 4, 7],
    [1, 6, 0, 0],
    [2, 0, 0, 0],
    [10, 0, 8, 0],
]


def paper_example() -> Dataset:
    """The 8 × 8 matrix of rank 4 of the paper's appendix, on which NMF lingers on two plateaus."""
    W, H = np.array(_W, dtype=np.float64), np.array(_Ht, dtype=np.float64).T
    return Dataset(
        name="paper_example",
        X=W @ H,
        n_components=4,
        rows=Axis("row", np.arange(8)),
        columns=Axis("column", np.arange(8)),
        W=W,
        H=np.ascontiguousarray(H),
        description="Integer matrix of rank 4 whose factorization lingers on two plateaus.",
    )


def gaussian_features(n_features: int = 10) -> Dataset:
    """Gaussian bumps that overlap along the rows and are disjoint boxes along the columns.

    Feature i = 1, 2, … has its centre at row 10i + 10 (counted from 1, σ = 2, cut off at ±8) and
    is on in columns 10i + 7 … 10i + 16. X is (10·n_features + 50) × (10·n_features + 20).
    """
    m, n = 10 * n_features + 50, 10 * n_features + 20
    feature = np.arange(1, n_features + 1)
    rows, columns = np.arange(1, m + 1), np.arange(1, n + 1)
    distance = rows[:, None] - (10 * feature + 10)
    W = np.where(np.abs(distance) <= 8, np.exp(-(distance**2) / 8), 0.0)
    offset = columns - (10 * feature + 7)[:, None]
    H = ((offset >= 0) & (offset < 10)).astype(np.float64)
    return Dataset(
        name="gaussian_features",
        X=W @ H,
        n_components=n_features,
        rows=Axis("row", rows),
        columns=Axis("column", columns),
        W=W,
        H=H,
        description="Gaussian bumps, each on in columns of its own.",
    )
