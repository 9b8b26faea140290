"""A run of the pipeline: its stages, the factors so far, and what is kept if it stops early."""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from time import perf_counter
from types import TracebackType

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from nmfmerge.checkpoint import Checkpoint, State
from nmfmerge.data import Check, DataMatrix
from nmfmerge.held import Held
from nmfmerge.init import INITS, Factors
from nmfmerge.kernels import blas_for
from nmfmerge.merge import MergeTree, merge
from nmfmerge.recover import recover
from nmfmerge.result import Factorization, History, Stage, Status
from nmfmerge.solvers import Limits, Loop, Outcome, OutOfTime, Point, Solver
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


Start = Callable[[Check], Factors]


class Run:
    """Carries the factors from stage to stage.

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
        start: Start,
        checkpoint: Checkpoint | None = None,
        held: Held | None = None,
        given: Factors | None = None,
    ) -> None:
        self.data = data
        self.n_components = n_components
        self.solver = solver
        self.limits = limits
        self.start = start
        self.checkpoint = checkpoint
        self.held, self.given = held, given  # what is held, and the factors of X that it is of
        self.stages: list[Stage] = []
        self.status = Status.DONE
        self._last_stage = ""
        self.merges: MergeTree | None = None
        self.generalized_singular_values = np.empty(0)
        self._point: Point | None = None
        self._fallback: Factors | None = None  # the initial stage's solution
        self._fallback_objective = np.inf
        self._restored: State | None = None  # the stage to continue, until it is taken up
        self._context = ExitStack()

    def initialize(self) -> None:
        """Put the initial factors in place, or those of the checkpoint."""
        state = self.checkpoint.load() if self.checkpoint else None
        if state is not None:
            self._restore(state)
            return
        began, self._last_stage = perf_counter(), "start"
        try:
            self._begin(self.start(self.limits.check_time), began)
        except OutOfTime:  # factors that take no time; a checkpoint would continue from them
            rng = np.random.default_rng(0)
            self._begin(INITS["random"](self.data, self.n_components, rng, None), began)
            raise

    def _begin(self, start: Factors, began: float) -> None:
        self._point = self._at(*start)
        self._record("start", began)

    def _at(self, Wt: np.ndarray, H: np.ndarray) -> Point:
        """A point at these factors, whose first components may be held."""
        return Point(self.data, Wt, H, None if self.held is None else self.held.extended(len(H)))

    def solve(self, stage: str, tol: float) -> None:
        """Run the solver until ``tol``."""
        if self._is_behind(stage):
            return
        began = perf_counter()
        if self._restored is not None:
            began -= self._restored.stage_seconds
        if stage == "final":  # nothing after this needs singular vectors
            self.data.forget_svd()
        solver = self.solver()
        outcome = self._iterate(stage, tol, solver, began)
        unfinished = outcome.status in (Status.MAX_TIME, Status.MAX_ITER)
        if unfinished:  # a run with higher limits continues from here
            self._save(began, solver, outcome.history)
        self._record(stage, began, outcome)
        self._halt_if_stopped(stage, outcome)
        if not unfinished or stage != "final":
            self._save()

    def recover(self, k: int, tol: float) -> None:
        """Add ``k`` components; ``tol`` is for the loose NMF between rounds."""
        if self._is_behind("recover"):
            return
        began, self._last_stage = perf_counter(), "recover"
        self._fallback = Wt, H = self.point.Wt, self.point.H
        self._fallback_objective = self.point.objective()
        self.point.forget_products()
        rounds: list[Outcome] = []

        def refine(Wt: np.ndarray, H: np.ndarray) -> Factors:
            self._point = self._at(Wt, H)
            rounds.append(self._iterate("recover", tol, self.solver()))
            self._halt_if_stopped("recover", rounds[-1])
            return self.point.Wt, self.point.H

        Wt, H, self.generalized_singular_values = recover(
            self.data, Wt, H, k, refine, self.limits.check_time,
            None if self.held is None else self.held.W,
        )  # fmt: skip
        self._point = self._at(Wt, H)
        self._record("recover", began, Outcome.joined(rounds))
        self._save()

    def merge(self) -> None:
        """Merge down to the number of components asked for."""
        if not self._is_behind("merge"):
            self._merge()
            self._save()

    def _merge(self) -> None:
        began = perf_counter()
        Wt, H, self.merges = merge(
            self.point.Wt, self.point.H, self.n_components,
            held=None if self.held is None else self.held.extended(len(self.point.H)).either,
        )  # fmt: skip
        self._point = self._at(Wt, H)
        self._record("merge", began)
        if (
            self.point.objective() <= self._fallback_objective
        ):  # the final stage cannot make it worse
            self._fallback = None

    def result(self) -> Factorization:
        """The factors of X, with the record of the run."""
        with self._blas():
            if self.status in (Status.MAX_TIME, Status.CALLBACK, Status.INTERRUPTED):
                self._settle_for_best()
            try:
                factorization = self._factorization()
            except KeyboardInterrupt:  # the fit is complete: compute its error nevertheless
                self.status = Status.INTERRUPTED
                factorization = self._factorization()
        if self.status is Status.INTERRUPTED:
            raise Interrupted(factorization)
        if self.status in (Status.MAX_ITER, Status.MAX_TIME):
            self._warn_not_converged()
        return factorization

    def _factorization(self) -> Factorization:
        """Put back the scale that was taken off X."""
        residual2 = self.data.residual_norm2(self.point.Wt, self.point.H)
        unit2 = self.data.unit * self.data.unit
        Wt, H = (_times(F, self.data.unit) for F in (self.point.Wt, self.point.H))
        if self.held is not None and self.given is not None:
            # Scaling may have rounded the smallest numbers.
            for F, given, mask in zip((Wt, H), self.given, (self.held.W, self.held.H), strict=True):
                held = np.flatnonzero(mask)
                F[held] = given[held]
        merges = self.merges
        if merges is not None and unit2 != 1:
            with np.errstate(over="ignore", under="ignore"):
                merges = replace(merges, penalties=merges.penalties * unit2 * unit2)
        return Factorization(
            W=Wt.T,
            H=H,
            objective=0.5 * residual2 * unit2 * unit2,
            fitting_error=percent(residual2, self.data.norm2),
            stages=tuple(self.stages),
            status=self.status,
            seconds=self.limits.elapsed(),
            merges=merges,
            generalized_singular_values=self.generalized_singular_values,
        )

    @property
    def point(self) -> Point:
        """The present factors with their products."""
        assert self._point is not None, "initialize() comes first"
        return self._point

    def __enter__(self) -> "Run":
        if self.checkpoint is not None:
            self._context.enter_context(self.checkpoint)  # locks it
        self._context.enter_context(self._blas())
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
        if kind is KeyboardInterrupt and self._point is not None:  # else there is nothing to keep
            self.status = Status.INTERRUPTED
            self._point.forget_products()
            return True
        if kind is OutOfTime:
            self.status = Status.MAX_TIME
            return True
        return kind is _Halt

    def _iterate(
        self, stage: str, tol: float, solver: Solver, began: float | None = None
    ) -> Outcome:
        """Run the loop; with ``began``, the time its stage began, it is saved now and then."""
        before = None
        if self._restored is not None:
            before = self._restored.history
            solver.continue_from(self.point, self._restored.arrays)
            self._restored = None
        loop = Loop(solver, self.point, stage=stage, tol=tol, limits=self.limits, before=before)
        try:
            for _ in loop:
                if began is not None and self.checkpoint is not None and self.checkpoint.due():
                    self._save(began, solver, loop.history())
        except KeyboardInterrupt:
            loop.cut_off()
        return loop.outcome()

    def _is_behind(self, stage: str) -> bool:
        return any(known.name == stage for known in self.stages)

    def _save(
        self, began: float = 0.0, solver: Solver | None = None, history: History | None = None
    ) -> None:
        """Save where the run stands: between two stages, or in one with its solver and history."""
        if self.checkpoint is None:
            return
        arrays = {"Wt": self.point.Wt, "H": self.point.H}
        if self._fallback is not None:
            arrays["fallback Wt"], arrays["fallback H"] = self._fallback
        state = State(
            elapsed=self.limits.elapsed(),
            stages=self.stages,
            arrays=arrays | (solver.state() if solver else {}),
            fallback_objective=self._fallback_objective,
            merges=self.merges,
            generalized_singular_values=self.generalized_singular_values,
            stage_seconds=perf_counter() - began if solver else 0.0,
            history=history,
        )
        self.checkpoint.save(state)

    def _restore(self, state: State) -> None:
        arrays = state.arrays
        self.limits = replace(self.limits, began=perf_counter() - state.elapsed)
        self.stages = state.stages
        self.merges = state.merges
        self.generalized_singular_values = state.generalized_singular_values
        self._point = self._at(arrays.pop("Wt"), arrays.pop("H"))
        if "fallback Wt" in arrays:
            self._fallback = arrays.pop("fallback Wt"), arrays.pop("fallback H")
        self._fallback_objective = state.fallback_objective
        iterated = [stage for stage in self.stages if stage.history is not None]
        if iterated:
            self.status, self._last_stage = iterated[-1].status, iterated[-1].name
        self._restored = state if state.history is not None else None

    def _halt_if_stopped(self, stage: str, outcome: Outcome) -> None:
        self.status = outcome.status
        self._last_stage = stage
        if outcome.status not in (Status.CONVERGED, Status.MAX_ITER):
            raise _Halt

    def _record(self, name: str, began: float, outcome: Outcome | None = None) -> None:
        stage = Stage(
            name=name,
            n_components=len(self.point.H),
            n_iter=outcome.n_iter if outcome else 0,
            seconds=perf_counter() - began,
            fitting_error=self.point.fitting_error(),
            status=outcome.status if outcome else Status.DONE,
            history=outcome.history if outcome else None,
        )
        self.stages.append(stage)
        if self.limits.verbose > 0:
            print(stage, flush=True)

    def _settle_for_best(self) -> None:
        """After a stop: merge what is over-complete; keep the initial solution if it is better."""
        if len(self.point.H) > self.n_components:
            self._merge()
        if self._fallback is not None and self._fallback_objective < self.point.objective():
            self._point = self._at(*self._fallback)
            self.merges = None

    def _warn_not_converged(self) -> None:
        if self.status is Status.MAX_TIME:
            limit = f"max_time={self.limits.max_time:g} s was over"
        else:
            limit = f"max_iter={self.limits.max_iter} iterations were done"
        warnings.warn(
            f"stage {self._last_stage!r} had not converged when {limit}; the factors so far are "
            "returned. Raise that limit or tol.",
            ConvergenceWarning,
            stacklevel=4,
        )


def _times(F: np.ndarray, unit: float) -> np.ndarray:
    return F if unit == 1 else F * F.dtype.type(unit)
