"""HALS: fast hierarchical alternating least squares (Cichocki & Phan 2009)."""

from nmfmerge.data import Array
from nmfmerge.solvers.base import Norms, Solver
from nmfmerge.solvers.point import Point


class HALS(Solver):
    """Cyclic coordinate descent over components, W first."""

    name = "hals"
    on_shards = True
    can_wait = True

    def update_(self, point: Point, F: Array, G: Array, C: Array) -> Norms:
        """Sweep once over the components."""
        return point.kernels.hals_sweep_(F, G, C, 1, point.active)[:2]
