"""A run of the pipeline: the factors so far, and what to keep of them if it stops."""

import warnings
from collections.abc import Callable
from time import perf_counter
from types import TracebackType

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from nmfmerge.data import DataMatrix
from nmfmerge.init import Factors
from nmfmerge.merge import MergeTree, merge
from nmfmerge.recover import recover
from nmfmerge.result import Factorization, Stage, Status
from nmfmerge.solvers import Limits, Outcome, Point, Solver, iterate
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
    """Carries the factors from stage to stage.

    Used as a context: a stop by time, callback or Ctrl-C leaves the ``with`` block, and `result`
    then returns the best that is there, with as many components as were asked for.
    """

    def __init__(
        self,
        data: DataMatrix,
        n_components: int,
        solver: type[Solver],
        limits: Limits,
        start: Callable[[], Factors],
    ) -> None:
        self.data = data
        self.n_components = n_components
        self.solver = solver
        self.limits = limits
        self.start = start
        self.stages: list[Stage] = []
        self.status = Status.DONE
        self._last_stage = ""
        self.merges: MergeTree | None = None
        self.generalized_singular_values = np.empty(0)
        self._point: Point | None = None
        self._fallback: Factors | None = None  # the initial stage's solution
        self._fallback_objective = np.inf

    def initialize(self) -> None:
        """Put the initial factors in place."""
        self._point = Point(self.data, *self.start())

    def solve(self, stage: str, tol: float) -> None:
        """Run the solver until ``tol``."""
        began = perf_counter()
        outcome = self._iterate(stage, tol)
        self._record(stage, began, outcome)
        self._halt_if_stopped(stage, outcome)

    def recover(self, k: int, tol: float) -> None:
        """Add ``k`` components; ``tol`` is for the loose NMF between rounds."""
        began = perf_counter()
        self._fallback = Wt, H = self.point.Wt, self.point.H
        self._fallback_objective = self.point.objective()
        self.point.forget_products()
        rounds: list[Outcome] = []

        def refine(Wt: np.ndarray, H: np.ndarray) -> Factors:
            self._point = Point(self.data, Wt, H)
            rounds.append(self._iterate("recover", tol))
            self._halt_if_stopped("recover", rounds[-1])
            return self.point.Wt, self.point.H

        Wt, H, self.generalized_singular_values = recover(self.data, Wt, H, k, refine)
        self.data.forget_svd()
        self._point = Point(self.data, Wt, H)
        self._record("recover", began, Outcome.joined(rounds))

    def merge(self) -> None:
        """Merge down to the number of components asked for."""
        began = perf_counter()
        Wt, H, self.merges = merge(self.point.Wt, self.point.H, self.n_components)
        self._point = Point(self.data, Wt, H)
        self._record("merge", began)
        if self.point.objective() <= self._fallback_objective:  # from here it only gets better
            self._fallback = None

    def result(self) -> Factorization:
        """The factors as they are, with the story of the run."""
        if self.status in (Status.MAX_TIME, Status.CALLBACK, Status.INTERRUPTED):
            self._settle_for_best()
        try:
            residual2 = self.data.residual_norm2(self.point.Wt, self.point.H)
        except KeyboardInterrupt:  # all is done but this: do it all the same
            self.status = Status.INTERRUPTED
            residual2 = self.data.residual_norm2(self.point.Wt, self.point.H)
        factorization = Factorization(
            W=self.point.Wt.T,
            H=self.point.H,
            objective=0.5 * residual2,
            fitting_error=percent(residual2, self.data.norm2),
            stages=tuple(self.stages),
            status=self.status,
            seconds=self.limits.elapsed(),
            merges=self.merges,
            generalized_singular_values=self.generalized_singular_values,
        )
        if self.status is Status.INTERRUPTED:
            raise Interrupted(factorization)
        if self.status in (Status.MAX_ITER, Status.MAX_TIME):
            self._warn_not_converged()
        return factorization

    @property
    def point(self) -> Point:
        """The present factors with their products."""
        assert self._point is not None, "initialize() comes first"
        return self._point

    def __enter__(self) -> "Run":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if kind is KeyboardInterrupt and self._point is not None:  # else there is nothing to keep
            self.status = Status.INTERRUPTED
            self._point.forget_products()
            return True
        return kind is _Halt

    def _iterate(self, stage: str, tol: float) -> Outcome:
        return iterate(self.solver(), self.point, stage=stage, tol=tol, limits=self.limits)

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
            self.merge()
        if self._fallback is not None and self._fallback_objective < self.point.objective():
            self._point = Point(self.data, *self._fallback)
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
