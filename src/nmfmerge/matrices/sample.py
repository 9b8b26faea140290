"""A dense part of X that is small enough to look at entry by entry."""

from typing import NamedTuple

import numpy as np


class Sample(NamedTuple):
    """Some rows and columns of X, and what stands there."""

    rows: np.ndarray
    columns: np.ndarray
    X: np.ndarray  # float64
    weights: np.ndarray | None = None  # of these entries, where they have any


def heaviest(
    row_squares: np.ndarray, column_squares: np.ndarray, max_entries: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns with the largest sums of squares, in the proportions of X.

    Together they have at most about ``max_entries`` entries: all of X if it has fewer.
    """
    share = min(1.0, (max_entries / (len(row_squares) * len(column_squares))) ** 0.5)
    rows, columns = (
        np.sort(np.argsort(-squares, kind="stable")[: max(1, round(share * len(squares)))])
        for squares in (row_squares, column_squares)
    )
    return rows, columns
