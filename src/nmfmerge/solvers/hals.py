"""HALS: fast hierarchical alternating least squares (Cichocki & Phan 2009)."""

import numpy as np

from nmfmerge.kernels import hals_sweep_
from nmfmerge.solvers.base import Norms, Solver, block_norms
from nmfmerge.solvers.point import Side


class HALS(Solver):
    """Cyclic coordinate descent over components, W first."""

    def update_(self, F: np.ndarray, G: np.ndarray, C: np.ndarray, side: Side) -> Norms:
        """Sweep once over the components."""
        moved, total = block_norms(F)
        hals_sweep_(F, G, C, moved, total, 0, len(moved))
        return moved.sum(axis=0), total.sum(axis=0)
