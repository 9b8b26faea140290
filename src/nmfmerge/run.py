"""A run of the pipeline: its starts and stages, the factors so far, what is kept if it stops."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from time import perf_counter
from types import TracebackType

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from nmfmerge import tensors
from nmfmerge.beginning import Beginning
from nmfmerge.checkpoint import Checkpoint, StartState, State
from nmfmerge.data import Array, DataMatrix, Unreadable
from nmfmerge.held import Held
from nmfmerge.init import Factors
from nmfmerge.kernels import blas_for, of_each
from nmfmerge.likeness import compare, order_by_share
from nmfmerge.merge import merge_plan
from nmfmerge.progress import PLAIN
from nmfmerge.recover import recover
from nmfmerge.result import Factorization, Stage, Start, Status
from nmfmerge.solvers import Limits, Loop, LoopState, Outcome, OutOfTime, Point, Solver
from nmfmerge.solvers.point import percent


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run; ``factorization`` holds the best factors so far."""

    def __init__(self, factorization: Factorization) -> None:
        super().__init__(
            f"interrupted after {factorization.n_iter} iterations; the factors so far are in the "
            "attribute `factorization` of this exception (in an interactive session: "
            "sys.last_value.factorization)"
        )
        self.factorization = factorization

    def __reduce__(self) -> tuple[type, tuple[Factorization]]:
        return type(self), (self.factorization,)


class _Halt(Exception):
    """Leaves the pipeline when a stage was stopped by the clock, the callback or Ctrl-C."""


class Run:
    """Carries the factors of all starts from stage to stage.

    Used as a context: a stop by time, callback or Ctrl-C leaves the ``with`` block, and `result`
    then returns the best factors found, with as many components as were asked for. Stages that a
    checkpoint says are done are skipped.
    """

    def __init__(
        self,
        data: DataMatrix,
        n_components: int,
        solver: type[Solver],
        limits: Limits,
        beginnings: Sequence[Beginning],
        checkpoint: Checkpoint | None = None,
        held: Held | None = None,
        given: Factors | None = None,
        keep_all: bool = False,
        sort: bool = True,
        plan: Mapping[str, float] = PLAIN,
    ) -> None:
        self.data = data
        self.n_components = n_components
        self.solver = solver
        self.limits = limits
        self.beginnings = beginnings
        self.checkpoint = checkpoint
        self.held, self.given = held, given  # what is held, and the factors of X that it is of
        self.keep_all = keep_all
        self.sort = sort  # whether the components of the result are sorted by share
        self._plan = plan  # the stages of a progress bar
        self.starts = [StartState() for _ in beginnings]
        self.stopped: Status | None = None  # by the clock, the callback or Ctrl-C
        self._last_stage = ""
        self._point: Point | None = None
        self._aside: Factors | None = None  # the first start, while the others are merged
        self._fallback: Factors | None = None  # the initial stage's solutions
        self._fallback_objective = np.full(len(beginnings), np.inf)
        self._restored: LoopState | None = None  # where to go on, until it is taken up
        self._restored_seconds = 0.0
        self._context = ExitStack()

    def initialize(self) -> None:
        """Put the initial factors in place, or those of the checkpoint."""
        state = self.checkpoint.load() if self.checkpoint else None
        if state is not None:
            self._restore(state)
            return
        began, self._last_stage = perf_counter(), "start"
        try:
            self._begin(self._factors_to_begin_with(), began)
        except OutOfTime:  # factors that take no time; a checkpoint would continue from them
            self._begin([start.at_once() for start in self.beginnings], began)
            raise

    def _factors_to_begin_with(self) -> list[Factors]:
        """The factors of every start; random numbers are drawn by several threads."""
        first, *others = self.beginnings
        check = self.limits.check_time
        return [first.factors(check), *of_each(lambda start: start.factors(check), others)]

    def _begin(self, starts: list[Factors], began: float) -> None:
        place, stack = self.data.place, self.data.kernels.stack
        Wt = stack([place(Wt, "W") for Wt, _ in starts])
        H = stack([place(H, "H") for _, H in starts])
        self._point = self._at(Wt, H)
        self._record("start", began)

    def _at(self, Wt: Array, H: Array) -> Point:
        """A point at these factors, whose first components may be held."""
        held = None if self.held is None else self.held.extended(H.shape[1])
        return Point(self.data, Wt, H, held)

    def set_aside(self) -> None:
        """Put the first start aside if it is not to be merged; the others go on without it."""
        if self.beginnings[0].merges or self._is_behind("initial") or self._aside is not None:
            return
        self._aside = self.point.Wt[:1], self.point.H[:1]
        self._fallback_objective = self._fallback_objective[1:]
        others = list(range(1, self.n_starts))
        take = self.data.kernels.take
        self._point = self._at(take(self.point.Wt, others), take(self.point.H, others))

    def take_back(self) -> None:
        """Put the start that was set aside back among the others."""
        if self._aside is None:
            return
        stack, aside = self.data.kernels.stack, self._aside

        def joined(Wt: Array, H: Array) -> Factors:
            return stack([*aside[0], *Wt]), stack([*aside[1], *H])

        self._point = self._at(*joined(self.point.Wt, self.point.H))
        if self._fallback is not None:
            self._fallback = joined(*self._fallback)
        self._fallback_objective = np.concatenate([[np.inf], self._fallback_objective])
        self._aside = None

    @property
    def _active(self) -> list[StartState]:
        """The starts that are not set aside."""
        return self.starts[self._n_aside :]

    @property
    def _n_aside(self) -> int:
        return 0 if self._aside is None else 1

    def solve(self, stage: str, tol: float) -> None:
        """Run the solver until ``tol``."""
        if self._is_behind(stage):
            return
        began = perf_counter() - self._restored_seconds
        if stage == "final":  # nothing after this needs singular vectors
            self.data.forget_svd()
        loop = self._iterate(self.point, stage, tol, began)
        self._point, outcomes = loop.point, loop.outcomes()
        unfinished = [o.status in (Status.MAX_TIME, Status.MAX_ITER) for o in outcomes]
        if any(unfinished):  # a run with higher limits continues from here
            self._save(began, loop)
        self._record(stage, began, outcomes)
        self._halt_if_stopped(stage, outcomes)
        if not any(unfinished) or stage != "final":
            self._save()

    def recover(self, k: int, tol: float) -> None:
        """Add ``k`` components; ``tol`` is for the loose NMF between rounds."""
        if self._is_behind("recover"):
            return
        began, self._last_stage = perf_counter(), "recover"
        self._fallback = Wt, H = self.point.Wt, self.point.H
        self._fallback_objective = self.data.kernels.to_host(self.point.objective())
        self.point.forget_products()
        rounds: list[list[Outcome]] = [[] for _ in self._active]

        def refine(start: int, Wt: Array, H: Array) -> tuple[Array, Array]:
            loop = self._iterate(self._at(Wt, H), "recover", tol, first_start=start)
            rounds[start] += loop.outcomes()
            if len(rounds) == 1:
                self._point = loop.point  # what there is if it stops here
            self._halt_if_stopped("recover", rounds[start])
            return loop.point.Wt, loop.point.H

        Wt, H, values = recover(
            self.data, Wt, H, k, refine, self.limits.check_time,
            None if self.held is None else self.held.W,
        )  # fmt: skip
        for start, of_start in zip(self._active, values, strict=True):
            start.generalized_singular_values = of_start
        self._point = self._at(Wt, H)
        self._record("recover", began, [Outcome.joined(outcomes) for outcomes in rounds])
        self._save()

    def merge(self) -> None:
        """Merge down to the number of components asked for."""
        if not self._is_behind("merge"):
            self._merge()
            self._save()

    def _merge(self) -> None:
        began, k = perf_counter(), self.data.kernels
        r = self.point.n_components
        held = None if self.held is None else self.held.extended(r).either
        grams = (k.to_host(k.gram64(F)) for F in (self.point.Wt, self.point.H))
        plans = of_each(
            lambda pair: merge_plan(pair[0], pair[1], self.n_components, held=held),
            list(zip(*grams, strict=True)),
        )
        for start, plan in zip(self._active, plans, strict=True):
            start.merges = plan.tree
        Wt = k.mix(np.stack([plan.A for plan in plans]), self.point.Wt)
        H = k.mix(np.stack([plan.B for plan in plans]), self.point.H)
        self._point = self._at(Wt, H)
        self._record("merge", began)
        # The final stage cannot make a start worse that is better than its fallback.
        better = k.to_host(self.point.objective()) <= self._fallback_objective
        self._fallback_objective = np.where(better, np.inf, self._fallback_objective)
        if better.all():
            self._fallback = None

    def result(self) -> Factorization:
        """The best factors of X, with the record of the run."""
        try:
            with self._blas(), self._rescuing():
                factorization = self._result()
        finally:
            self.data.release()
        if self.stopped is Status.INTERRUPTED:
            raise Interrupted(factorization)
        if factorization.status in (Status.MAX_ITER, Status.MAX_TIME):
            self._warn_not_converged(factorization.status)
        return factorization

    def _result(self) -> Factorization:
        if self.stopped is not None:
            self._settle_for_best()
        if self.stopped is Status.INTERRUPTED and self._solves_at_the_end():
            return self._as_known()
        try:
            return self._best()
        except KeyboardInterrupt:  # the fit is complete: compute its error nevertheless
            self.stopped = Status.INTERRUPTED
            return self._best()

    def _best(self) -> Factorization:
        """The start that fits best, with what became of the others."""
        point = self.point
        residuals = self.data.errors2(point.Wt, point.H)
        best = int(np.argmin(residuals))
        if self.n_starts == 1:
            only = self._sorted(0, self._factorization(0, residuals[0]))
            return replace(only, solutions=(only,)) if self.keep_all else only
        likeness = compare(self.data, point.Wt, point.H, best)
        starts = tuple(
            Start(
                init=beginning.init,
                seed=beginning.seed,
                merged=beginning.merges,
                fitting_error=percent(residuals[i], self.data.norm2),
                n_iter=sum(stage.n_iter for stage in self.starts[i].stages),
                status=self._status(i),
                similarity=likeness.similarity[i],
                subspace_mismatch=float(likeness.subspace_mismatch[i]),
                permutation_mismatch=float(likeness.permutation_mismatch[i]),
            )
            for i, beginning in enumerate(self.beginnings)
        )
        kept = range(self.n_starts) if self.keep_all else [best]
        solutions = {i: self._factorization(i, residuals[i]) for i in kept}
        result = replace(
            solutions[best], starts=starts, best_start=best, spread=likeness.spread(self.data)
        )
        if self.keep_all:
            every = tuple(self._sorted(i, solution) for i, solution in solutions.items())
            result = replace(result, solutions=every)
        return self._sorted(best, result)

    def _sorted(self, i: int, factorization: Factorization) -> Factorization:
        """The factorization of a start with its components sorted by share."""
        if not self.sort:
            return factorization
        kernels = self.data.kernels
        grams = (
            kernels.to_host(kernels.gram64(F[i : i + 1]))[0].astype(np.float64)
            for F in (self.point.Wt, self.point.H)
        )
        return factorization.reordered(order_by_share(*grams))

    def _factorization(self, i: int, residual2: float) -> Factorization:
        """One start as factors of X: put back the scale that was taken off X."""
        start, unit2 = self.starts[i], self.data.unit * self.data.unit
        Wt, H = self.point.Wt[i], self.point.H[i]
        if self.n_starts > 1:  # else the result would keep all of them
            Wt, H = self.data.kernels.copy(Wt), self.data.kernels.copy(H)
        Wt, H = self.data.results(Wt, H)
        if self.held is not None and self.given is not None:
            # Scaling may have rounded the smallest numbers.
            for F, given, mask in zip((Wt, H), self.given, (self.held.W, self.held.H), strict=True):
                held = np.flatnonzero(mask)
                if len(held) == 0:
                    continue
                F[held] = tensors.like(given[held].astype(self.data.dtype), F)
        merges = start.merges
        if merges is not None and unit2 != 1:
            with np.errstate(over="ignore", under="ignore"):
                merges = replace(merges, penalties=merges.penalties * unit2 * unit2)
        return Factorization(
            W=Wt.T,
            H=H,
            objective=0.5 * residual2 * unit2 * unit2,
            fitting_error=percent(residual2, self.data.norm2),
            stages=tuple(start.stages),
            status=self._status(i),
            seconds=self.limits.elapsed(),
            merges=merges,
            generalized_singular_values=start.generalized_singular_values,
            axes=self.data.axes,
        )

    def _status(self, i: int) -> Status:
        """How a start ended: one that had converged is not said to have been stopped."""
        start = self.starts[i]
        if not start.stages:  # it was stopped before its first error was known
            return self.stopped or Status.DONE
        finished = start.stages[-1].name == "final" and start.status is Status.CONVERGED
        return start.status if finished or self.stopped is None else self.stopped

    @property
    def point(self) -> Point:
        """The present factors with their products."""
        assert self._point is not None, "initialize() comes first"
        return self._point

    @property
    def n_starts(self) -> int:
        """Number of starts."""
        return len(self.starts)

    def __enter__(self) -> "Run":
        if self.checkpoint is not None:
            self._context.enter_context(self.checkpoint)  # locks it
        self._context.enter_context(self._blas())
        self.limits = self.limits.with_bar(self._plan)
        return self

    def _blas(self) -> AbstractContextManager[None]:
        return blas_for(self.data.blas_flops(self.n_components))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._context.close()
        self.limits.close_bar()
        handled = self._handles(kind, error)
        if kind is not None and not handled:
            self.data.release()
        return handled

    def _handles(self, kind: type[BaseException] | None, error: BaseException | None) -> bool:
        """Whether a run that was left by an error has a result all the same."""
        if kind is KeyboardInterrupt and self._point is not None:  # else there is nothing to keep
            self.stopped = Status.INTERRUPTED
            self._point.forget_products()
            return True
        if isinstance(error, Unreadable) and self._point is not None:
            self._rescue(error)
        if kind is OutOfTime:
            self.stopped = Status.MAX_TIME
            return True
        return kind is _Halt

    def _iterate(
        self,
        point: Point,
        stage: str,
        tol: float,
        began: float | None = None,
        first_start: int = 0,
    ) -> Loop:
        """Run the loop; with ``began``, the time its stage began, it is saved now and then."""
        before, self._restored, self._restored_seconds = self._restored, None, 0.0
        loop = Loop(
            self.solver, point, stage=stage, tol=tol, limits=self.limits, before=before,
            first_start=self._n_aside + first_start,
        )  # fmt: skip
        with self._threads(point):
            try:
                for _ in loop:
                    if began is not None and self.checkpoint is not None and self.checkpoint.due():
                        self._save(began, loop)
            except KeyboardInterrupt:
                loop.cut_off()
            except Unreadable:
                loop.give_up()
                self._point = loop.point
                raise
        return loop

    @contextmanager
    def _threads(self, point: Point) -> Iterator[None]:
        """Let our threads share the products of several starts.

        Those of BLAS are not made for a batch that shrinks.
        """
        before, self.data.own_threads = self.data.own_threads, point.n_starts > 1
        try:
            with blas_for(self.data.blas_flops(point.n_components, point.n_starts)):
                yield
        finally:
            self.data.own_threads = before

    def _is_behind(self, stage: str) -> bool:
        return any(known.name == stage for known in self.starts[-1].stages)

    def _save(self, began: float = 0.0, loop: Loop | None = None) -> None:
        """Save where the run stands: between two stages, or in the loop of one."""
        if self.checkpoint is None:
            return
        to_host = self.data.kernels.to_host
        if loop is not None:
            loop_state = loop.state()
            arrays = {"Wt": loop_state.Wt, "H": loop_state.H}
        else:
            loop_state = None
            arrays = {"Wt": to_host(self.point.Wt), "H": to_host(self.point.H)}
        for name, factors in (("fallback", self._fallback), ("aside", self._aside)):
            if factors is not None:
                arrays[f"{name} Wt"], arrays[f"{name} H"] = map(to_host, factors)
        state = State(
            elapsed=self.limits.elapsed(),
            starts=self.starts,
            arrays=arrays,
            fallback_objective=self._fallback_objective,
            stage_seconds=perf_counter() - began if loop is not None else 0.0,
            loop=loop_state,
        )
        self.checkpoint.save(state)

    def _restore(self, state: State) -> None:
        place, arrays = self.data.place_pair, state.arrays
        self.limits = replace(self.limits, began=perf_counter() - state.elapsed)
        self.starts = state.starts
        self._point = self._at(*place(arrays["Wt"], arrays["H"]))
        if "fallback Wt" in arrays:
            self._fallback = place(arrays["fallback Wt"], arrays["fallback H"])
        if "aside Wt" in arrays:
            self._aside = place(arrays["aside Wt"], arrays["aside H"])
        self._fallback_objective = state.fallback_objective
        iterated = [stage for stage in self.starts[-1].stages if stage.history is not None]
        if iterated:
            self._last_stage = iterated[-1].name
        self._restored, self._restored_seconds = state.loop, state.stage_seconds

    def _halt_if_stopped(self, stage: str, outcomes: Sequence[Outcome]) -> None:
        self._last_stage = stage
        for outcome in outcomes:
            if outcome.status not in (Status.CONVERGED, Status.MAX_ITER, Status.DONE):
                self.stopped = outcome.status
                raise _Halt

    def _record(
        self, name: str, began: float, outcomes: Sequence[Outcome | None] | None = None
    ) -> None:
        errors = self.point.fitting_errors().tolist()
        outcomes = outcomes or [None] * len(self._active)
        for i, (start, outcome) in enumerate(zip(self._active, outcomes, strict=True)):
            stage = Stage(
                name=name,
                n_components=self.point.n_components,
                n_iter=outcome.n_iter if outcome else 0,
                seconds=perf_counter() - began,
                fitting_error=errors[i],
                status=outcome.status if outcome else Status.DONE,
                history=outcome.history if outcome else None,
            )
            start.stages.append(stage)
            if self.limits.prints_stages:
                number = self._n_aside + i + 1
                print(f"start {number:<3} {stage}" if self.n_starts > 1 else stage, flush=True)
        if self.limits.bar is not None:
            self.limits.bar.done(name, min(errors))

    def _settle_for_best(self) -> None:
        """After a stop: merge what is over-complete; keep an initial solution if it is better."""
        if self.point.n_components > self.n_components:
            self._merge()
        if self._fallback is not None:
            objectives = self.data.kernels.to_host(self.point.objective())
            rows = np.flatnonzero(self._fallback_objective < objectives).tolist()
            if rows:
                Wt, H = self.point.Wt, self.point.H
                Wt[rows], H[rows] = self._fallback[0][rows], self._fallback[1][rows]
                self._point = self._at(Wt, H)
            for row in rows:
                self._active[row].merges = None
        self.take_back()

    @contextmanager
    def _rescuing(self) -> Iterator[None]:
        """Keep the factors where X cannot be read any more."""
        try:
            yield
        except Unreadable as error:
            self._rescue(error)
            raise

    def _rescue(self, error: Unreadable) -> None:
        """Keep what there is when X cannot be read any more: of each number what is known."""
        self.stopped = Status.INTERRUPTED
        with suppress(Unreadable):
            self._settle_for_best()
        self.take_back()
        error.factorization = self._as_known()

    def _solves_at_the_end(self) -> bool:
        """Whether results have a factor that is solved for, in a pass over X for their errors."""
        return self.data.defers("W") or self.data.defers("H")

    def _as_known(self) -> Factorization:
        """The start that fits best, with the objective that is known of it."""
        objectives = np.full(self.n_starts, np.nan)
        with suppress(Unreadable):
            objectives = self.data.kernels.to_host(self.point.objective())
        best = 0 if np.isnan(objectives).all() else int(np.nanargmin(objectives))
        return self._factorization(best, 2 * float(objectives[best]))

    def _warn_not_converged(self, status: Status) -> None:
        if status is Status.MAX_TIME:
            limit = f"max_time={self.limits.max_time:g} s was over"
        else:
            limit = f"max_iter={self.limits.max_iter} iterations were done"
        warnings.warn(
            f"stage {self._last_stage!r} had not converged when {limit}; the factors so far are "
            "returned. Raise that limit or tol.",
            ConvergenceWarning,
            stacklevel=4,
        )
