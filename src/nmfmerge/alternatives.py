"""What else one might have done with the same data: standard NMF, one component fewer or more.

Comes in: X and a result. Goes out: fitting errors to judge the result by. These are quick fits:
they take no longer than the result took, and a minute at most.
"""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from nmfmerge.pipeline import merge_components, nmf, recover_components
from nmfmerge.progress import ProgressBar
from nmfmerge.result import Factorization

MEASURED = ("standard", "neighbours", "compare")  # what is known of a fit by other fits
_MOST_SECONDS = 60.0
_TOL = 1e-3  # of the fits with one component fewer or more


def without_measured(about: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of a fit, for another one that was made of it: without what was compared."""
    return {name: value for name, value in about.items() if name not in MEASURED}


def standard(
    X: Any, result: Factorization, settings: dict[str, Any], bar: ProgressBar | None = None
) -> dict[str, Any]:
    """Standard NMF from the starts of a result, in at most the time that this took.

    Parameters
    ----------
    X : array or sparse matrix (m, n)
        The data.
    result : Factorization
        What `nmf_merge` found.
    settings : dict
        Arguments of `nmf_merge`; those that `nmf` has are used.
    bar : ProgressBar, optional
        What shows the progress.

    Returns
    -------
    dict
        "fitting_error", "n_init", "status" and "seconds".
    """
    shared = ("solver", "init", "n_init", "tol", "max_iter", "random_state", "device")
    given = {name: settings[name] for name in shared if name in settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the status says whether it converged
        found = nmf(X, result.n_components, max_time=_seconds(result), callback=bar, **given)
    return {
        "fitting_error": found.fitting_error,
        "n_init": max(1, len(found.starts)),
        "status": str(found.status),
        "seconds": found.seconds,
    }


def neighbours(
    X: Any, result: Factorization, bar: ProgressBar | None = None
) -> dict[str, float | None]:
    """Fitting errors with one component fewer and one more, fitted from a result.

    Parameters
    ----------
    X : array or sparse matrix (m, n)
        The data.
    result : Factorization
        A fit of them.
    bar : ProgressBar, optional
        What shows the progress.

    Returns
    -------
    dict
        "fewer" and "more", in percent; None where there is no such rank.
    """
    W, H, r = result.W, result.H, result.n_components
    fewer, more = None, None
    if r > 1:
        start = merge_components(W, H, r - 1)[:2]
        fewer = max(_error(X, start, result, bar, "one fewer"), result.fitting_error)
    if 0 < r < min(len(W), H.shape[1]):
        start = recover_components(X, W, H, 1)[:2]
        more = min(_error(X, start, result, bar, "one more"), result.fitting_error)
    return {"fewer": fewer, "more": more}


def _error(
    X: Any,
    start: tuple[np.ndarray, np.ndarray],
    result: Factorization,
    bar: ProgressBar | None,
    name: str,
) -> float:
    """The error of a quick fit from other factors."""
    if bar is not None:
        bar.section(name)
    r, seconds = len(start[1]), _seconds(result) / 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged
        return nmf(X, r, init=start, tol=_TOL, max_time=seconds, callback=bar).fitting_error


def _seconds(result: Factorization) -> float:
    """Most seconds of a fit that only serves to compare."""
    return min(_MOST_SECONDS, max(1.0, result.seconds))
