"""Weights of known components in X: nonnegative least squares, to the exact solution."""

import numpy as np

from nmfmerge.data.base import Array, DataMatrix
from nmfmerge.kernels import blas_for, gram64, nnls_columns


def weights(data: DataMatrix, H: np.ndarray) -> Array:
    """The W ≥ 0 (m × r) that minimises ‖X − WH‖ for an H of X itself, each row by an active set."""
    H = np.ascontiguousarray(H / data.unit, dtype=data.dtype)
    placed = data.place(H, "H")
    with blas_for(data.blas_flops(len(H))):
        HXt = data.HXt(placed, out=data.kernels.empty((len(H), data.shape[0]), placed))
        Wt = nnls_columns(gram64(H), data.kernels.to_host(HXt))
    return data.returned(data.place(Wt, "W")).T
