"""GCD: greedy coordinate descent (Hsieh & Dhillon 2011)."""

from nmfmerge.data import Array
from nmfmerge.solvers.base import Norms, Solver
from nmfmerge.solvers.point import Point

_INNER_TOLERANCE = 1e-3


class GCD(Solver):
    """The best coordinate of each column first, W first."""

    name = "gcd"
    on_devices = False

    def update_(self, point: Point, F: Array, G: Array, C: Array) -> Norms:
        """Take greedy steps until none brings 0.001 of the largest decrease at the start."""
        largest = point.kernels.gcd_largest_decrease(F, G, C)
        return point.kernels.gcd_sweep_(F, G, C, _INNER_TOLERANCE * largest)
