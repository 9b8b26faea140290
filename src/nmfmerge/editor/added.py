"""Adding components that X has and WH lacks, each with the weight that fits X best."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from nmfmerge.api import Hold, nmf, recover_components
from nmfmerge.losses import LOSSES
from nmfmerge.matrices import DataMatrix
from nmfmerge.solvers import solvers_of

_TOL, _MAX_ITER = 1e-2, 50


def added_components(
    data: DataMatrix, W: np.ndarray, H: np.ndarray, k: int, hold: Hold, loss: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The factors with k recovered components, which are fitted while the others stay.

    Recovery gives a direction, which may get no weight by scaling alone: made nonnegative, it may
    fit worse than nothing. A few sweeps over the new components find where X has more of it.

    Returns
    -------
    W, H : arrays (m, r + k) and (r + k, n)
    generalized_singular_values : array (k,)
    """
    W, H, values = recover_components(data, W, H, k, hold=hold, beta_loss=loss)
    solver = "hals" if "hals" in solvers_of(LOSSES[loss].of(data)) else "accelerated"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a few sweeps will do
        fitted = nmf(
            data, len(H), init=(W, H), hold=range(len(H) - k), beta_loss=loss, solver=solver,
            tol=_TOL, max_iter=_MAX_ITER,
        )  # fmt: skip
    return fitted.W, fitted.H, values
