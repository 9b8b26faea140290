"""GCD: greedy coordinate descent (Hsieh & Dhillon 2011)."""

from nmfmerge.matrices import Array
from nmfmerge.solvers.base import GramSolver, Norms
from nmfmerge.solvers.batch import Batch, Side

_INNER_TOLERANCE = 1e-3


class GCD(GramSolver):
    """The best coordinate of each column first, W first."""

    name = "gcd"
    supports_inactive_starts = True

    def update_(self, batch: Batch, side: Side, F: Array, G: Array, C: Array) -> Norms:
        """Take greedy steps until none brings 0.001 of the largest decrease at the start."""
        return batch.kernels.gcd_sweep_(F, G, C, _INNER_TOLERANCE, batch.active)
