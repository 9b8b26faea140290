"""MU: multiplicative updates for the Frobenius norm (Lee & Seung 2001)."""

import numpy as np

from nmfmerge.data import Array
from nmfmerge.solvers.base import Norms, Solver
from nmfmerge.solvers.point import Point


class MU(Solver):
    """Multiplicative updates, H first. Zeros stay zero, so it is poor from plain NNDSVD."""

    name = "mu"
    order = ("H", "W")

    def update_(self, point: Point, F: Array, G: Array, C: Array) -> Norms:
        """Multiply F by C / (G F + offset), with an offset that scales as the data do."""
        info = np.finfo(point.data.dtype)
        sizes = point.kernels.mean_sizes(C)
        offset = (float(np.sqrt(info.eps)) * sizes).clip(min=float(info.tiny))
        return point.kernels.mu_step_(F, G, C, offset, tiny=float(info.tiny / info.eps))
