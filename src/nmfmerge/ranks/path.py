"""`rank_path`: solutions at every rank, for less than separate fits; and their stability."""

from dataclasses import replace
from typing import Any

import numpy as np

from nmfmerge import metrics, settings
from nmfmerge.arguments.errors import ArgumentError, Given, Message
from nmfmerge.backends.numba import at_most
from nmfmerge.inputs import check, lazy
from nmfmerge.losses import LOSSES, Problem
from nmfmerge.matrices import DataReadError
from nmfmerge.matrices.offers import Need
from nmfmerge.method.stop import Interrupted, computing, warn_not_converged
from nmfmerge.ranks.holdout import N_MASKS, held_out
from nmfmerge.ranks.search import STOPPED, RankSearch
from nmfmerge.results.rank_path import RankPath
from nmfmerge.solvers import Limits, Multiplicative, check_solver_fits, solver_of
from nmfmerge.solvers.batch import Side, other
from nmfmerge.solvers.history import Status
from nmfmerge.solvers.limits import Callback
from nmfmerge.solvers.progress import path_stages

__all__ = ["PathInterrupted", "RankPath", "rank_path"]

RandomState = int | np.random.Generator | np.random.RandomState | None


class PathInterrupted(Interrupted):
    """Ctrl-C during `rank_path`; ``path`` holds the best solutions so far, one for every rank."""

    def __init__(self, path: RankPath) -> None:
        KeyboardInterrupt.__init__(
            self,
            f"interrupted after {path.seconds:.3g} s; the solutions so far are in the attribute "
            "`path` of this exception (in an interactive session: sys.last_value.path)",
        )
        self.path = path
        self.factorization = path.factorizations[-1]

    def __reduce__(self) -> tuple[type, tuple[Any]]:
        return type(self), (self.path,)


def rank_path(
    X: Any,
    n_max: int,
    n_min: int = 1,
    *,
    weights: Any = None,
    solver: str = "accelerated",
    beta_loss: str = "frobenius",
    missing: str = "nan",
    tol: float = 1e-3,
    max_iter: int = 10_000,
    max_time: float | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    stability: bool = False,
    holdout: float = 0.0,
) -> RankPath:
    """Factorize X at every rank from ``n_min`` to ``n_max``, to choose one.

    Each solution, with two components merged or one recovered, is a start for its neighbours, and
    the better solution of a rank is kept. This is cheaper than a separate fit for each rank,
    usually reaches a lower error, and the error never rises with rank.

    Parameters
    ----------
    X : array, sparse matrix or Dask array (m, n)
        Nonnegative data, dense or CSR/CSC.
    n_max, n_min : int
        Highest and lowest rank; n_max is at most min(m, n).
    weights : array or sparse matrix, optional
        Weights of the entries of X; see `nmf`.
    solver : {"accelerated", "hals", "gcd", "alspgrad", "mu"}
        Algorithm that polishes every start; `nmf` says what they are.
    beta_loss : {"frobenius", "kullback-leibler"}
        What is minimised; see `nmf`. Under Kullback–Leibler ``path.assess()`` gives no confidence,
        as that is calibrated for the squared error.
    missing : {"nan", "zeros"}
        Which entries of X are missing; see `nmf`.
    tol : float
        Tolerance of these fits: no component moves by more than this, relatively.
    max_iter : int
        Most iterations of each of them.
    max_time : float, optional
        Most seconds for the whole path. Ranks not reached by then are merged from the next higher
        one, without a polish.
    random_state : int, Generator, RandomState or None
        Seed of the additional starts for ranks with a poor fit. None is a fixed seed.
    callback : callable, optional
        Called with a `Progress` after each iteration, its stage "fit of 12", "down to 12" or
        "up to 13", in the halves of the data "half 1: down to 12"; a true return value stops the
        run, and what was reached is returned.
    n_jobs : int, optional
        Most threads; None and -1 are as many as the machine allows; see `nmf`. The result does not
        depend on it, to the bit.
    verbose : int
        1 shows a bar in a terminal or notebook, and elsewhere a line for each start that was tried;
        2 prints these lines, and one every 100 iterations.
    stability : bool
        Also make a path of each half of the data (every other column, or row if these are more)
        and compare their components, for ``path.assess()``. Doubles the time.
    holdout : float
        Share of the entries to hide, such as 0.1: five more paths, each without other entries,
        predict them, and ``held_out`` has their error. As evidence beside ``path.assess()``, which
        does not use it. 0 hides none.

    Returns
    -------
    RankPath
        ``path[r]`` is the `Factorization` of rank r.

    Warns
    -----
    ConvergenceWarning
        If ``max_time`` was exceeded, or a rank reached ``max_iter``; the path is kept.

    Raises
    ------
    PathInterrupted
        On Ctrl-C, a kind of `Interrupted`; its ``path`` holds the best solutions so far.
    DataReadError
        If a Dask array X cannot be read any more; its ``path`` holds the ranks that were found.

    Examples
    --------
    >>> from nmfmerge import datasets, rank_path
    >>> path = rank_path(datasets.paper_example().X, 5)
    >>> path.ranks
    array([1, 2, 3, 4, 5])
    >>> path[4].n_components
    4
    """
    given = settings.checked("rank_path", locals())
    limits = Limits.of(given)
    solver_of(given["solver"], LOSSES[given["beta_loss"]])  # before X is looked at
    rng = check.generator(given["random_state"])
    with at_most(given["n_jobs"]):
        entries = {"weights": weights, "absent": given["missing"]}
        if lazy.is_lazy(X):
            data = check.check_X(X, **entries)
        else:
            data = check.check_X_on_host(X, "rank_path", **entries)
        check.check_observed(data)
        loss = LOSSES[given["beta_loss"]].of(data)
        kind = solver_of(given["solver"], loss)
        check.check_loss_fits(loss, data)
        check_solver_fits(kind, loss, data)
        check.check_ranks(n_min, n_max, data.shape)
        share, masks = given["holdout"], N_MASKS if given["holdout"] > 0 else 0
        if masks and Need.LINES not in data.offers:
            raise ArgumentError("holdout", "needs X in memory", value=share, fix="leave it out")
        with computing(data, limits, path_stages(n_max, n_min, stability, masks)) as limits:
            problem = Problem(data, loss, keeps_zeros=kind is Multiplicative)
            search = RankSearch(problem, n_min, n_max, kind, given["tol"], limits, rng)
            path = _search(search, stability)
            if masks and path.status not in STOPPED:
                means, errors = held_out(search, share)
                path = replace(
                    path, held_out=means, held_out_error=errors, seconds=limits.elapsed()
                )
            return path


def _search(search: RankSearch, stability: bool) -> RankPath:
    """Make the path, and the paths of both halves of the data if stability is requested."""
    try:
        path = _whole_path(search)
        if stability and path.status not in STOPPED:
            try:
                path = _with_stability(path, search)
            except KeyboardInterrupt:
                path = replace(path, status=Status.INTERRUPTED)
    except DataReadError as error:
        search.rescue(error)
        raise
    if path.status is Status.INTERRUPTED:
        raise PathInterrupted(path)
    if path.status in (Status.MAX_TIME, Status.MAX_ITER):
        _warn_not_converged(path, search.limits)
    return path


def _whole_path(search: RankSearch) -> RankPath:
    search.run()
    try:
        return search.result()
    except KeyboardInterrupt:  # the search is done: the path is still assembled
        search.stopped = Status.INTERRUPTED
        return search.result()


def _with_stability(path: RankPath, whole: RankSearch) -> RankPath:
    """Add the stability: how similar the components of both halves of the data are at each rank.

    The longer side of X is halved, and the factor of the other side compared.
    """
    side: Side = whole.data.smaller_side
    if whole.data.is_sharded(side):  # it is not in memory
        side = other(side)
    axis = 1 if side == "W" else 0
    if whole.data.shape[axis] < 2:
        return path
    halves = []
    for i in range(2):
        data = whole.data.half(axis, first=i)
        n_max = min(whole.n_max, *data.shape)
        if n_max < whole.n_min:  # the halves are too small
            return path
        half = replace(
            whole, problem=replace(whole.problem, matrix=data), n_max=n_max, name=f"half {i + 1}: "
        )
        half.run()
        if half.stopped is not None:
            return replace(path, status=half.stopped, seconds=whole.limits.elapsed())
        halves.append(half.best)
    stability = np.full(len(path), np.nan)
    for rank in set(halves[0]) & set(halves[1]):
        W1, W2 = ((half[rank].Wt if side == "W" else half[rank].H).T for half in halves)
        stability[rank - whole.n_min] = metrics.match_components(W1, W2)[1].min()
    return replace(path, stability=stability, seconds=whole.limits.elapsed())


def _warn_not_converged(path: RankPath, limits: Limits) -> None:
    late = [str(rank) for rank, result in path.items() if result.status is Status.MAX_ITER]
    if path.status is Status.MAX_TIME:
        reason = "the path was not finished when {limit} s had passed"
        limit = Given("max_time", limits.max_time)
    else:
        reason = "rank {late} had not converged after {limit} iterations"
        limit = Given("max_iter", limits.max_iter)
    message = Message(
        reason + "; the solutions so far are returned. Raise that limit or {tol}.",
        late=", ".join(late),
        limit=limit,
    )
    warn_not_converged(message, stacklevel=3)
