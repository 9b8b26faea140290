"""The search behind `rank_path`: the best solution of each rank, each made from its neighbours.

The highest rank is fitted first. A solution of rank s + 1 with its cheapest pair merged, and one of
rank s − 1 with a component recovered, are starts for rank s. Down, up and down again, the better
solution stays at each rank, until nothing changes. Ranks that look poor, with an
error above the line between the errors of their neighbours, get additional starts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from nmfmerge.inputs.lazy import is_lazy
from nmfmerge.losses import Problem
from nmfmerge.losses.merging import MergePlan
from nmfmerge.matrices import SIDES, Array, DataReadError
from nmfmerge.method.assemble import assemble, sorted_by_share
from nmfmerge.method.init import INITS, Factors
from nmfmerge.method.recover import recover
from nmfmerge.method.stop import until_stopped
from nmfmerge.metrics import SAME_COMPONENT
from nmfmerge.ranks.residual import ResidualStructure
from nmfmerge.results.assessment import Evidence
from nmfmerge.results.factorization import Factorization, Stage
from nmfmerge.results.rank_path import RankPath
from nmfmerge.solvers import Batch, Limits, Loop, Solver, Stopped
from nmfmerge.solvers.history import StageName, Status
from nmfmerge.solvers.progress import rank_stage

_CHECK_EVERY = 3  # iterations, whether a start can still beat the solution that is there
_FORESIGHT = 5  # so many times the last decrease may be hoped for
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
    value: float  # what the problem minimises
    stages: tuple[Stage, ...]
    version: int  # counts the times that it became clearly better

    @classmethod
    def of(cls, batch: Batch, stages: tuple[Stage, ...], version: int) -> "_Solution":
        """The solution at a batch of one start."""
        Wt, H, value = batch.Wt[0], batch.H[0], float(batch.value()[0])
        return cls(Wt, H, _grams(batch.kernels, Wt, H), value, stages, version)

    @property
    def status(self) -> Status:
        return self.stages[-1].status


@dataclass(eq=False)
class RankSearch:
    """The best solution of each rank, and starts that try to beat it."""

    problem: Problem
    n_min: int
    n_max: int
    solver: type[Solver]
    tol: float
    limits: Limits
    rng: np.random.Generator
    name: str = ""  # put before the names of stages

    def __post_init__(self) -> None:
        self.data = self.problem.matrix
        self.best: dict[int, _Solution] = {}
        self.seconds = dict.fromkeys(range(self.n_min, self.n_max + 1), 0.0)
        self.stopped: Status | None = None
        self._residuals: ResidualStructure | None = None
        self._structures: dict[_Solution, float] = {}
        self._tried: dict[tuple[int, int], int] = {}  # (from, to): version of what it came from

    def run(self) -> None:
        """Search until nothing improves, or until stopped."""
        self._until_stopped(self._search)

    def run_around(
        self, rank: int, start: Factors, goes_on_down: Callable[[Evidence], bool]
    ) -> None:
        """Search up and down from factors of one rank.

        Ranks below ``n_min`` are added as long as ``goes_on_down`` returns True for the evidence.
        """

        def search() -> None:
            self._polish(rank, StageName.START, start, perf_counter())
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
        with self.data.keeping_svd(cut=True):
            self.stopped = until_stopped(search, lambda: bool(self.best))

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
            word = "nndsvda" if self.problem.keeps_zeros else "nndsvd"
            start = INITS[word](self.data, rank, self.rng, self.limits.check)
        except Stopped:  # factors that cost nothing to make
            start = INITS["random"](self.data, rank, np.random.default_rng(0), None)
            batch = self._at(start)
            seconds, error = perf_counter() - began, float(batch.fitting_errors()[0])
            stage = Stage(StageName.START, rank, 0, seconds, error, Status.MAX_TIME)
            self.best[rank] = _Solution.of(batch, (stage,), 0)
            raise
        self._polish(rank, StageName.START, start, began)

    def _settle(self) -> None:
        """Alternate passes up and down until one changes nothing."""
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
        error = {rank: solution.value for rank, solution in self.best.items()}
        return [
            rank
            for rank in range(self.n_min + 1, self.n_max)
            if 2 * error[rank] > error[rank - 1] + error[rank + 1]
        ]

    def _try_further_starts(self, rank: int) -> None:
        check = self.limits.check
        self._try(
            rank, StageName.START, lambda: INITS["nndsvdar"](self.data, rank, self.rng, check)
        )
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
            return self._try(rank, StageName.MERGE, lambda: self._merged(solution, rank)[:2])
        return self._try(rank, StageName.RECOVER, lambda: self._recovered(solution, rank))

    def _recovered(self, solution: _Solution, rank: int) -> Factors:
        """Factors with recovered components; between rounds nothing is refined."""
        Wt, H, k = solution.Wt[None], solution.H[None], rank - len(solution.H)
        Wt, H, _ = recover(
            self.problem, Wt, H, k, lambda start, Wt, H: (Wt, H), self.limits.check
        )  # fmt: skip
        return Wt[0], H[0]

    def _merged(self, solution: _Solution, rank: int) -> tuple[Array, Array, MergePlan]:
        """The factors of a solution merged down to a rank, and the plan of the merges."""
        plan, mix = self._plan(solution, rank), self.data.kernels.mix
        Wt, H = solution.Wt[None], solution.H[None]
        return mix(plan.A[None], Wt)[0], mix(plan.B[None], H)[0], plan

    def _plan(self, solution: _Solution, rank: int) -> MergePlan:
        """How to merge a solution down to a rank."""
        Wt, H = solution.Wt[None], solution.H[None]
        return self.problem.merge_plans(Wt, H, rank)[0]

    def _at(self, start: Factors) -> Batch:
        """A batch of one start."""
        place = self.data.place
        return Batch(self.problem, place(start[0][None], "W"), place(start[1][None], "H"))

    def _try(self, rank: int, kind: StageName, make_start: Callable[[], Factors]) -> bool:
        began = perf_counter()
        return self._polish(rank, kind, make_start(), began)

    def _polish(self, rank: int, kind: StageName, start: Factors, began: float) -> bool:
        """Run the solver from a start; keep the result if it is better than what is there."""
        name, batch = rank_stage(kind, rank), self._at(start)
        known = self.best.get(rank)
        error = float(batch.fitting_errors()[0])
        started = Stage(kind, rank, 0, perf_counter() - began, error, Status.DONE)
        loop = Loop(
            self.solver, batch, stage=self.name + name, tol=self.tol, limits=self.limits,
            look_every=_CHECK_EVERY,
        )  # fmt: skip
        beaten = self._iterate(loop, known)
        self.seconds[rank] += perf_counter() - began
        value, error = float(batch.value()[0]), float(batch.fitting_errors()[0])
        changed = better = not beaten and (known is None or value < known.value)
        status = Status.DONE
        if better:
            outcome = loop.outcomes()[0]
            status = outcome.status
            changed = known is None or value < (1 - _IMPROVED) * known.value
            final = Stage(
                StageName.FINAL, rank, outcome.n_iter, perf_counter() - began - started.seconds,
                error, status, outcome.history,
            )  # fmt: skip
            version = (known.version if known else 0) + changed
            self.best[rank] = _Solution.of(batch, (started, final), version)
        elif not beaten:
            status = loop.outcomes()[0].status
        self._report(name, loop, error, better)
        if status in STOPPED:
            raise Stopped(status)
        return changed

    def _iterate(self, loop: Loop, known: _Solution | None) -> bool:
        """Iterate until the loop ends or the start is beaten by the known solution; say which."""
        last = np.inf
        try:
            for _ in loop:
                if known is None or loop.n_iter % _CHECK_EVERY != 0:
                    continue
                now = float(loop.batch.value()[0])
                if now >= known.value and _is_hopeless(loop.batch, now, last, known):
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
        return self._path(range(self.n_min, self.n_max + 1), self._loss)

    def rescue(self, error: DataReadError) -> None:
        """Attach the solutions so far to an exception that ends the search."""
        known = sorted(rank for rank in self.best if np.isfinite(self.best[rank].value))
        if known:
            self.stopped = Status.INTERRUPTED
            error.path = self._path(known, lambda solution: solution.value)
            error.factorization = error.path[known[-1]]

    def evidence(self) -> Evidence:
        """The criteria that distinguish the fitted ranks."""
        ranks = sorted(rank for rank in self.best if np.isfinite(self.best[rank].value))
        known = [self.best[rank] for rank in ranks]
        errors = [self.problem.percent(solution.value) for solution in known]
        return Evidence(
            ranks=np.array(ranks),
            errors=np.minimum.accumulate(errors),
            penalties=np.array([np.nan, *map(self._penalty, known[1:])]),
            structure=np.array([self._structure(solution) for solution in known]),
            stability=np.full(len(ranks), np.nan),
            shape=self.data.shape,
            loss=self.problem.loss.name,
        )

    def _structure(self, solution: _Solution) -> float:
        """Structure of the residual of a solution."""
        if self._residuals is None:
            self._residuals = ResidualStructure(self.data, self.problem.loss)
        if solution not in self._structures:
            self._structures[solution] = self._residuals.structure(solution.Wt, solution.H)
        return self._structures[solution]

    def _path(self, ranks: Sequence[int], loss: Callable[[_Solution], float]) -> RankPath:
        results: list[Factorization] = []
        penalties: list[float] = []
        structure: list[float] = []
        for rank in ranks:
            result = self._factorization(rank, loss(self.best[rank]))
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
        stage = Stage(StageName.MERGE, rank, 0, 0.0, np.nan, self.stopped or Status.DONE)
        return _Solution(Wt, H, grams, np.inf, (stage,), 0)

    def _loss(self, solution: _Solution) -> float:
        """The loss, exactly."""
        return float(self.problem.exact_losses(solution.Wt[None], solution.H[None])[0])

    def _factorization(self, rank: int, loss: float) -> Factorization:
        solution = self.best[rank]
        stages = solution.stages
        if not np.isfinite(solution.value):  # its error was not known before
            stages = (replace(stages[0], fitting_error=self.problem.percent(loss)),)
        result = assemble(
            self.problem,
            solution.Wt,
            solution.H,
            loss,
            stages=stages,
            status=solution.status,
            seconds=self.seconds[rank],
        )
        return sorted_by_share(self.problem, solution.Wt, solution.H, result)

    def _penalty(self, solution: _Solution) -> float:
        """The penalty of the cheapest merge, in percent; zero for one component."""
        r = len(solution.H)
        if r == 1:
            return 0.0
        penalty = float(self._plan(solution, r - 1).tree.penalties[-1])
        return self.problem.merge_percent(penalty)

    def _status(self) -> Status:
        if self.stopped is not None:
            return self.stopped
        statuses = {solution.status for solution in self.best.values()}
        return Status.MAX_ITER if Status.MAX_ITER in statuses else Status.CONVERGED


def _is_hopeless(batch: Batch, now: float, last: float, known: _Solution) -> bool:
    """True if a start that is worse so far will probably stay worse.

    It will if it falls too slowly, or if its components are already those of the known solution.
    """
    return now - _FORESIGHT * (last - now) > known.value or _alike(batch, known)


def _alike(batch: Batch, known: _Solution) -> bool:
    cosine = np.ones(known.grams[0].shape)
    for side, F, gram in zip(SIDES, (known.Wt, known.H), known.grams, strict=True):
        own = batch.kernels.to_host(batch.gram(side)[0])
        shared = batch.kernels.to_host(batch.kernels.products(batch.factor(side), F[None])[0])
        cosine = cosine * _cosines(shared, own, gram)
    matches = cosine.argmax(axis=1)
    return bool(
        cosine.max(axis=1).min() > SAME_COMPONENT and len(set(matches.tolist())) == len(matches)
    )


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
    stage = Stage(StageName.START, rank, 0, 0.0, result.fitting_error, result.status)
    return replace(result, W=_padded(result.W.T).T, H=_padded(result.H), stages=(stage,))


def _padded(F: Any) -> Any:
    """A factor (r × length) with one more component, of zeros; lazy chunks stay whole."""
    F = np.pad(F, ((0, 1), (0, 0)))
    return F.rechunk({0: -1}) if is_lazy(F) else F
