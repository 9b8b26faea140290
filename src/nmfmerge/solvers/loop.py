"""The loop that all solvers share: iterate, stop, record, call back."""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from nmfmerge.result import History, Status
from nmfmerge.solvers.base import Solver
from nmfmerge.solvers.point import Point

Callback = Callable[["Progress"], object]

_REPORT_EVERY = 100


@dataclass(frozen=True)
class Limits:
    """What a run must keep to: a cap per stage, an end for all, the user's word; and how loud."""

    max_iter: int = 10_000
    max_time: float | None = None
    callback: Callback | None = None
    verbose: int = 0
    began: float = field(default_factory=perf_counter)

    def elapsed(self) -> float:
        """Seconds since the run began."""
        return perf_counter() - self.began

    def out_of_time(self) -> bool:
        """Whether the run has used up its time."""
        return self.max_time is not None and self.elapsed() >= self.max_time


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
        """Present W (m × r), a read-only view: copy what is to be kept."""
        return _read_only(self._point.Wt.T)

    @property
    def H(self) -> np.ndarray:
        """Present H (r × n), a read-only view: copy what is to be kept."""
        return _read_only(self._point.H)


@dataclass(frozen=True)
class Outcome:
    """How a stage of iterations ended."""

    status: Status
    n_iter: int
    history: History

    @staticmethod
    def joined(outcomes: "list[Outcome]") -> "Outcome | None":
        """Several runs of the loop as one; None if there were none."""
        if not outcomes:
            return None
        histories = [outcome.history for outcome in outcomes]
        return Outcome(
            Status.DONE,
            sum(outcome.n_iter for outcome in outcomes),
            History(
                np.concatenate([history.step for history in histories]),
                np.concatenate([history.seconds for history in histories]),
                np.concatenate([history.fitting_error for history in histories]),
            ),
        )


def iterate(
    solver: Solver,
    point: Point,
    *,
    stage: str,
    tol: float,
    limits: Limits,
    before: History | None = None,
    keep: Callable[[Callable[[], History]], object] | None = None,
) -> Outcome:
    """Improve ``point`` until the step rule holds or a limit is reached.

    The step rule: ‖new − old‖ ≤ tol·‖new + old‖ for every column of W and row of H. ``before`` is
    the history of a loop that this one continues; ``keep`` is called where it could be continued,
    with a function that gives the history so far.
    """
    steps, seconds, errors = before.as_lists() if before else ([], [], [])
    status = Status.MAX_ITER
    try:
        while len(errors) < limits.max_iter:
            if limits.out_of_time():
                status = Status.MAX_TIME
                break
            steps.append(solver.iterate(point))
            seconds.append(limits.elapsed())
            progress = Progress(stage, len(steps), steps[-1], tol, seconds[-1], point)
            stop = limits.callback is not None and limits.callback(progress)
            if limits.verbose > 1 and len(steps) % _REPORT_EVERY == 0:
                print(f"  {progress}", flush=True)
            errors.append(progress._fitting_error)
            if stop:
                status = Status.CALLBACK
                break
            if steps[-1] <= tol:
                status = Status.CONVERGED
                break
            if keep is not None:
                keep(lambda: History.of(steps, seconds, errors))
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
        point.forget_products()  # the cut may have come before a change was noted
        solver.settle(point)
    n_iter = len(errors)  # a last iteration that was cut off has no entry here
    return Outcome(status, n_iter, History.of(steps[:n_iter], seconds[:n_iter], errors))


def _read_only(F: np.ndarray) -> np.ndarray:
    view = F.view()
    view.flags.writeable = False
    return view
