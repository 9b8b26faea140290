"""GCD: greedy coordinate descent (Hsieh & Dhillon 2011)."""

import numpy as np

from nmfmerge.kernels import gcd_largest_decrease_, gcd_sweep_, over_blocks
from nmfmerge.solvers.base import Solver

_INNER_TOLERANCE = 1e-3


class GCD(Solver):
    """The best coordinate of each column first, W first."""

    def update_(
        self, F: np.ndarray, G: np.ndarray, C: np.ndarray, moved: np.ndarray, total: np.ndarray
    ) -> None:
        """Take greedy steps until none brings 0.001 of the largest decrease at the start."""
        decrease = moved[:, 0]  # of each block; what is moved comes later
        flops = 2.0 * F.size * len(F)
        n, threads = len(moved), self.threads
        over_blocks(gcd_largest_decrease_, n, threads, flops, F, G, C, decrease)
        threshold = F.dtype.type(_INNER_TOLERANCE * decrease.max())
        over_blocks(gcd_sweep_, n, threads, 3 * flops, F, G, C, threshold, moved, total)
