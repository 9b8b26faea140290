"""HALS: fast hierarchical alternating least squares (Cichocki & Phan 2009)."""

import numpy as np

from nmfmerge.kernels import hals_sweep_
from nmfmerge.solvers.base import Norms, Solver


class HALS(Solver):
    """Cyclic coordinate descent over components, W first."""

    def update_(self, F: np.ndarray, G: np.ndarray, C: np.ndarray) -> Norms:
        """Sweep once over the components."""
        moved, total, _ = hals_sweep_(F, G, C)
        return moved, total
