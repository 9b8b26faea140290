"""Weights of known components in X: nonnegative least squares, to the exact solution."""

from typing import Any

import numpy as np

from nmfmerge.backends.numba import gram64, nnls_columns, one_blas_thread
from nmfmerge.backends.numba.weighted_nnls import weighted_nnls
from nmfmerge.matrices.base import Array, DataMatrix


def weights(matrix: DataMatrix, H: np.ndarray, l1: float = 0.0, l2: float = 0.0) -> Array:
    """The W ≥ 0 (m × r) that minimises ½‖X − WH‖² + l1·ΣW + ½·l2·‖W‖², each row by an active set.

    H is of X itself; the penalties are of W / unit, as factors of X / unit² are. Where entries of X
    have weights, so have their squares.
    """
    H = np.ascontiguousarray(H / matrix.unit, dtype=matrix.dtype)
    if matrix.weights is not None:
        Wt = weighted_solution(matrix.on_host(), H, l1, l2)
    else:
        placed = matrix.place(H, "H")
        with one_blas_thread():
            room = matrix.kernels.empty((len(H), matrix.shape[0]), placed)
            HXt = matrix.kernels.to_host(matrix.HXt(placed, out=room))
            Wt = nnls_columns(gram64(H) + l2 * np.eye(len(H)), HXt - l1 if l1 else HXt)
    return matrix.returned(matrix.place(Wt, "W")).T


def weighted_solution(matrix: Any, H: np.ndarray, l1: float = 0.0, l2: float = 0.0) -> np.ndarray:
    """The best Wᵀ (r × m) for weighted data in memory and an H of X / unit².

    Each row has a Gram of its own.
    """
    entries = matrix.weights
    HXt = matrix.cross("W", H[None])[0]
    G = gram64(H) if entries.complement else np.zeros((len(H), len(H)))
    sign = -1.0 if entries.complement else 1.0
    Wt: np.ndarray = weighted_nnls(G, HXt, H, entries.lines("W"), sign, l1=l1, l2=l2)
    return Wt
