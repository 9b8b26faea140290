"""GCD: greedy coordinate descent (Hsieh & Dhillon 2011)."""

import numpy as np

from nmfmerge.kernels import gcd_largest_decrease, gcd_sweep_
from nmfmerge.solvers.base import Norms, Solver

_INNER_TOLERANCE = 1e-3


class GCD(Solver):
    """The best coordinate of each column first, W first."""

    def update_(self, F: np.ndarray, G: np.ndarray, C: np.ndarray) -> Norms:
        """Take greedy steps until none brings 0.001 of the largest decrease at the start."""
        return gcd_sweep_(F, G, C, _INNER_TOLERANCE * gcd_largest_decrease(F, G, C))
