"""Alternatives for the same data: standard NMF, or another rank.

Input: X and a result. Output: other fits to compare it with. These are quick fits: they take no
longer than the result took (but a few seconds at least), and a minute at most.
"""

import warnings
from typing import Any

import numpy as np

from nmfmerge.api import nmf
from nmfmerge.backends.numba import one_blas_thread
from nmfmerge.inputs.check import check_X
from nmfmerge.losses import LOSSES, Problem
from nmfmerge.ranks.search import RankSearch
from nmfmerge.results.assessment import LEAST_RANKS, ROOM, Evidence, assess
from nmfmerge.results.factorization import Factorization
from nmfmerge.solvers import Limits, solver_of
from nmfmerge.solvers.progress import ProgressBar

_MOST_SECONDS = 60.0
_LEAST_SECONDS = 3.0
_TOL = 1e-3  # of the fits at other ranks, as in `rank_path`
_BELOW, _ABOVE = 3, 5  # ranks that are fitted
_SHARED = (
    "weights", "solver", "beta_loss", "missing", "alpha_W", "alpha_H", "l1_ratio", "init", "n_init",
    "tol", "max_iter", "random_state", "device",
)  # fmt: skip
AROUND = "other ranks"  # what the bar calls them


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
        Arguments of `nmf_merge`, also ``weights``; those that `nmf` has are used.
    bar : ProgressBar, optional
        What shows the progress.

    Returns
    -------
    dict
        "fitting_error", "n_init", "status" and "seconds".
    """
    given = {name: settings[name] for name in _SHARED if name in settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the status says whether it converged
        found = nmf(X, result.n_components, max_time=_seconds(result), callback=bar, **given)
    return {
        "fitting_error": found.fitting_error,
        "n_init": max(1, len(found.starts)),
        "status": str(found.status),
        "seconds": found.seconds,
    }


def around(
    X: Any,
    result: Factorization,
    bar: ProgressBar | None = None,
    missing: str = "nan",
    weights: Any = None,
) -> dict[str, Any]:
    """Fit the ranks around that of a result, starting from it: the evidence for its rank.

    Parameters
    ----------
    X : array or sparse matrix (m, n)
        The data.
    result : Factorization
        A fit of them.
    bar : ProgressBar, optional
        What shows the progress.
    missing : {"nan", "zeros"}
        Which entries of X are missing; see `nmf`.
    weights : array or sparse matrix, optional
        Weights of the entries of X; see `nmf`.

    Returns
    -------
    dict
        The `Evidence` as values for JSON; of this rank alone where X is too small, and empty where
        time was up before there was enough of it.
    """
    data = check_X(X, weights=weights, absent=missing)
    r, most = result.n_components, min(data.shape) // ROOM
    if not 0 < r <= most or most < LEAST_RANKS:
        return _not_judged(result, data.shape).as_record()
    if bar is not None:
        bar.section(AROUND)
    search = RankSearch(
        Problem(data, LOSSES[result.loss]), max(1, r - _BELOW), min(most, r + _ABOVE),
        solver_of("accelerated", LOSSES[result.loss].of(data)), _TOL,
        Limits(max_time=_seconds(result), bar=bar), np.random.default_rng(0),
    )  # fmt: skip
    start = (result.W.T / data.unit, result.H / data.unit)
    with one_blas_thread():
        search.run_around(r, start, _goes_on_down)
        evidence = search.evidence()
    return evidence.as_record() if len(evidence.ranks) >= LEAST_RANKS else {}


def _goes_on_down(known: Evidence) -> bool:
    """True until a rank stands out and enough ranks below it are fitted."""
    found = assess(known)
    return not found.stands_out or found.rank < known.ranks[0] + _BELOW


def _not_judged(result: Factorization, shape: tuple[int, int]) -> Evidence:
    """Evidence of one rank alone: it explains why no assessment is possible."""
    unknown = np.full(1, np.nan)
    ranks, errors = np.array([result.n_components]), np.array([result.fitting_error])
    return Evidence(ranks, errors, unknown, unknown, unknown, shape, result.loss)


def _seconds(result: Factorization) -> float:
    """Time limit, in seconds, of a fit that is only for comparison."""
    return min(_MOST_SECONDS, max(_LEAST_SECONDS, result.seconds))
