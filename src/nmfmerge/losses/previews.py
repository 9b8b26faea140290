"""The effect of edits on the value of a loss, without doing them.

Values are of X / unit², with exact factors of the solution. A loss with a shorter way than to
measure each edited solution has a `Previews` of its own, as `frobenius_previews` and `kl_previews`.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from nmfmerge.matrices import DataMatrix

if TYPE_CHECKING:
    from nmfmerge.losses.base import Loss


class Previews(ABC):
    """The value of one solution after edits; None where only the edit itself can tell."""

    def merged(self, i: int, j: int) -> float | None:
        """The value with components i and j merged."""
        return None

    def removed(self, i: int) -> float | None:
        """The value without component i."""
        return None

    def merge_changes(self) -> np.ndarray:
        """By how much each merge would change the value (r × r); NaN on the diagonal."""
        i, j = np.triu_indices(self.n_components, k=1)
        table = np.full((self.n_components, self.n_components), np.nan)
        table[i, j] = table[j, i] = self.changes_of_pairs(i, j)
        return table

    @property
    @abstractmethod
    def n_components(self) -> int:
        """Number of components, r."""

    @abstractmethod
    def changes_of_pairs(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """By how much merges of the pairs (i, j) would change the value."""


class MeasuredPreviews(Previews):
    """The previews of any loss: each pair is merged and measured, one pass over X for each."""

    def __init__(self, loss: "Loss", matrix: DataMatrix, Wt: np.ndarray, H: np.ndarray) -> None:
        self._loss, self._matrix, self._Wt, self._H = loss, matrix, Wt, H

    @property
    def n_components(self) -> int:
        """Number of components, r."""
        return len(self._H)

    def changes_of_pairs(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """By how much merges of the pairs (i, j) would change the value."""
        before = self._value(self._Wt, self._H)
        pairs = zip(i.tolist(), j.tolist(), strict=True)
        return np.array([self._value(*self._merged(*pair)) - before for pair in pairs])

    def _merged(self, i: int, j: int) -> tuple[np.ndarray, np.ndarray]:
        pair = [i, j]
        W_one, H_one, _ = self._loss.merged(self._Wt[pair], self._H[pair], 1)
        Wt, H = (np.delete(F, pair, axis=0) for F in (self._Wt, self._H))
        return np.concatenate([Wt, W_one]), np.concatenate([H, H_one])

    def _value(self, Wt: np.ndarray, H: np.ndarray) -> float:
        return float(self._loss.exact_values(self._matrix, Wt[None], H[None])[0])
