"""MU: multiplicative updates for the Frobenius norm (Lee & Seung 2001)."""

import numpy as np

from nmfmerge.kernels import mu_step_, over_blocks
from nmfmerge.solvers.base import Solver


class MU(Solver):
    """Multiplicative updates, H first. Zeros stay zero, so it is poor from plain NNDSVD."""

    order = ("H", "W")

    def update_(
        self, F: np.ndarray, G: np.ndarray, C: np.ndarray, moved: np.ndarray, total: np.ndarray
    ) -> None:
        """Multiply F by C / (G F + offset), with an offset that scales as the data do."""
        info = np.finfo(F.dtype)
        offset = F.dtype.type(max(np.sqrt(info.eps) * C.mean(), info.tiny))
        tiny = F.dtype.type(info.tiny / info.eps)
        flops = 2.0 * F.size * len(F)
        over_blocks(mu_step_, len(moved), self.threads, flops, F, G, C, offset, tiny, moved, total)
