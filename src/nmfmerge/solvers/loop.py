"""The loop that all solvers share: iterate, stop, record, call back."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from nmfmerge import validation as check
from nmfmerge.result import History, Status
from nmfmerge.solvers.base import Solver
from nmfmerge.solvers.point import Point

Callback = Callable[["Progress"], object]

_REPORT_EVERY = 100


class OutOfTime(Exception):
    """The time of a run was used up in a step that does not iterate."""


@dataclass(frozen=True)
class Limits:
    """Limits of a run: iterations per stage, total time, user callback, verbosity."""

    max_iter: int = 10_000
    max_time: float | None = None
    callback: Callback | None = None
    verbose: int = 0
    began: float = field(default_factory=perf_counter)

    @classmethod
    def checked(cls, max_iter: Any, max_time: Any, callback: Any, verbose: Any) -> "Limits":
        """Limits from what a user gave."""
        return cls(
            max_iter=check.check_integer("max_iter", max_iter, low=1),
            max_time=check.check_optional_real("max_time", max_time, low=0, open_end=True),
            callback=check.check_callable("callback", callback),
            verbose=check.check_integer(
                "verbose", int(verbose) if isinstance(verbose, bool) else verbose, low=0
            ),
        )

    def elapsed(self) -> float:
        """Seconds since the run began."""
        return perf_counter() - self.began

    def out_of_time(self) -> bool:
        """Whether the run has used up its time."""
        return self.max_time is not None and self.elapsed() >= self.max_time

    def check_time(self) -> None:
        """Raise `OutOfTime` if the run has used up its time."""
        if self.out_of_time():
            raise OutOfTime


@dataclass
class Progress:
    """What a callback gets after each iteration; valid until it returns.

    Attributes
    ----------
    stage : str
        Name of the stage.
    iteration : int
        Iterations of this stage so far.
    step : float
        Largest relative displacement of a component.
    tol : float
        The stage ends when ``step`` is at most this.
    seconds : float
        Time since the run began.
    """

    stage: str
    iteration: int
    step: float
    tol: float
    seconds: float
    _point: Point = field(repr=False)
    _fitting_error: float = field(default=float("nan"), repr=False)

    @property
    def fitting_error(self) -> float:
        """100·‖X − WH‖²/‖X‖², computed when asked for."""
        if np.isnan(self._fitting_error):
            self._fitting_error = self._point.fitting_error()
        return self._fitting_error

    def __str__(self) -> str:
        return (
            f"{self.stage:<12} iteration {self.iteration:>6}  {self.fitting_error:.6g} %  "
            f"step {self.step:.2e} (tol {self.tol:.0e})  {self.seconds:.1f} s"
        )

    @property
    def W(self) -> np.ndarray:
        """Present W (m × r), read-only: copy what is to be kept."""
        return self._of_X(self._point.Wt.T)

    @property
    def H(self) -> np.ndarray:
        """Present H (r × n), read-only: copy what is to be kept."""
        return self._of_X(self._point.H)

    def _of_X(self, F: np.ndarray) -> np.ndarray:
        unit = self._point.data.unit
        view = F.view() if unit == 1 else F * F.dtype.type(unit)
        view.flags.writeable = False
        return view


@dataclass(frozen=True)
class Outcome:
    """How a stage of iterations ended."""

    status: Status
    history: History

    @property
    def n_iter(self) -> int:
        """Iterations that were done."""
        return len(self.history.step)

    @staticmethod
    def joined(outcomes: "list[Outcome]") -> "Outcome | None":
        """Several runs of the loop as one; None if there were none."""
        if not outcomes:
            return None
        histories = [outcome.history for outcome in outcomes]
        return Outcome(Status.DONE, History.joined(histories))


class Loop:
    """Iterations of a solver on a point, until the step rule holds or a limit is reached.

    The step rule: ‖new − old‖ ≤ tol·‖new + old‖ for every column of W and row of H.
    Iterating over the loop runs the solver, one iteration at a time. Between two iterations the
    history is complete, and another loop that gets it as ``before`` could continue.
    """

    def __init__(
        self,
        solver: Solver,
        point: Point,
        *,
        stage: str,
        tol: float,
        limits: Limits,
        before: History | None = None,
    ) -> None:
        self.solver, self.point = solver, point
        self.stage, self.tol, self.limits = stage, tol, limits
        self._steps, self._seconds, self._errors = before.as_lists() if before else ([], [], [])
        self._status: Status | None = None

    def __iter__(self) -> Iterator["Loop"]:
        self._check_limits()
        while self._status is None:
            progress = self._iterate()
            if self._status is None and progress.step <= self.tol:
                self._status = Status.CONVERGED
            if self._status is None:
                yield self
                self._check_limits()

    def run(self) -> Outcome:
        """Iterate to the end."""
        for _ in self:
            pass
        return self.outcome()

    def cut_off(self) -> None:
        """Note that an iteration was interrupted, and keep the better of the points around it."""
        self._status = Status.INTERRUPTED
        self.point.forget_products()  # it may have been interrupted before a change was noted
        self.solver.tidy_(self.point)

    def history(self) -> History:
        """What was recorded so far."""
        return History.of(self._steps, self._seconds, self._errors)

    def outcome(self) -> Outcome:
        """How the loop ended."""
        assert self._status is not None, "the loop has not ended"
        return Outcome(self._status, self.history())

    def _check_limits(self) -> None:
        if len(self._steps) >= self.limits.max_iter:
            self._status = Status.MAX_ITER
        elif self.limits.out_of_time():
            self._status = Status.MAX_TIME

    def _iterate(self) -> Progress:
        step, limits = self.solver.iterate(self.point), self.limits
        n_iter, seconds = len(self._steps) + 1, limits.elapsed()
        progress = Progress(self.stage, n_iter, step, self.tol, seconds, self.point)
        if limits.callback is not None and limits.callback(progress):
            self._status = Status.CALLBACK
        if limits.verbose > 1 and n_iter % _REPORT_EVERY == 0:
            print(f"  {progress}", flush=True)
        self._steps.append(step)
        self._seconds.append(seconds)
        self._errors.append(progress._fitting_error)
        return progress
