"""`rank_path`: solutions at every rank, each made from its neighbours, for less than separate fits.

The highest rank is fitted first. A solution of rank s + 1 with its cheapest pair merged, and one of
rank s − 1 with a component recovered, are starts for rank s. Down, up and down again, the better
solution stays at each rank, until nothing changes. Ranks that look poor are tried from further
starts: those whose error lies above the line between the errors of their neighbours.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from nmfmerge import metrics
from nmfmerge import validation as check
from nmfmerge.data import DataMatrix
from nmfmerge.init import INITS, Factors
from nmfmerge.kernels import blas_for
from nmfmerge.merge import merge
from nmfmerge.recover import recover
from nmfmerge.result import Factorization, Stage, Status
from nmfmerge.result_path import RankPath
from nmfmerge.run import Interrupted
from nmfmerge.solvers import SOLVERS, Limits, Loop, OutOfTime, Point, Solver
from nmfmerge.solvers.loop import Callback
from nmfmerge.solvers.point import Side, percent

__all__ = ["PathInterrupted", "RankPath", "rank_path"]

RandomState = int | np.random.Generator | np.random.RandomState | None

_CHECK_EVERY = 3  # iterations, whether a start can still beat the solution that is there
_FORESIGHT = 5  # so many times the last decrease may be hoped for
_ALIKE = 0.9  # cosine from which two components count as the same
_IMPROVED = 1e-3  # relative fall of the objective that makes neighbours worth another try
_PASSES = 6  # most passes up and down in a row
_STOPPED = (Status.MAX_TIME, Status.CALLBACK, Status.INTERRUPTED)


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
    X : array or sparse matrix (m, n)
        Nonnegative data, as in `nmf`.
    n_max, n_min : int
        Highest and lowest rank; n_max is at most min(m, n).
    solver, tol, max_iter
        As in `nmf`, for the polish of every start.
    max_time : float, optional
        Most seconds for the whole path. Ranks not reached by then are merged from the next higher
        one, without a polish.
    random_state : int, Generator, RandomState or None
        Seed of the further starts that poor ranks get. None is a fixed seed.
    callback : callable, optional
        Called with a `Progress` after each iteration, its stage "down to 12" or "up to 13"; a true
        return value stops the run, and what was reached is returned.
    verbose : int
        1 prints a line for each start that was tried, 2 also a line every 100 iterations.
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
    verbose = int(verbose) if isinstance(verbose, bool) else verbose
    limits = Limits(
        max_iter=check.check_integer("max_iter", max_iter, low=1),
        max_time=check.check_optional_real("max_time", max_time, low=0, open_end=True),
        callback=check.check_callable("callback", callback),
        verbose=check.check_integer("verbose", verbose, low=0),
    )
    rng = check.check_random_state(random_state)
    data = check.check_X(X)
    n_min, n_max = check.check_ranks(n_min, n_max, data.shape)
    search = _Search(data, n_min, n_max, kind, tol, limits, rng)
    with blas_for(data.blas_flops(n_max)):
        search.run()
        try:
            path = search.result()
        except KeyboardInterrupt:  # the search is done: put the path together nevertheless
            search.stopped = Status.INTERRUPTED
            path = search.result()
        if stability and path.status not in _STOPPED:
            path = _with_stability(path, search)
    if path.status is Status.INTERRUPTED:
        raise PathInterrupted(path)
    if path.status in (Status.MAX_TIME, Status.MAX_ITER):
        _warn_not_converged(path, limits)
    return path


def _with_stability(path: RankPath, whole: "_Search") -> RankPath:
    """Add how alike the components of both halves of the data are, at each rank.

    The longer side of X is halved, and the factor of the other side compared.
    """
    m, n = whole.data.shape
    side: Side = "W" if n >= m else "H"
    halves = []
    for i in range(2):
        X = whole.data.X[:, i::2] if side == "W" else whole.data.X[i::2]
        data = check.check_X(X)
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


@dataclass(frozen=True, eq=False)
class _Solution:
    """The best factors of a rank so far."""

    Wt: np.ndarray
    H: np.ndarray
    objective: float
    stages: tuple[Stage, ...]
    version: int  # counts the times that it became clearly better

    @property
    def status(self) -> Status:
        return self.stages[-1].status


class _Stop(Exception):
    """Leaves the search when a polish was stopped by the clock, the callback or Ctrl-C."""

    def __init__(self, status: Status) -> None:
        super().__init__()
        self.status = status


@dataclass(eq=False)
class _Search:
    """The best solution of each rank, and starts that try to beat it."""

    data: DataMatrix
    n_min: int
    n_max: int
    solver: type[Solver]
    tol: float
    limits: Limits
    rng: np.random.Generator
    name: str = ""  # put before the names of stages

    def __post_init__(self) -> None:
        self.best: dict[int, _Solution] = {}
        self.seconds = dict.fromkeys(range(self.n_min, self.n_max + 1), 0.0)
        self.stopped: Status | None = None
        self._tried: dict[tuple[int, int], int] = {}  # (from, to): version of what it came from

    def run(self) -> None:
        """Search until nothing improves, or until stopped."""
        try:
            with _kept_svd(self.data):
                self._search()
        except _Stop as stop:
            self.stopped = stop.status
        except OutOfTime:
            self.stopped = Status.MAX_TIME
        except KeyboardInterrupt:
            if not self.best:
                raise
            self.stopped = Status.INTERRUPTED

    def _search(self) -> None:
        self._fit_highest()
        self._pass(down=True)
        self._settle()
        for rank in self._poor_ranks():
            self._try_further_starts(rank)
        self._settle()

    def _fit_highest(self) -> None:
        began, rank = perf_counter(), self.n_max
        try:
            start = INITS["nndsvd"](self.data, rank, self.rng, self.limits.check_time)
        except OutOfTime:  # factors that take no time
            start = INITS["random"](self.data, rank, np.random.default_rng(0), None)
            point = Point(self.data, *start)
            stage = Stage(
                "start", rank, 0, perf_counter() - began, point.fitting_error(), Status.MAX_TIME
            )
            self.best[rank] = _Solution(point.Wt, point.H, point.objective(), (stage,), 0)
            raise
        self._polish(rank, "start", f"fit of {rank}", start, began)

    def _settle(self) -> None:
        """Go up and down until a pass changes nothing."""
        for i in range(_PASSES):
            if not self._pass(down=i % 2 == 1) and i > 0:
                return

    def _pass(self, down: bool) -> bool:
        """Try to improve each rank from its neighbour; say whether any changed."""
        step = -1 if down else 1
        first, last = (self.n_max, self.n_min) if down else (self.n_min, self.n_max)
        changed = [
            self._try_from(rank - step, rank) for rank in range(first + step, last + step, step)
        ]
        return any(changed)

    def _poor_ranks(self) -> list[int]:
        """Ranks whose error lies above the line between those of their neighbours."""
        error = {rank: solution.objective for rank, solution in self.best.items()}
        return [
            rank
            for rank in range(self.n_min + 1, self.n_max)
            if 2 * error[rank] > error[rank - 1] + error[rank + 1]
        ]

    def _try_further_starts(self, rank: int) -> None:
        self._try(rank, "start", lambda: INITS["nndsvdar"](self.data, rank, self.rng, self._check))
        for source in (rank + 2, rank - 2):
            if source in self.best:
                self._try_from(source, rank)

    def _try_from(self, source: int, rank: int) -> bool:
        """Try the solution of another rank, merged or with recovered components, if it is new."""
        solution = self.best[source]
        if self._tried.get((source, rank)) == solution.version:
            return False
        self._tried[source, rank] = solution.version
        if source > rank:
            return self._try(rank, "merge", lambda: merge(solution.Wt, solution.H, rank)[:2])
        return self._try(rank, "recover", lambda: self._recovered(solution, rank))

    def _recovered(self, solution: _Solution, rank: int) -> Factors:
        k = rank - len(solution.H)
        as_it_is: Callable[..., Factors] = lambda Wt, H: (Wt, H)  # noqa: E731
        return recover(self.data, solution.Wt, solution.H, k, as_it_is, self._check)[:2]

    def _check(self) -> None:
        self.limits.check_time()

    def _try(self, rank: int, kind: str, make_start: Callable[[], Factors]) -> bool:
        began = perf_counter()
        words = {"merge": "down to", "recover": "up to", "start": "fit of"}[kind]
        return self._polish(rank, kind, f"{words} {rank}", make_start(), began)

    def _polish(self, rank: int, kind: str, name: str, start: Factors, began: float) -> bool:
        """Run the solver from a start; keep the result if it is better than what is there."""
        point, known = Point(self.data, *start), self.best.get(rank)
        started = Stage(kind, rank, 0, perf_counter() - began, point.fitting_error(), Status.DONE)
        loop = Loop(self.solver(), point, stage=self.name + name, tol=self.tol, limits=self.limits)
        beaten = self._iterate(loop, known)
        self.seconds[rank] += perf_counter() - began
        changed = better = not beaten and (known is None or point.objective() < known.objective)
        status = Status.DONE
        if better:
            outcome = loop.outcome()
            status = outcome.status
            changed = known is None or point.objective() < (1 - _IMPROVED) * known.objective
            final = Stage(
                "final", rank, outcome.n_iter, perf_counter() - began - started.seconds,
                point.fitting_error(), status, outcome.history,
            )  # fmt: skip
            version = (known.version if known else 0) + changed
            stages = started, final
            self.best[rank] = _Solution(point.Wt, point.H, point.objective(), stages, version)
        elif not beaten:
            status = loop.outcome().status
        self._report(name, loop, point, better)
        if status in _STOPPED:
            raise _Stop(status)
        return changed

    def _iterate(self, loop: Loop, known: _Solution | None) -> bool:
        """Iterate until the loop ends or the start is beaten by the known solution; say which."""
        last = np.inf
        try:
            for i, _ in enumerate(loop, start=1):
                if known is None or i % _CHECK_EVERY != 0:
                    continue
                now = loop.point.objective()
                if now >= known.objective and _is_hopeless(loop.point, now, last, known):
                    return True
                last = now
        except KeyboardInterrupt:
            loop.cut_off()
        return False

    def _report(self, name: str, loop: Loop, point: Point, better: bool) -> None:
        if self.limits.verbose > 0:
            n_iter = len(loop.history().step)
            print(
                f"{self.name + name:<12} {n_iter:>6} iterations {point.fitting_error():>10.6g} %  "
                + ("kept" if better else "not better"),
                flush=True,
            )

    def result(self) -> RankPath:
        """The path, with every rank filled in and the scale of X put back."""
        for rank in range(self.n_max - 1, self.n_min - 1, -1):
            if rank not in self.best:
                self.best[rank] = self._merged(self.best[rank + 1], rank)
        results: list[Factorization] = []
        for rank in range(self.n_min, self.n_max + 1):
            result = self._factorization(rank)
            if results and not result.fitting_error <= results[-1].fitting_error:
                result = _with_zero_component(results[-1])
            results.append(result)
        return RankPath(
            factorizations=results,
            penalties=np.array([np.nan, *(self._penalty(result) for result in results[1:])]),
            rank_seconds=np.array(list(self.seconds.values())),
            seconds=self.limits.elapsed(),
            status=self._status(),
        )

    def _merged(self, solution: _Solution, rank: int) -> _Solution:
        Wt, H, _ = merge(solution.Wt, solution.H, rank)
        status = self.stopped or Status.DONE
        return _Solution(Wt, H, np.inf, (Stage("merge", rank, 0, 0.0, np.nan, status),), 0)

    def _factorization(self, rank: int) -> Factorization:
        solution, unit = self.best[rank], self.data.unit
        residual2 = self.data.residual_norm2(solution.Wt, solution.H)
        error = percent(residual2, self.data.norm2)
        stages = solution.stages
        if not np.isfinite(solution.objective):  # its error was not known before
            stages = (replace(stages[0], fitting_error=error),)
        return Factorization(
            W=(solution.Wt * solution.Wt.dtype.type(unit)).T,
            H=solution.H * solution.H.dtype.type(unit),
            objective=0.5 * residual2 * (unit * unit) * (unit * unit),
            fitting_error=error,
            stages=stages,
            status=solution.status,
            seconds=self.seconds[rank],
        )

    def _penalty(self, result: Factorization) -> float:
        """What the cheapest merge changes WH by, in percent of ‖X‖²."""
        unit = self.data.unit
        Wt, H = (np.ascontiguousarray(F) / F.dtype.type(unit) for F in (result.W.T, result.H))
        return percent(float(merge(Wt, H, len(H) - 1)[2].penalties[-1]), self.data.norm2)

    def _status(self) -> Status:
        if self.stopped is not None:
            return self.stopped
        statuses = {solution.status for solution in self.best.values()}
        return Status.MAX_ITER if Status.MAX_ITER in statuses else Status.CONVERGED


def _is_hopeless(point: Point, now: float, last: float, known: _Solution) -> bool:
    """Whether a start that is worse so far will stay so.

    It will if it falls too slowly, or if its components are already those of the known solution.
    """
    return now - _FORESIGHT * (last - now) > known.objective or _alike(point, known)


def _alike(point: Point, known: _Solution) -> bool:
    cosine = _cosines(point.Wt, known.Wt) * _cosines(point.H, known.H)
    matches = cosine.argmax(axis=1)
    return bool(cosine.max(axis=1).min() > _ALIKE and len(set(matches.tolist())) == len(matches))


def _cosines(F: np.ndarray, G: np.ndarray) -> np.ndarray:
    norms = [np.sqrt(np.einsum("ij,ij->i", A, A)) for A in (F, G)]
    scale = np.outer(*norms)
    return np.divide(F @ G.T, scale, out=np.zeros_like(scale), where=scale > 0)


def _with_zero_component(result: Factorization) -> Factorization:
    """The same fit with one more component, which is zero: where nothing better was found."""
    rank = result.n_components + 1
    stage = Stage("start", rank, 0, 0.0, result.fitting_error, result.status)
    W, H = np.pad(result.W.T, ((0, 1), (0, 0))).T, np.pad(result.H, ((0, 1), (0, 0)))
    return replace(result, W=W, H=H, stages=(stage,))


@contextmanager
def _kept_svd(data: DataMatrix) -> Iterator[None]:
    """Keep the singular vectors of X while every rank needs some of them."""
    data.keeps_svd = True
    try:
        yield
    finally:
        data.keeps_svd = False
        data.forget_svd()


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
