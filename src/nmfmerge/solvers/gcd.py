"""GCD: greedy coordinate descent (Hsieh & Dhillon 2011)."""

import numpy as np

from nmfmerge.kernels import gcd_largest_decrease, gcd_sweep_
from nmfmerge.solvers.base import Norms, Solver, block_norms
from nmfmerge.solvers.point import Side

_INNER_TOLERANCE = 1e-3


class GCD(Solver):
    """The best coordinate of each column first, W first."""

    def update_(self, F: np.ndarray, G: np.ndarray, C: np.ndarray, side: Side) -> Norms:
        """Take greedy steps until none brings 0.001 of the largest decrease at the start."""
        moved, total = block_norms(F)
        largest = gcd_largest_decrease(F, G, C, 0, len(moved))
        threshold = F.dtype.type(_INNER_TOLERANCE * largest)
        gcd_sweep_(F, G, C, threshold, moved, total, 0, len(moved))
        return moved.sum(axis=0), total.sum(axis=0)
