"""The effect of merges on the Kullback–Leibler divergence, exactly, without doing them.

A merge keeps the total of WH, so the divergence rises by Σ x log(y/y') over the stored entries of
X, with y' the fit after it: one pass over X for many pairs.
"""

from dataclasses import dataclass

import numpy as np

from nmfmerge.losses.kl_divergence import Divergence
from nmfmerge.losses.previews import Previews

_EXACT = 1e-10  # relative error of the divergence above which rises are too inaccurate


@dataclass(frozen=True, eq=False)
class Rises(Previews):
    """The divergence of one solution, and by how much merges would raise it."""

    divergence: Divergence
    Wt: np.ndarray
    H: np.ndarray
    value: float

    @classmethod
    def of(cls, divergence: Divergence, Wt: np.ndarray, H: np.ndarray) -> "Rises":
        """The rises of factors, in the scale of the data."""
        return cls(divergence, Wt, H, float(divergence.exact_values(Wt[None], H[None])[0]))

    @property
    def n_components(self) -> int:
        """Number of components, r."""
        return len(self.H)

    def merged(self, i: int, j: int) -> float | None:
        """The divergence with components i and j merged; None if rounding would blur it."""
        after = self.value + float(self.changes_of_pairs(np.array([i]), np.array([j]))[0])
        noise = float(np.finfo(self.H.dtype).eps) * self.divergence.total
        return after if noise <= _EXACT * after else None

    def changes_of_pairs(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """By how much merges of the pairs (i, j) would raise the divergence."""
        sums = [F.sum(axis=1, dtype=np.float64) for F in (self.Wt, self.H)]
        w, h = (
            F * np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)[:, None]
            for F, total in zip((self.Wt, self.H), sums, strict=True)
        )
        mass = sums[0] * sums[1]
        both = mass[i] + mass[j]
        size = np.divide(mass[i] * mass[j], both, out=np.zeros_like(both), where=both > 0)
        steps = size[:, None] * (w[i] - w[j]), h[i] - h[j]
        return self.divergence.rises(self.Wt, self.H, *steps)
