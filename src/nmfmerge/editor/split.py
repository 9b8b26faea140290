"""Splitting a component in two: what it stands for in X, fitted anew by two components."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from nmfmerge import validation as check
from nmfmerge.data import DataMatrix
from nmfmerge.data.svd import truncated_svd
from nmfmerge.editor.added import added_components
from nmfmerge.init import nonnegative_pairs
from nmfmerge.kernels import blas_for
from nmfmerge.metrics import fitting_error
from nmfmerge.pipeline import nmf

_TOL, _MAX_ITER = 1e-3, 200


def split_component(
    data: DataMatrix, W: np.ndarray, H: np.ndarray, i: int
) -> tuple[np.ndarray, np.ndarray]:
    """Two components for one, which together fit no worse while the others stay as they are.

    They begin with the two leading singular pairs of X less all other components, made nonnegative
    as in NNDSVD. Should they end worse than the one component, it stays, beside a recovered one.

    Returns
    -------
    W, H : arrays (m, 2) and (2, n)
    """
    r = len(H)
    if r + 1 > min(data.shape):
        raise ValueError(
            f"a component cannot be split: {r + 1} components exceed the smaller side of X "
            f"{data.shape}"
        )
    others = [t for t in range(r) if t != i]
    pair = _leading_pair(data, W[:, others], H[others])
    start = np.concatenate([W[:, others], pair[0]], axis=1), np.concatenate([H[others], pair[1]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = nmf(
            data, r + 1, init=start, hold=range(r - 1), tol=_TOL, max_iter=_MAX_ITER
        )  # fmt: skip
    if fitted.fitting_error <= fitting_error(data, W, H):
        return fitted.W[:, -2:], fitted.H[-2:]
    W_more, H_more, _ = added_components(data, W, H, 1, range(r))
    return W_more[:, [i, r]], H_more[[i, r]]


def _leading_pair(data: DataMatrix, W: np.ndarray, H: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two components from X − WH, in the scale of X."""
    Wt, H = check.check_fit(W, H, data, len(H))

    def HXt(V: np.ndarray, out: np.ndarray) -> np.ndarray:
        out = data.HXt(V, out)
        out -= (V @ H.T) @ Wt
        return out

    def WtX(U: np.ndarray, out: np.ndarray) -> np.ndarray:
        out = data.WtX(U, out)
        out -= (U @ Wt.T) @ H
        return out

    with blas_for(data.blas_flops(len(H) + 1)):
        svd = truncated_svd(HXt, WtX, data.shape, data.dtype, 2)
    least = np.finfo(svd.s.dtype).eps * max(float(svd.s[0]), 1e-3)
    Wt_pair, H_pair = nonnegative_pairs(svd.Ut, svd.Vt, np.maximum(svd.s, least))
    return Wt_pair.T * data.dtype.type(data.unit), H_pair * data.dtype.type(data.unit)
