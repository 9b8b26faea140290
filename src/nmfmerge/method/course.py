"""The course of one start, or of a batch of starts, through the stages of the method.

Input: a plan for each start. Output: its factors, and a record of each stage. The courses of one
run are independent, so they can run in several threads.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from time import perf_counter

import numpy as np

from nmfmerge.losses import Problem
from nmfmerge.matrices import Array, DataReadError
from nmfmerge.method.init import Factors
from nmfmerge.method.recover import recover
from nmfmerge.method.starts import StartPlan, made
from nmfmerge.method.stop import until_stopped
from nmfmerge.results.factorization import Stage
from nmfmerge.solvers import Batch, Limits, Loop, LoopState, Outcome, Solver, Stopped
from nmfmerge.solvers.history import StageName, Status
from nmfmerge.storage.run_state import CourseState, StartState


class Course:
    """Carries the factors of its starts from stage to stage.

    A stop by time, callback or Ctrl-C ends the course; `settle` then leaves the best factors found,
    with the requested number of components. Stages that a checkpoint says are done are skipped.

    Parameters
    ----------
    problem : Problem
        What is minimised.
    n_components : int
        How many components the result has.
    solver : type of Solver
        Algorithm of all stages that iterate.
    plans : list of StartPlan
        How each start begins.
    first : int
        The number of the first of them in the run, counted from 0.
    """

    def __init__(
        self,
        problem: Problem,
        n_components: int,
        solver: type[Solver],
        plans: Sequence[StartPlan],
        first: int = 0,
    ) -> None:
        self.problem, self.data = problem, problem.matrix
        self.n_components, self.solver = n_components, solver
        self.plans, self.first = plans, first
        self.limits = Limits()
        self.numbered = False  # whether lines that are printed say which start they are of
        self.save: Callable[[CourseState], None] | None = None  # a checkpoint, where there is one
        self.due: Callable[[], bool] = lambda: False
        self.stopped: Status | None = None  # by the clock, the callback or Ctrl-C
        self.last_stage = StageName.START
        self.starts = [StartState() for _ in plans]
        self._batch: Batch | None = None
        self._aside: Factors | None = None  # the first start, while the others are merged
        self._fallback: Factors | None = None  # the initial stage's solutions
        self._fallback_value = np.full(len(plans), np.inf)
        self._restored: LoopState | None = None  # the state to continue from, until it is used
        self._restored_seconds = 0.0

    @property
    def has_begun(self) -> bool:
        """True if there are factors."""
        return self._batch is not None

    @property
    def merges(self) -> bool:
        """True if any start is to be merged; otherwise this is standard NMF."""
        return any(plan.merges for plan in self.plans)

    @property
    def batch(self) -> Batch:
        """The present factors with their products."""
        assert self._batch is not None, "initialize() comes first"
        return self._batch

    def go(self, stages: "Callable[[Course], object]") -> None:
        """Run the stages, unless the run was stopped before."""
        self.stopped = self.limits.reason()
        if self.stopped is None:
            try:
                self.stopped = until_stopped(lambda: stages(self), self._keeps_factors)
            except BaseException:
                self.limits.halt(Status.INTERRUPTED)
                raise
        if self.stopped in (Status.INTERRUPTED, Status.CALLBACK):
            self.limits.halt(self.stopped)

    def _keeps_factors(self) -> bool:
        """Forget products, of which one may have been cut off; the factors are kept."""
        if self._batch is not None:
            self._batch.forget_products()
        return True

    # The stages, in the order of the method

    def initialize(self) -> None:
        """Make the initial factors, unless they were loaded from a checkpoint."""
        if self._batch is not None:
            return
        began, self.last_stage = perf_counter(), StageName.START
        try:
            factors = made(self.plans, self.data, self.problem.loss, self.limits.check)
        except Stopped:
            self.begin_cheaply()
            raise
        self._begin(factors, began)

    def begin_cheaply(self) -> None:
        """Begin with factors that cost nothing to make; a checkpoint continues from them."""
        self._begin([plan.cheap_factors() for plan in self.plans], perf_counter())

    def _begin(self, starts: list[Factors], began: float) -> None:
        place, stack = self.data.place, self.data.kernels.stack
        Wt = stack([place(Wt, "W") for Wt, _ in starts])
        H = stack([place(H, "H") for _, H in starts])
        self._batch = self._at(Wt, H)
        self._record(StageName.START, began)

    def solve(self, stage: StageName, tol: float) -> None:
        """Run the solver until ``tol``."""
        if self._is_behind(stage):
            return
        began = perf_counter() - self._restored_seconds
        if stage is StageName.FINAL:  # nothing after this needs singular vectors
            self.data.forget_svd()
        loop = self._iterate(self.batch, stage, tol, began)
        self._batch, outcomes = loop.batch, loop.outcomes()
        unfinished = any(o.status in (Status.MAX_TIME, Status.MAX_ITER) for o in outcomes)
        if unfinished:  # a run with higher limits continues from here
            self._save(began, loop)
        self._record(stage, began, outcomes)
        self._raise_if_stopped(stage, outcomes)
        if not unfinished or stage is not StageName.FINAL:
            self._save()

    def recover(self, k: int, tol: float) -> None:
        """Add ``k`` components; ``tol`` is for the loose NMF between rounds."""
        if self._is_behind(StageName.RECOVER):
            return
        began, self.last_stage = perf_counter(), StageName.RECOVER
        self._fallback = Wt, H = self.batch.Wt, self.batch.H
        self._fallback_value = self.data.kernels.to_host(self.batch.value())
        self.batch.forget_products()
        rounds: list[list[Outcome]] = [[] for _ in self._active]

        def refine(start: int, Wt: Array, H: Array) -> Factors:
            loop = self._iterate(self._at(Wt, H), StageName.RECOVER, tol, first_start=start)
            rounds[start] += loop.outcomes()
            if len(rounds) == 1:
                self._batch = loop.batch  # the result if it stops here
            self._raise_if_stopped(StageName.RECOVER, rounds[start])
            return loop.batch.Wt, loop.batch.H

        Wt, H, values = recover(self.problem, Wt, H, k, refine, self.limits.check)
        for start, of_start in zip(self._active, values, strict=True):
            start.generalized_singular_values = of_start
        self._batch = self._at(Wt, H)
        self._record(StageName.RECOVER, began, [Outcome.joined(outcomes) for outcomes in rounds])
        self._save()

    def merge(self) -> None:
        """Merge down to the requested number of components."""
        if not self._is_behind(StageName.MERGE):
            self._merge()
            self._save()

    def _merge(self) -> None:
        began, k = perf_counter(), self.data.kernels
        plans = self.problem.merge_plans(self.batch.Wt, self.batch.H, self.n_components)
        for start, plan in zip(self._active, plans, strict=True):
            start.merges = plan.tree
        Wt = k.mix(np.stack([plan.A for plan in plans]), self.batch.Wt)
        H = k.mix(np.stack([plan.B for plan in plans]), self.batch.H)
        self._batch = self._at(Wt, H)
        self._record(StageName.MERGE, began)
        # The final stage cannot make a start worse that is better than its fallback.
        better = k.to_host(self.batch.value()) <= self._fallback_value
        self._fallback_value = np.where(better, np.inf, self._fallback_value)
        if better.all():
            self._fallback = None

    # A batch whose first start is not merged

    def set_aside(self) -> None:
        """Set the first start aside if it is not merged; the stages go on with the others."""
        if self.plans[0].merges or self._is_behind(StageName.INITIAL) or self._aside is not None:
            return
        self._aside = self.batch.Wt[:1], self.batch.H[:1]
        self._fallback_value = self._fallback_value[1:]
        others = list(range(1, len(self.plans)))
        take = self.data.kernels.take
        self._batch = self._at(take(self.batch.Wt, others), take(self.batch.H, others))

    def take_back(self) -> None:
        """Return the start that was set aside to the batch."""
        if self._aside is None:
            return
        stack, aside = self.data.kernels.stack, self._aside

        def joined(Wt: Array, H: Array) -> Factors:
            return stack([*aside[0], *Wt]), stack([*aside[1], *H])

        self._batch = self._at(*joined(self.batch.Wt, self.batch.H))
        if self._fallback is not None:
            self._fallback = joined(*self._fallback)
        self._fallback_value = np.concatenate([[np.inf], self._fallback_value])
        self._aside = None

    @property
    def _active(self) -> list[StartState]:
        """The starts that are not set aside."""
        return self.starts[self._n_aside :]

    @property
    def _n_aside(self) -> int:
        return 0 if self._aside is None else 1

    # After a stop

    def settle(self) -> None:
        """After a stop: merge down to the asked rank; keep the initial solution if it is better."""
        if self.stopped is None:
            return
        if self.batch.n_components > self.n_components:
            self._merge()
        if self._fallback is not None:
            values = self.data.kernels.to_host(self.batch.value())
            rows = np.flatnonzero(self._fallback_value < values).tolist()
            if rows:
                Wt, H = self.batch.Wt, self.batch.H
                Wt[rows], H[rows] = self._fallback[0][rows], self._fallback[1][rows]
                self._batch = self._at(Wt, H)
            for row in rows:
                self._active[row].merges = None
        self.take_back()

    def rescue(self) -> None:
        """Like `settle`, when X can no longer be read: do what is possible without X."""
        self.stopped = Status.INTERRUPTED
        with suppress(DataReadError):
            self.settle()
        self.take_back()

    def known_values(self) -> tuple[np.ndarray, np.ndarray]:
        """Objective and penalty of each start, as far as they are known; NaN where X is lost."""
        values, penalties = np.full((2, len(self.plans)), np.nan)
        with suppress(DataReadError):
            values = self.data.kernels.to_host(self.batch.value())
            penalties = self.problem.penalties(self.batch.Wt, self.batch.H)
        return values, penalties

    def status(self, i: int) -> Status:
        """The status of a start; one that converged before a stop counts as converged."""
        start = self.starts[i]
        if not start.stages:  # it was stopped before its first error was known
            return self.stopped or Status.DONE
        finished = start.stages[-1].name is StageName.FINAL and start.status is Status.CONVERGED
        return start.status if finished or self.stopped is None else self.stopped

    # Checkpoints

    def restore(self, state: CourseState) -> None:
        """Continue from a saved state."""
        place, arrays = self.data.place_pair, state.arrays
        self.starts = state.starts
        self._batch = self._at(*place(arrays["Wt"], arrays["H"]))
        if "fallback Wt" in arrays:
            self._fallback = place(arrays["fallback Wt"], arrays["fallback H"])
        if "aside Wt" in arrays:
            self._aside = place(arrays["aside Wt"], arrays["aside H"])
        self._fallback_value = state.fallback_value
        iterated = [stage for stage in self.starts[-1].stages if stage.history is not None]
        if iterated:
            self.last_stage = iterated[-1].name
        self._restored, self._restored_seconds = state.loop, state.stage_seconds

    def _save(self, began: float = 0.0, loop: Loop | None = None) -> None:
        """Save the state of the course, between two stages or within one."""
        if self.save is None:
            return
        to_host = self.data.kernels.to_host
        if loop is not None:
            loop_state = loop.state()
            arrays = {"Wt": loop_state.Wt, "H": loop_state.H}
        else:
            loop_state = None
            arrays = {"Wt": to_host(self.batch.Wt).copy(), "H": to_host(self.batch.H).copy()}
        for name, factors in (("fallback", self._fallback), ("aside", self._aside)):
            if factors is not None:
                arrays[f"{name} Wt"], arrays[f"{name} H"] = map(to_host, factors)
        self.save(
            CourseState(
                starts=[replace(start, stages=list(start.stages)) for start in self.starts],
                arrays=arrays,
                fallback_value=self._fallback_value,
                stage_seconds=perf_counter() - began if loop is not None else 0.0,
                loop=loop_state,
            )
        )

    # What stages have in common

    def _at(self, Wt: Array, H: Array) -> Batch:
        return Batch(self.problem, Wt, H)

    def _is_behind(self, stage: StageName) -> bool:
        return any(known.name is stage for known in self.starts[-1].stages)

    def _iterate(
        self,
        batch: Batch,
        stage: StageName,
        tol: float,
        began: float | None = None,
        first_start: int = 0,
    ) -> Loop:
        """Run the loop; with ``began``, the time its stage began, save its state now and then."""
        before, self._restored, self._restored_seconds = self._restored, None, 0.0
        loop = Loop(
            self.solver, batch, stage=stage, tol=tol, limits=self.limits, before=before,
            first_start=self.first + self._n_aside + first_start,
        )  # fmt: skip
        try:
            for _ in loop:
                if began is not None and self.due():
                    self._save(began, loop)
        except KeyboardInterrupt:
            loop.cut_off()
        except DataReadError:
            loop.give_up()
            self._batch = loop.batch
            raise
        return loop

    def _raise_if_stopped(self, stage: StageName, outcomes: Sequence[Outcome]) -> None:
        self.last_stage = stage
        for outcome in outcomes:
            if outcome.status not in (Status.CONVERGED, Status.MAX_ITER, Status.DONE):
                raise Stopped(outcome.status)

    def _record(
        self, name: StageName, began: float, outcomes: Sequence[Outcome | None] | None = None
    ) -> None:
        errors = self.batch.fitting_errors().tolist()
        outcomes = outcomes or [None] * len(self._active)
        for i, (start, outcome) in enumerate(zip(self._active, outcomes, strict=True)):
            stage = Stage(
                name=name,
                n_components=self.batch.n_components,
                n_iter=outcome.n_iter if outcome else 0,
                seconds=perf_counter() - began,
                fitting_error=errors[i],
                status=outcome.status if outcome else Status.DONE,
                history=outcome.history if outcome else None,
            )
            start.stages.append(stage)
            if self.limits.prints_stages:
                number = self.first + self._n_aside + i + 1
                print(f"start {number:<3} {stage}" if self.numbered else stage, flush=True)
        if self.limits.bar is not None:
            self.limits.bar.done(name, min(errors))
