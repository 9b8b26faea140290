"""The search behind `rank_path`: the best solution of each rank, each made from its neighbours.

The highest rank is fitted first. A solution of rank s + 1 with its cheapest pair merged, and one of
rank s − 1 with a component recovered, are starts for rank s. Down, up and down again, the better
solution stays at each rank, until nothing changes. Ranks that look poor are tried from further
starts: those whose error lies above the line between the errors of their neighbours.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from nmfmerge.assessment import Evidence
from nmfmerge.data import Array, DataMatrix, Unreadable
from nmfmerge.init import INITS, Factors
from nmfmerge.lazy import is_lazy
from nmfmerge.likeness import order_by_share
from nmfmerge.merge import MergePlan, merge_plan
from nmfmerge.recover import recover
from nmfmerge.residual import Residuals
from nmfmerge.result import Factorization, Stage, Status
from nmfmerge.result_path import RankPath
from nmfmerge.solvers import Limits, Loop, OutOfTime, Point, Solver
from nmfmerge.solvers.point import SIDES, percent

_CHECK_EVERY = 3  # iterations, whether a start can still beat the solution that is there
_FORESIGHT = 5  # so many times the last decrease may be hoped for
_ALIKE = 0.9  # cosine from which two components count as the same
_IMPROVED = 1e-3  # relative fall of the objective that makes neighbours worth another try
_PASSES = 6  # most passes up and down in a row
_STEP_DOWN = 3  # ranks that are added below at a time
STOPPED = (Status.MAX_TIME, Status.CALLBACK, Status.INTERRUPTED)


@dataclass(frozen=True, eq=False)
class _Solution:
    """The best factors of a rank so far."""

    Wt: Array
    H: Array
    grams: tuple[np.ndarray, np.ndarray]  # of W and H
    objective: float
    stages: tuple[Stage, ...]
    version: int  # counts the times that it became clearly better

    @classmethod
    def of(cls, point: Point, stages: tuple[Stage, ...], version: int) -> "_Solution":
        """The solution at a batch of one start."""
        Wt, H, objective = point.Wt[0], point.H[0], float(point.objective()[0])
        return cls(Wt, H, _grams(point.kernels, Wt, H), objective, stages, version)

    @property
    def status(self) -> Status:
        return self.stages[-1].status


class _Stop(Exception):
    """Leaves the search when a polish was stopped by the clock, the callback or Ctrl-C."""

    def __init__(self, status: Status) -> None:
        super().__init__()
        self.status = status


@dataclass(eq=False)
class RankSearch:
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
        self._residuals: Residuals | None = None
        self._structures: dict[_Solution, float] = {}
        self._tried: dict[tuple[int, int], int] = {}  # (from, to): version of what it came from

    def run(self) -> None:
        """Search until nothing improves, or until stopped."""
        self._until_stopped(self._search)

    def run_around(
        self, rank: int, start: Factors, goes_on_down: Callable[[Evidence], bool]
    ) -> None:
        """Search up and down from factors of one rank.

        As long as ``goes_on_down`` says so of what is known, ranks below ``n_min`` are added.
        """

        def search() -> None:
            self._polish(rank, "start", f"fit of {rank}", start, perf_counter())
            for above in range(rank + 1, self.n_max + 1):
                self._try_from(above - 1, above)
            for below in range(rank - 1, self.n_min - 1, -1):
                self._try_from(below + 1, below)
            self._settle()
            while self.n_min > 1 and goes_on_down(self.evidence()):
                for below in range(self.n_min - 1, max(0, self.n_min - 1 - _STEP_DOWN), -1):
                    self.seconds[below] = 0.0
                    self.n_min = below
                    self._try_from(below + 1, below)
                self._settle()

        self._until_stopped(search)

    def _until_stopped(self, search: Callable[[], None]) -> None:
        try:
            with self.data.keeping_svd():
                search()
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
            point = self._at(start)
            seconds, error = perf_counter() - began, float(point.fitting_errors()[0])
            stage = Stage("start", rank, 0, seconds, error, Status.MAX_TIME)
            self.best[rank] = _Solution.of(point, (stage,), 0)
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
        check_time = self.limits.check_time
        self._try(rank, "start", lambda: INITS["nndsvdar"](self.data, rank, self.rng, check_time))
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
            return self._try(rank, "merge", lambda: self._merged(solution, rank)[:2])
        return self._try(rank, "recover", lambda: self._recovered(solution, rank))

    def _recovered(self, solution: _Solution, rank: int) -> Factors:
        """Factors with components added; where that takes rounds, nothing is done between them."""
        Wt, H, k = solution.Wt[None], solution.H[None], rank - len(solution.H)
        Wt, H, _ = recover(
            self.data, Wt, H, k, lambda start, Wt, H: (Wt, H), self.limits.check_time
        )  # fmt: skip
        return Wt[0], H[0]

    def _merged(self, solution: _Solution, rank: int) -> tuple[Array, Array, MergePlan]:
        """The factors of a solution merged down to a rank, and what that was done by."""
        plan, mix = merge_plan(*solution.grams, rank), self.data.kernels.mix
        Wt, H = solution.Wt[None], solution.H[None]
        return mix(plan.A[None], Wt)[0], mix(plan.B[None], H)[0], plan

    def _at(self, start: Factors) -> Point:
        """A batch of one start."""
        place = self.data.place
        return Point(self.data, place(start[0][None], "W"), place(start[1][None], "H"))

    def _try(self, rank: int, kind: str, make_start: Callable[[], Factors]) -> bool:
        began = perf_counter()
        words = {"merge": "down to", "recover": "up to", "start": "fit of"}[kind]
        return self._polish(rank, kind, f"{words} {rank}", make_start(), began)

    def _polish(self, rank: int, kind: str, name: str, start: Factors, began: float) -> bool:
        """Run the solver from a start; keep the result if it is better than what is there."""
        point, known = self._at(start), self.best.get(rank)
        error = float(point.fitting_errors()[0])
        started = Stage(kind, rank, 0, perf_counter() - began, error, Status.DONE)
        loop = Loop(self.solver, point, stage=self.name + name, tol=self.tol, limits=self.limits)
        beaten = self._iterate(loop, known)
        self.seconds[rank] += perf_counter() - began
        objective, error = float(point.objective()[0]), float(point.fitting_errors()[0])
        changed = better = not beaten and (known is None or objective < known.objective)
        status = Status.DONE
        if better:
            outcome = loop.outcomes()[0]
            status = outcome.status
            changed = known is None or objective < (1 - _IMPROVED) * known.objective
            final = Stage(
                "final", rank, outcome.n_iter, perf_counter() - began - started.seconds,
                error, status, outcome.history,
            )  # fmt: skip
            version = (known.version if known else 0) + changed
            self.best[rank] = _Solution.of(point, (started, final), version)
        elif not beaten:
            status = loop.outcomes()[0].status
        self._report(name, loop, error, better)
        if status in STOPPED:
            raise _Stop(status)
        return changed

    def _iterate(self, loop: Loop, known: _Solution | None) -> bool:
        """Iterate until the loop ends or the start is beaten by the known solution; say which."""
        last = np.inf
        try:
            for i, _ in enumerate(loop, start=1):
                if known is None or i % _CHECK_EVERY != 0:
                    continue
                now = float(loop.point.objective()[0])
                if now >= known.objective and _is_hopeless(loop.point, now, last, known):
                    return True
                last = now
        except KeyboardInterrupt:
            loop.cut_off()
        return False

    def _report(self, name: str, loop: Loop, error: float, better: bool) -> None:
        if self.limits.prints_stages:
            print(
                f"{self.name + name:<12} {loop.n_iter:>6} iterations {error:>10.6g} %  "
                + ("kept" if better else "not better"),
                flush=True,
            )

    def result(self) -> RankPath:
        """The path, with every rank filled in and the scale of X put back."""
        for rank in range(self.n_max - 1, self.n_min - 1, -1):
            if rank not in self.best:
                self.best[rank] = self._unpolished(self.best[rank + 1], rank)
        return self._path(range(self.n_min, self.n_max + 1), self._residual2)

    def rescue(self, error: Unreadable) -> None:
        """Give an exception that ends the search the solutions so far."""
        known = sorted(rank for rank in self.best if np.isfinite(self.best[rank].objective))
        if known:
            self.stopped = Status.INTERRUPTED
            error.path = self._path(known, lambda solution: 2 * solution.objective)
            error.factorization = error.path[known[-1]]

    def evidence(self) -> Evidence:
        """What tells the ranks apart that have been fitted."""
        ranks = sorted(rank for rank in self.best if np.isfinite(self.best[rank].objective))
        known = [self.best[rank] for rank in ranks]
        errors = [percent(2 * solution.objective, self.data.norm2) for solution in known]
        return Evidence(
            ranks=np.array(ranks),
            errors=np.minimum.accumulate(errors),
            penalties=np.array([np.nan, *map(self._penalty, known[1:])]),
            structure=np.array([self._structure(solution) for solution in known]),
            stability=np.full(len(ranks), np.nan),
            shape=self.data.shape,
        )

    def _structure(self, solution: _Solution) -> float:
        """How much structure a solution leaves over."""
        if self._residuals is None:
            self._residuals = Residuals(self.data)
        if solution not in self._structures:
            self._structures[solution] = self._residuals.structure(solution.Wt, solution.H)
        return self._structures[solution]

    def _path(self, ranks: Sequence[int], residual2: Callable[[_Solution], float]) -> RankPath:
        results: list[Factorization] = []
        penalties: list[float] = []
        structure: list[float] = []
        for rank in ranks:
            result = self._factorization(rank, residual2(self.best[rank]))
            penalty = self._penalty(self.best[rank])
            if results and not result.fitting_error <= results[-1].fitting_error:
                result, penalty = _with_zero_component(results[-1]), 0.0
            results.append(result)
            penalties.append(penalty)
            structure.append(np.nan if self.stopped else self._structure(self.best[rank]))
        return RankPath(
            factorizations=results,
            penalties=np.array([np.nan, *penalties[1:]]),
            rank_seconds=np.array([self.seconds[rank] for rank in ranks]),
            seconds=self.limits.elapsed(),
            status=self._status(),
            structure=np.array(structure),
        )

    def _unpolished(self, solution: _Solution, rank: int) -> _Solution:
        Wt, H, plan = self._merged(solution, rank)
        WtW, HHt = solution.grams
        grams = plan.A @ WtW @ plan.A.T, plan.B @ HHt @ plan.B.T
        stage = Stage("merge", rank, 0, 0.0, np.nan, self.stopped or Status.DONE)
        return _Solution(Wt, H, grams, np.inf, (stage,), 0)

    def _residual2(self, solution: _Solution) -> float:
        """‖X − WH‖², exactly."""
        return self.data.errors2(solution.Wt[None], solution.H[None])[0]

    def _factorization(self, rank: int, residual2: float) -> Factorization:
        solution, unit = self.best[rank], self.data.unit
        error = percent(residual2, self.data.norm2)
        stages = solution.stages
        if not np.isfinite(solution.objective):  # its error was not known before
            stages = (replace(stages[0], fitting_error=error),)
        Wt, H = self.data.results(solution.Wt, solution.H)
        result = Factorization(
            W=Wt.T,
            H=H,
            objective=0.5 * residual2 * (unit * unit) * (unit * unit),
            fitting_error=error,
            stages=stages,
            status=solution.status,
            seconds=self.seconds[rank],
            axes=self.data.axes,
        )
        return result.reordered(order_by_share(*solution.grams))

    def _penalty(self, solution: _Solution) -> float:
        """What the cheapest merge changes WH by, in percent of ‖X‖²; nothing for one component."""
        r = len(solution.H)
        if r == 1:
            return 0.0
        return percent(
            float(merge_plan(*solution.grams, r - 1).tree.penalties[-1]), self.data.norm2
        )

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
    cosine = np.ones(known.grams[0].shape)
    for side, F, gram in zip(SIDES, (known.Wt, known.H), known.grams, strict=True):
        own = point.kernels.to_host(point.gram(side)[0])
        shared = point.kernels.to_host(point.kernels.products(point.factor(side), F[None])[0])
        cosine = cosine * _cosines(shared, own, gram)
    matches = cosine.argmax(axis=1)
    return bool(cosine.max(axis=1).min() > _ALIKE and len(set(matches.tolist())) == len(matches))


def _cosines(shared: np.ndarray, *grams: np.ndarray) -> np.ndarray:
    """Cosines of components of two solutions, from their products and Grams."""
    scale = np.outer(*(np.sqrt(np.diag(gram).astype(np.float64)) for gram in grams))
    return np.divide(shared, scale, out=np.zeros_like(scale), where=scale > 0)


def _grams(kernels: Any, Wt: Array, H: Array) -> tuple[np.ndarray, np.ndarray]:
    WtW, HHt = (kernels.to_host(kernels.gram64(F[None]))[0] for F in (Wt, H))
    return WtW, HHt


def _with_zero_component(result: Factorization) -> Factorization:
    """The same fit with one more component, which is zero: where nothing better was found."""
    rank = result.n_components + 1
    stage = Stage("start", rank, 0, 0.0, result.fitting_error, result.status)
    return replace(result, W=_padded(result.W.T).T, H=_padded(result.H), stages=(stage,))


def _padded(F: Any) -> Any:
    """A factor (r × length) with one more component, of zeros; lazy chunks stay whole."""
    F = np.pad(F, ((0, 1), (0, 0)))
    return F.rechunk({0: -1}) if is_lazy(F) else F
