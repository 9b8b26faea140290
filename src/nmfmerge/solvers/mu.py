"""MU: multiplicative updates for the Frobenius norm (Lee & Seung 2001)."""

import numpy as np

from nmfmerge.kernels import mu_step_
from nmfmerge.solvers.base import Norms, Solver


class MU(Solver):
    """Multiplicative updates, H first. Zeros stay zero, so it is poor from plain NNDSVD."""

    order = ("H", "W")

    def update_(self, F: np.ndarray, G: np.ndarray, C: np.ndarray) -> Norms:
        """Multiply F by C / (G F + offset), with an offset that scales as the data do."""
        info = np.finfo(F.dtype)
        size = C.mean() if C.min(initial=0) >= 0 else np.abs(C).mean()
        offset = max(float(np.sqrt(info.eps) * size), float(info.tiny))
        return mu_step_(F, G, C, offset, tiny=float(info.tiny / info.eps))
