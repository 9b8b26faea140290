"""Weights of known components in X: nonnegative least squares, to the exact solution."""

import numpy as np

from nmfmerge.backends.numba import gram64, nnls_columns, one_blas_thread
from nmfmerge.matrices.base import Array, DataMatrix


def weights(matrix: DataMatrix, H: np.ndarray, l1: float = 0.0, l2: float = 0.0) -> Array:
    """The W ≥ 0 (m × r) that minimises ½‖X − WH‖² + l1·ΣW + ½·l2·‖W‖², each row by an active set.

    H is of X itself; the penalties are of W / unit, as factors of X / unit² are.
    """
    H = np.ascontiguousarray(H / matrix.unit, dtype=matrix.dtype)
    placed = matrix.place(H, "H")
    with one_blas_thread():
        room = matrix.kernels.empty((len(H), matrix.shape[0]), placed)
        HXt = matrix.kernels.to_host(matrix.HXt(placed, out=room))
        Wt = nnls_columns(gram64(H) + l2 * np.eye(len(H)), HXt - l1 if l1 else HXt)
    return matrix.returned(matrix.place(Wt, "W")).T
