"""MU: multiplicative updates for the Frobenius norm (Lee & Seung 2001)."""

import numpy as np

from nmfmerge.kernels import mu_step_
from nmfmerge.solvers.base import Norms, Solver, block_norms
from nmfmerge.solvers.point import Side


class MU(Solver):
    """Multiplicative updates, H first. Zeros stay zero, so it is poor from plain NNDSVD."""

    order = ("H", "W")

    def update_(self, F: np.ndarray, G: np.ndarray, C: np.ndarray, side: Side) -> Norms:
        """Multiply F by C / (G F + offset), with an offset that scales as the data do."""
        moved, total = block_norms(F)
        info = np.finfo(F.dtype)
        offset = F.dtype.type(max(np.sqrt(info.eps) * C.mean(), info.tiny))
        tiny = F.dtype.type(info.tiny / info.eps)
        mu_step_(F, G, C, offset, tiny, moved, total, 0, len(moved))
        return moved.sum(axis=0), total.sum(axis=0)
