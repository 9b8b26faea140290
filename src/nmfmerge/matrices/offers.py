"""Needs of losses and solvers beyond the products of a data matrix with factors."""

from enum import Enum


class Need(Enum):
    """Something that only some kinds of data matrix offer; the text completes "needs …"."""

    # Both factors are arrays.
    FACTORS = "X in memory"
    # Rows and columns of X, one by one.
    LINES = "X in memory"
