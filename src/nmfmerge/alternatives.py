"""What else one might have done with the same data: standard NMF, or another rank.

Comes in: X and a result. Goes out: what to judge the result by. These are quick fits: they take no
longer than the result took (but a few seconds at least), and a minute at most.
"""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from nmfmerge.assessment import LEAST_RANKS, ROOM, Evidence, assess
from nmfmerge.kernels import blas_for
from nmfmerge.pipeline import nmf
from nmfmerge.progress import ProgressBar
from nmfmerge.rank_search import RankSearch
from nmfmerge.result import Factorization
from nmfmerge.solvers import SOLVERS, Limits
from nmfmerge.validation import check_X

MEASURED = ("standard", "around", "compare")  # what is known of a fit by other fits
_MOST_SECONDS = 60.0
_LEAST_SECONDS = 3.0
_TOL = 1e-3  # of the fits at other ranks, as in `rank_path`
_BELOW, _ABOVE = 3, 5  # ranks that are fitted
AROUND = "other ranks"  # what the bar calls them


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


def around(X: Any, result: Factorization, bar: ProgressBar | None = None) -> dict[str, Any]:
    """Fit the ranks around that of a result, from the result: what its rank is judged by.

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
        The `Evidence` as values for JSON; of this rank alone where X is too small, and empty where
        time was up before there was enough of it.
    """
    data = check_X(X)
    r, most = result.n_components, min(data.shape) // ROOM
    if not 0 < r <= most or most < LEAST_RANKS:
        return _not_judged(result, data.shape).as_record()
    if bar is not None:
        bar.section(AROUND)
    search = RankSearch(
        data, max(1, r - _BELOW), min(most, r + _ABOVE), SOLVERS["accelerated"], _TOL,
        Limits.checked(10_000, _seconds(result), bar, 0), np.random.default_rng(0),
    )  # fmt: skip
    start = (result.W.T / data.unit, result.H / data.unit)
    with blas_for(data.blas_flops(search.n_max)):
        search.run_around(r, start, _goes_on_down)
        evidence = search.evidence()
    return evidence.as_record() if len(evidence.ranks) >= LEAST_RANKS else {}


def _goes_on_down(known: Evidence) -> bool:
    """Lower ranks are added until one stands out, and some below it are known."""
    found = assess(known)
    return not found.stands_out or found.rank < known.ranks[0] + _BELOW


def _not_judged(result: Factorization, shape: tuple[int, int]) -> Evidence:
    """Evidence of one rank alone, which tells why nothing can be said about it."""
    unknown = np.full(1, np.nan)
    ranks, errors = np.array([result.n_components]), np.array([result.fitting_error])
    return Evidence(ranks, errors, unknown, unknown, unknown, shape)


def _seconds(result: Factorization) -> float:
    """Most seconds of a fit that only serves to compare."""
    return min(_MOST_SECONDS, max(_LEAST_SECONDS, result.seconds))
