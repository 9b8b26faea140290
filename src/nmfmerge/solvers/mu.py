"""MU: multiplicative updates for the Frobenius norm (Lee & Seung 2001)."""

import numpy as np

from nmfmerge.matrices import Array
from nmfmerge.solvers.base import GramSolver, Norms
from nmfmerge.solvers.batch import Batch, Side


class MU(GramSolver):
    """Multiplicative updates, H first. Zeros stay zero, so it is poor from plain NNDSVD."""

    name = "mu"
    order = ("H", "W")

    def update_(self, batch: Batch, side: Side, F: Array, G: Array, C: Array) -> Norms:
        """Multiply F by C / (G F + offset), with an offset that scales as the data do."""
        info = np.finfo(batch.data.dtype)
        sizes = batch.kernels.mean_sizes(C)
        offset = (float(np.sqrt(info.eps)) * sizes).clip(min=float(info.tiny))
        if l1 := batch.problem.penalty.l1(side):  # counts in the denominator, as scikit-learn's
            C, offset = C + l1, offset + l1
        return batch.kernels.mu_step_(F, G, C, offset, tiny=float(info.tiny / info.eps))
