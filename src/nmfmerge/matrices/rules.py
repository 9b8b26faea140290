"""Rules: what `DataMatrix.elementwise_cross` makes of an entry x of X and the entry y of WH.

A rule gives an entry e of a matrix E, and a term of a sum. Entries that are NaN, or that a sparse X
does not store, give neither: for `Ratio` they are zero, for `Residual` they are missing. So E has
the entries of X, and WH is needed nowhere else.

The compiled loops know rules by their ``code``; `of` says the same in NumPy or torch.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from nmfmerge.backends.interface import Array
from nmfmerge.backends.numba.elementwise import RATIO, RESIDUAL


class Rule(Protocol):
    """An elementwise function of X and WH."""

    code: ClassVar[int]

    @property
    def floor(self) -> float:
        """The least y that counts, where the rule divides by it; in the unit of X / unit²."""

    def of(self, x: Array, y: Array, xp: Any) -> tuple[Array, Array]:
        """E and the terms of the sum, by the functions of ``xp``: numpy or torch."""


@dataclass(frozen=True)
class Ratio:
    """e = x/y, with the sum Σ x·log(x/y): what multiplicative updates for Kullback–Leibler need."""

    floor: float
    code: ClassVar[int] = RATIO

    def of(self, x: Array, y: Array, xp: Any) -> tuple[Array, Array]:
        """E and the terms of the sum."""
        x = xp.where(x == x, x, xp.zeros_like(x))
        e = x / y.clip(min=self.floor)
        return e, x * xp.log(xp.where(e > 0, e, xp.ones_like(e)))


@dataclass(frozen=True)
class Residual:
    """e = x − y where X is observed, with the sum of e²: squared error with missing values."""

    floor: ClassVar[float] = 0.0
    code: ClassVar[int] = RESIDUAL

    def of(self, x: Array, y: Array, xp: Any) -> tuple[Array, Array]:
        """E and the terms of the sum."""
        e = xp.where(x == x, x - y, xp.zeros_like(y))
        return e, e * e
