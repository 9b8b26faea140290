"""A run of the method: run all starts, return the best with a record of the others."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from threading import Lock
from time import perf_counter

import numpy as np

from nmfmerge.arguments.errors import Given, Message
from nmfmerge.backends.interface import Capability
from nmfmerge.backends.numba import share
from nmfmerge.losses import Problem
from nmfmerge.matrices import Array, DataReadError
from nmfmerge.method.assemble import assemble, sorted_by_share
from nmfmerge.method.compare_starts import compare
from nmfmerge.method.course import Course
from nmfmerge.method.init import Factors
from nmfmerge.method.starts import StartPlan
from nmfmerge.method.stop import Interrupted, computing, warn_not_converged
from nmfmerge.results.factorization import Factorization, Start
from nmfmerge.solvers import Limits, Solver
from nmfmerge.solvers.history import Status
from nmfmerge.solvers.progress import PLAIN
from nmfmerge.storage.checkpoint import Checkpoint
from nmfmerge.storage.run_state import CourseState, RunState


def stays_together(problem: Problem) -> bool:
    """True if all starts form one batch: on a device, and where each pass reads X from disk."""
    return Capability.HOST not in problem.kernels.capabilities


class Run:
    """The starts of a run, and the result that is made of them.

    In memory each start has a course of its own, run by any idle thread. Its result depends
    neither on the other starts nor on the number of threads.
    """

    def __init__(
        self,
        problem: Problem,
        n_components: int,
        solver: type[Solver],
        limits: Limits,
        plans: Sequence[StartPlan],
        checkpoint: Checkpoint | None = None,
        given: Factors | None = None,
        return_all: bool = False,
        sort: bool = True,
        bar_plan: Mapping[str, float] = PLAIN,
    ) -> None:
        self.problem, self.data = problem, problem.matrix
        self.n_components, self.limits, self.plans = n_components, limits, plans
        self.checkpoint, self.given = checkpoint, given  # given: of held components, in full scale
        self.return_all, self.sort, self._bar_plan = return_all, sort, bar_plan
        groups = [plans] if stays_together(problem) else [[plan] for plan in plans]
        self.courses = [
            Course(problem, n_components, solver, group, first=i) for i, group in enumerate(groups)
        ]
        self._saved: list[CourseState | None] = [None] * len(self.courses)
        self._lock = Lock()  # of the checkpoint

    def through(self, stages: Callable[[Course], object]) -> Factorization:
        """Run all courses through the stages; return the best factors, with their record."""
        with computing(self.data, self.limits, self._bar_plan) as self.limits, self._locked_file():
            self._load()
            self._prepare()
            try:
                self._go(stages)
                result = self._result()
            except DataReadError as error:
                self._rescue(error)
                raise
        if result.status is Status.INTERRUPTED or self._stopped is Status.INTERRUPTED:
            raise Interrupted(result)
        if result.status in (Status.MAX_ITER, Status.MAX_TIME):
            self._warn_not_converged(result.status)
        return result

    def _locked_file(self) -> AbstractContextManager[object]:
        return nullcontext() if self.checkpoint is None else self.checkpoint

    def _prepare(self) -> None:
        """Give every course its limits and its part of the bar."""
        bar = self.limits.bar
        lanes = [None] * len(self.courses) if bar is None else bar.lanes(len(self.courses))
        for i, (course, lane) in enumerate(zip(self.courses, lanes, strict=True)):
            course.limits = replace(self.limits, bar=lane)
            course.numbered = self.n_starts > 1
            if self.checkpoint is not None:
                course.due = self.checkpoint.due
                course.save = lambda state, i=i: self._save(i, state)

    def _go(self, stages: Callable[[Course], object]) -> None:
        several = len(self.courses) > 1
        threads = 1 if self.limits.watches else None  # a callback belongs to this thread
        with self.data.keeping_svd() if several else nullcontext():  # shared by all starts
            share(
                lambda i: self.courses[i].go(stages), len(self.courses), threads,
                on_interrupt=lambda: self.limits.halt(Status.INTERRUPTED),
            )  # fmt: skip
        begun = any(course.has_begun for course in self.courses)
        if not begun and self._stopped is Status.INTERRUPTED:
            raise KeyboardInterrupt  # there is nothing to keep
        for course in self.courses:
            if not course.has_begun:
                course.begin_cheaply()
            course.settle()

    def _result(self) -> Factorization:
        if self._stopped is Status.INTERRUPTED and self._solves_at_the_end():
            return self._as_known()
        try:
            return self._best()
        except KeyboardInterrupt:  # the fit is complete: its error is still computed
            self.limits.halt(Status.INTERRUPTED)
            return self._best()

    @property
    def n_starts(self) -> int:
        """Number of starts."""
        return len(self.plans)

    @property
    def _stopped(self) -> Status | None:
        """Why the run stopped early; None if it did not."""
        halted = self.limits.reason()
        stopped = [course.stopped for course in self.courses if course.stopped is not None]
        return Status.INTERRUPTED if halted is Status.INTERRUPTED else next(iter(stopped), None)

    # The result

    def _factors(self) -> Factors:
        """The factors of all starts."""
        batches = [course.batch for course in self.courses]
        if len(batches) == 1:
            return batches[0].Wt, batches[0].H
        stack = self.data.kernels.stack
        return stack([batch.Wt[0] for batch in batches]), stack([batch.H[0] for batch in batches])

    def _of_start(self, i: int) -> tuple[Course, int]:
        """The course of a start, and its number in it."""
        return (self.courses[0], i) if len(self.courses) == 1 else (self.courses[i], 0)

    def _best(self) -> Factorization:
        """The start that fits best, with a record of the others."""
        Wt, H = self._factors()
        losses = self.problem.exact_losses(Wt, H)
        penalties = self.problem.penalties(*self.problem.as_returned(Wt, H))
        best = int(np.argmin(losses + penalties))
        kept = range(self.n_starts) if self.return_all else [best]
        solutions = {i: self._factorization(i, Wt[i], H[i], losses[i], penalties[i]) for i in kept}
        result = solutions[best]
        if self.n_starts > 1:
            result = self._with_starts(result, Wt, H, losses, best)
        if self.return_all:
            every = tuple(self._sorted(Wt[i], H[i], solutions[i]) for i in kept)
            result = replace(result, solutions=every)
        return self._sorted(Wt[best], H[best], result)

    def _with_starts(
        self, result: Factorization, Wt: Array, H: Array, losses: np.ndarray, best: int
    ) -> Factorization:
        """The best solution with a record of the other starts."""
        likeness = compare(self.data, Wt, H, best)
        starts = []
        for i, plan in enumerate(self.plans):
            course, row = self._of_start(i)
            start = Start(
                init=plan.init,
                seed=plan.seed,
                merged=plan.merges,
                fitting_error=self.problem.percent(float(losses[i])),
                n_iter=sum(stage.n_iter for stage in course.starts[row].stages),
                status=course.status(row),
                similarity=likeness.similarity[i],
                subspace_mismatch=float(likeness.subspace_mismatch[i]),
                permutation_mismatch=float(likeness.permutation_mismatch[i]),
            )
            starts.append(start)
        spread = likeness.spread(self.data)
        return replace(result, starts=tuple(starts), best_start=best, spread=spread)

    def _sorted(self, Wt: Array, H: Array, result: Factorization) -> Factorization:
        """The result of a start, components sorted by share unless their order is the user's."""
        return sorted_by_share(self.problem, Wt, H, result) if self.sort else result

    def _factorization(
        self, i: int, Wt: Array, H: Array, loss: float, penalty: float
    ) -> Factorization:
        """One start as factors of X."""
        course, row = self._of_start(i)
        start = course.starts[row]
        if self.n_starts > 1:  # else the result would keep all of them
            Wt, H = self.data.kernels.copy(Wt), self.data.kernels.copy(H)
        return assemble(
            self.problem,
            Wt,
            H,
            float(loss),
            float(penalty),
            given=self.given,
            merges=start.merges,
            stages=tuple(start.stages),
            status=course.status(row),
            seconds=self.limits.elapsed(),
            generalized_singular_values=start.generalized_singular_values,
        )

    def _warn_not_converged(self, status: Status) -> None:
        if status is Status.MAX_TIME:
            limit, ended = Given("max_time", self.limits.max_time), "s had passed"
        else:
            limit, ended = Given("max_iter", self.limits.max_iter), "iterations were done"
        unfinished = (c for c in self.courses if c.status(0) is status)
        stage = next(unfinished, self.courses[0]).last_stage
        message = Message(
            "stage {stage} had not converged when {limit} {ended}; the factors so far are "
            "returned. Raise that limit or {tol}.",
            stage=repr(stage),
            limit=limit,
            ended=ended,
        )
        warn_not_converged(message, stacklevel=4)

    # Data that cannot be read any more

    def _rescue(self, error: DataReadError) -> None:
        """Attach the current result to the error when X can no longer be read."""
        if self.courses[0].has_begun:
            self.courses[0].rescue()
            error.factorization = self._as_known()

    def _solves_at_the_end(self) -> bool:
        """True if the pass over X that computes the errors also solves for a factor."""
        return self.data.is_sharded("W") or self.data.is_sharded("H")

    def _as_known(self) -> Factorization:
        """The start that fits best by the last known objectives, without reading X."""
        values, penalties = self.courses[0].known_values()
        Wt, H = self._factors()
        best = 0 if np.isnan(values).all() else int(np.nanargmin(values))
        loss = values[best] - penalties[best]
        return self._factorization(best, Wt[best], H[best], loss, penalties[best])

    # Checkpoints

    def _load(self) -> None:
        """Restore every course from the checkpoint."""
        state = self.checkpoint.load() if self.checkpoint else None
        if state is None:
            return
        self.limits = replace(self.limits, began=perf_counter() - state.elapsed)
        self._saved = state.courses
        for course, of_course in zip(self.courses, state.courses, strict=True):
            if of_course is not None:
                course.restore(of_course)

    def _save(self, i: int, state: CourseState) -> None:
        """Save the new state of one course, with the last saved states of the others."""
        assert self.checkpoint is not None
        with self._lock:
            self._saved[i] = state
            self.checkpoint.save(RunState(self.limits.elapsed(), list(self._saved)))
