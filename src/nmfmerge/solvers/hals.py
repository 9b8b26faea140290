"""HALS: fast hierarchical alternating least squares (Cichocki & Phan 2009)."""

import numpy as np

from nmfmerge.kernels import hals_sweep_, over_blocks
from nmfmerge.solvers.base import Solver


class HALS(Solver):
    """Cyclic coordinate descent over components, W first."""

    n_sweeps = 1

    def update_(
        self, F: np.ndarray, G: np.ndarray, C: np.ndarray, moved: np.ndarray, total: np.ndarray
    ) -> None:
        """Sweep over the components."""
        flops = 2.0 * F.size * len(F) * self.n_sweeps
        over_blocks(
            hals_sweep_, len(moved), self.threads, flops, F, G, C, self.n_sweeps, moved, total
        )
