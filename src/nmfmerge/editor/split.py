"""Split a component in two: fit its part of X by two components."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from nmfmerge.api import nmf
from nmfmerge.backends.numba import one_blas_thread
from nmfmerge.editor.added import added_components
from nmfmerge.inputs import check
from nmfmerge.matrices import DataMatrix
from nmfmerge.matrices.pairs import nonnegative_pairs
from nmfmerge.matrices.svd import truncated_svd
from nmfmerge.metrics import fitting_error

_TOL, _MAX_ITER = 1e-3, 200


def split_component(
    data: DataMatrix, W: np.ndarray, H: np.ndarray, i: int, loss: str
) -> tuple[np.ndarray, np.ndarray]:
    """Replace one component by two that fit at least as well; the others do not change.

    They start from the two leading singular pairs of X, completed by WH where it is missing, minus
    all other components, made nonnegative as in NNDSVD. If they fit worse, the component stays,
    with a recovered one beside it.

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
    completed = data.completed(*check.check_fit(W, H, data, r))
    pair = _leading_pair(data, completed, W[:, others], H[others])
    start = np.concatenate([W[:, others], pair[0]], axis=1), np.concatenate([H[others], pair[1]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = nmf(
            data, r + 1, init=start, hold=range(r - 1), tol=_TOL, max_iter=_MAX_ITER,
            beta_loss=loss,
        )  # fmt: skip
    if fitted.fitting_error <= fitting_error(data, W, H, beta_loss=loss):
        return fitted.W[:, -2:], fitted.H[-2:]
    W_more, H_more, _ = added_components(data, W, H, 1, range(r), loss)
    return W_more[:, [i, r]], H_more[[i, r]]


def _leading_pair(
    data: DataMatrix, X: DataMatrix, W: np.ndarray, H: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Two components from X − WH, in the scale of the data, whose missing values X has."""
    Wt, H = check.check_fit(W, H, data, len(H))

    def HXt(V: np.ndarray, out: np.ndarray) -> np.ndarray:
        out = X.HXt(V, out)
        out -= (V @ H.T) @ Wt
        return out

    def WtX(U: np.ndarray, out: np.ndarray) -> np.ndarray:
        out = X.WtX(U, out)
        out -= (U @ Wt.T) @ H
        return out

    with one_blas_thread():
        svd = truncated_svd(HXt, WtX, data.shape, data.dtype, 2)
    least = np.finfo(svd.s.dtype).eps * max(float(svd.s[0]), 1e-3)
    Wt_pair, H_pair = nonnegative_pairs(svd.Ut, svd.Vt, np.maximum(svd.s, least))
    W_pair, H_pair = data.results(Wt_pair.T, H_pair)
    return W_pair, H_pair
