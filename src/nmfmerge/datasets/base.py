"""The type of every data set: X with its axes, its rank and, if known, its true components."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np


@dataclass(frozen=True, eq=False)
class Axis:
    """The meaning of the rows or the columns of X."""

    name: str
    values: np.ndarray = field(repr=False)
    unit: str = ""

    @property
    def label(self) -> str:
        """Name with unit, for a figure."""
        return f"{self.name} ({self.unit})" if self.unit else self.name


@dataclass(frozen=True, eq=False)
class Dataset:
    """A nonnegative matrix with its axes and, if known, its true components.

    Attributes
    ----------
    name : str
        Short name.
    X : array or sparse matrix (m, n), or None
        The data; None where only the axes are known.
    n_components : int or None
        How many components to look for, where that is known.
    rows, columns : Axis
        What the rows and columns of X stand for.
    W, H : arrays (m, r) and (r, n), or None
        True components; X is their product, up to noise.
    description : str
        One sentence.
    image_shape, image_order : tuple of int or None, and "C" or "F"
        How pixels fold into a picture; see `picture`.
    source, terms : str
        Where real data come from, and on what terms.
    """

    name: str
    X: Any = field(repr=False)
    n_components: int | None
    rows: Axis
    columns: Axis
    W: np.ndarray | None = field(default=None, repr=False)
    H: np.ndarray | None = field(default=None, repr=False)
    description: str = field(default="", repr=False)
    image_shape: tuple[int, int] | None = field(default=None, repr=False)
    image_order: Literal["C", "F"] = field(default="C", repr=False)
    source: str = field(default="", repr=False)
    terms: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        shape = len(self.rows.values), len(self.columns.values)
        if self.X is not None and self.X.shape != shape:
            raise ValueError(f"the axes of {self.name!r} do not fit X {self.X.shape}")

    def is_picture(self, axis: Axis) -> bool:
        """True if the entries along an axis are pixels of an image."""
        if self.image_shape is None or axis.name != "pixel":
            return False
        return math.prod(self.image_shape) == len(axis.values)

    def picture(self, pixels: np.ndarray) -> np.ndarray:
        """Fold a vector of pixels (a column of W, or a row of H where pixels are columns)."""
        if self.image_shape is None:
            raise ValueError(f"{self.name!r} does not consist of images")
        return np.reshape(pixels, self.image_shape, order=self.image_order)
