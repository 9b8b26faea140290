"""`rank_path`: solutions at every rank, for less than separate fits; and their stability."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from nmfmerge import lazy, metrics
from nmfmerge import validation as check
from nmfmerge.data import Unreadable
from nmfmerge.kernels import blas_for
from nmfmerge.progress import path_stages
from nmfmerge.rank_search import STOPPED, RankSearch
from nmfmerge.result import Status
from nmfmerge.result_path import RankPath
from nmfmerge.run import Interrupted
from nmfmerge.solvers import SOLVERS, Limits
from nmfmerge.solvers.loop import Callback
from nmfmerge.solvers.point import Side, other

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
    solver: str = "accelerated",
    tol: float = 1e-3,
    max_iter: int = 10_000,
    max_time: float | None = None,
    random_state: RandomState = None,
    callback: Callback | None = None,
    verbose: int = 0,
    stability: bool = False,
) -> RankPath:
    """Factorize X at every rank from ``n_min`` to ``n_max``, to choose one.

    Down by merging, up by recovering: each solution is a start for its neighbours, and the better
    one stays. This is cheaper than a fit for each rank, mostly ends lower, and the error never
    rises with rank.

    Parameters
    ----------
    X : array, sparse matrix or Dask array (m, n)
        Nonnegative data, dense or CSR/CSC.
    n_max, n_min : int
        Highest and lowest rank; n_max is at most min(m, n).
    solver : {"accelerated", "hals", "gcd", "alspgrad", "mu"}
        Algorithm that polishes every start; `nmf` says what they are.
    tol : float
        Tolerance of these fits: no component moves by more than this, relatively.
    max_iter : int
        Most iterations of each of them.
    max_time : float, optional
        Most seconds for the whole path. Ranks not reached by then are merged from the next higher
        one, without a polish.
    random_state : int, Generator, RandomState or None
        Seed of the further starts that poor ranks get. None is a fixed seed.
    callback : callable, optional
        Called with a `Progress` after each iteration, its stage "fit of 12", "down to 12" or
        "up to 13", in the halves of the data "half 1: down to 12"; a true return value stops the
        run, and what was reached is returned.
    verbose : int
        1 shows a bar in a terminal or notebook, and elsewhere a line for each start that was tried;
        2 prints these lines, and one every 100 iterations.
    stability : bool
        Also make a path of each half of the data (every other column, or row if these are more)
        and compare their components, for ``path.suggest()``. Takes about as long again.

    Returns
    -------
    RankPath
        ``path[r]`` is the `Factorization` of rank r.

    Warns
    -----
    ConvergenceWarning
        If ``max_time`` was over, or a rank reached ``max_iter``; the path is kept.

    Raises
    ------
    PathInterrupted
        On Ctrl-C, a kind of `Interrupted`; its ``path`` holds the best solutions so far.
    Unreadable
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
    tol = check.check_real("tol", tol, low=0)
    kind = SOLVERS[check.check_word("solver", solver, SOLVERS)]
    limits = Limits.checked(max_iter, max_time, callback, verbose)
    rng = check.check_random_state(random_state)
    data = check.check_X(X) if lazy.is_lazy(X) else check.check_X_on_host(X, "rank_path")
    check.check_solver_fits(kind, data)
    n_min, n_max = check.check_ranks(n_min, n_max, data.shape)
    limits = limits.with_bar(path_stages(n_max, n_min, stability))
    try:
        return _search(RankSearch(data, n_min, n_max, kind, tol, limits, rng), stability)
    finally:
        limits.close_bar()
        data.release()


def _search(search: RankSearch, stability: bool) -> RankPath:
    """Make the path, and the paths of both halves of the data where stability is asked for."""
    data, limits = search.data, search.limits
    with blas_for(data.blas_flops(search.n_max)):
        try:
            path = _whole_path(search)
            if stability and path.status not in STOPPED:
                try:
                    path = _with_stability(path, search)
                except KeyboardInterrupt:
                    path = replace(path, status=Status.INTERRUPTED)
        except Unreadable as error:
            search.rescue(error)
            raise
    if path.status is Status.INTERRUPTED:
        raise PathInterrupted(path)
    if path.status in (Status.MAX_TIME, Status.MAX_ITER):
        _warn_not_converged(path, limits)
    return path


def _whole_path(search: RankSearch) -> RankPath:
    search.run()
    try:
        return search.result()
    except KeyboardInterrupt:  # the search is done: put the path together nevertheless
        search.stopped = Status.INTERRUPTED
        return search.result()


def _with_stability(path: RankPath, whole: RankSearch) -> RankPath:
    """Add how alike the components of both halves of the data are, at each rank.

    The longer side of X is halved, and the factor of the other side compared.
    """
    side: Side = whole.data.smaller_side
    if whole.data.defers(side):  # it is not at hand
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
        half = replace(whole, data=data, n_max=n_max, name=f"half {i + 1}: ")
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
    if path.status is Status.MAX_TIME:
        reason = f"the path was not finished when max_time={limits.max_time:g} s was over"
    else:
        late = [r for r, result in path.items() if result.status is Status.MAX_ITER]
        reason = f"rank {', '.join(map(str, late))} had not converged after max_iter iterations"
    warnings.warn(
        f"{reason}; the solutions so far are returned. Raise that limit or tol.",
        ConvergenceWarning,
        stacklevel=3,
    )
