"""HALS: fast hierarchical alternating least squares (Cichocki & Phan 2009)."""

import numpy as np

from nmfmerge.matrices import Array
from nmfmerge.solvers.base import GramSolver, Norms
from nmfmerge.solvers.batch import Batch, Side
from nmfmerge.solvers.compiled import compiled_passes


class HALS(GramSolver):
    """Cyclic coordinate descent over components, W first."""

    name = "hals"
    needs = frozenset()  # factors may be in shards
    supports_inactive_starts = True
    n_sweeps = 1  # per cross product

    def passes(self, batch: Batch, tol: float, n: int) -> np.ndarray:
        """Iterate up to ``n`` times, in compiled code where products with X are short."""
        steps = compiled_passes(batch, self.order[0], self.n_sweeps, None, tol, n)
        return super().passes(batch, tol, n) if steps is None else steps

    def update_(self, batch: Batch, side: Side, F: Array, G: Array, C: Array) -> Norms:
        """Sweep once over the components."""
        return batch.kernels.hals_sweep_(F, G, C, self.n_sweeps, batch.active)[:2]
