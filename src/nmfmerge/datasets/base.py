"""What every data set comes as: X with its axes, its rank and, where known, its true components."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, eq=False)
class Axis:
    """What the rows or the columns of X stand for."""

    name: str
    values: np.ndarray = field(repr=False)
    unit: str = ""

    @property
    def label(self) -> str:
        """Name with unit, for a figure."""
        return f"{self.name} ({self.unit})" if self.unit else self.name


@dataclass(frozen=True, eq=False)
class Dataset:
    """A nonnegative matrix and what is known of it.

    Attributes
    ----------
    name : str
        Short name.
    X : array (m, n)
        The data.
    n_components : int
        How many components to look for.
    rows, columns : Axis
        What the rows and columns of X stand for.
    W, H : arrays (m, r) and (r, n), or None
        True components; X is their product, up to noise.
    description : str
        One sentence.
    """

    name: str
    X: np.ndarray = field(repr=False)
    n_components: int
    rows: Axis
    columns: Axis
    W: np.ndarray | None = field(default=None, repr=False)
    H: np.ndarray | None = field(default=None, repr=False)
    description: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        m, n = self.X.shape
        if len(self.rows.values) != m or len(self.columns.values) != n:
            raise ValueError(f"the axes of {self.name!r} do not fit X {self.X.shape}")
