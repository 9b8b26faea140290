"""The loop that all solvers share: iterate, stop, record, call back."""

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from nmfmerge.matrices import Array
from nmfmerge.solvers.base import Solver
from nmfmerge.solvers.batch import Batch
from nmfmerge.solvers.history import History, Status
from nmfmerge.solvers.limits import Limits

_REPORT_EVERY = 100
_FIRST = 8  # iterations in a row, before it is known how long they take
_SECONDS = 0.05  # of iterations in a row, between two looks at limits and checkpoints


@dataclass
class Progress:
    """The state that a callback receives after each iteration; valid until it returns.

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
    start : int
        Which of several starts this is, counted from 0.
    """

    stage: str
    iteration: int
    step: float
    tol: float
    seconds: float
    start: int
    _batch: Batch = field(repr=False)
    _row: int = field(repr=False)
    _fitting_error: float = field(default=float("nan"), repr=False)

    @property
    def fitting_error(self) -> float:
        """100·‖X − WH‖²/‖X‖², computed on access."""
        if np.isnan(self._fitting_error):
            self._fitting_error = float(self._batch.fitting_errors()[self._row])
        return self._fitting_error

    def __str__(self) -> str:
        return (
            f"{self.stage:<12} iteration {self.iteration:>6}  {self.fitting_error:.6g} %  "
            f"step {self.step:.2e} (tol {self.tol:.0e})  {self.seconds:.1f} s"
        )

    @property
    def W(self) -> Array:
        """Current W (m × r), read-only: copy it to keep it."""
        return self._shown()[0].T

    @property
    def H(self) -> Array:
        """Current H (r × n), read-only: copy it to keep it."""
        return self._shown()[1]

    def _shown(self) -> tuple[Array, Array]:
        batch, row = self._batch, self._row
        return batch.data.read_only_factors(batch.Wt[row], batch.H[row])


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


@dataclass(eq=False)
class LoopState:
    """The state of a loop between two passes."""

    Wt: np.ndarray
    H: np.ndarray
    histories: list[History]
    statuses: list[Status | None]  # None for starts that can continue
    phases: list[int]  # 0 in the warm-up, if there is one
    solvers: list[dict[str, np.ndarray]]  # solver state of each start


class _Record:
    """The history of one start, and its status."""

    def __init__(self) -> None:
        self.steps: list[float] = []
        self.seconds: list[float] = []
        self.errors: list[float] = []
        self.status: Status | None = None

    @property
    def can_go_on(self) -> bool:
        """True if the start is running, or stopped at a limit that may be raised."""
        return self.status in (None, Status.MAX_ITER, Status.MAX_TIME)

    def history(self) -> History:
        """The history so far."""
        return History.of(self.steps, self.seconds, self.errors)


class Loop:
    """Iterations of a solver on a batch of starts, until the step rule holds or a limit is reached.

    The step rule: ‖new − old‖ ≤ tol·‖new + old‖ for every column of W and row of H. A start for
    which it holds leaves the batch. Iterating over the loop runs the solver, one pass at a time.
    Between two passes the history is complete, and another loop could continue from `state`.
    A solver with a warm-up begins when all starts have finished the warm-up.

    Attributes
    ----------
    batch : Batch
        The starts being iterated; after the end, all starts in their order.
    """

    def __init__(
        self,
        solver: type[Solver],
        batch: Batch,
        *,
        stage: str,
        tol: float,
        limits: Limits,
        before: LoopState | None = None,
        first_start: int = 0,
        look_every: int = 1_000_000,
    ) -> None:
        self.batch = batch
        self._most, self._affordable = look_every, min(look_every, _FIRST)  # iterations in a row
        self.stage, self.tol, self.limits = stage, tol, limits
        self._first_start = first_start  # the number that callbacks know the first by
        self._records = [_Record() for _ in range(batch.n_starts)]
        self._rows = list(range(batch.n_starts))  # which start each row of the batch is
        self._live: list[int] = []  # those of them that are iterated
        self._aside: dict[int, tuple[Array, Array]] = {}  # factors of starts not in the batch
        self._phases = [(solver, 0.0)]
        if solver.warm_up is not None:
            self._phases.insert(0, (solver.warm_up, solver.warm_up_tol))
        self._phase_of = [0] * batch.n_starts
        self._solver: Solver | None = None
        self._solver_starts: list[int] = []  # which start each row of the solver is
        self._kept: dict[int, dict[str, np.ndarray]] = {}  # solver states of other starts
        if before is not None:
            self._continue_from(before)

    def __iter__(self) -> Iterator["Loop"]:
        if self.limits.bar is not None:
            self.limits.bar.enter(self.stage, len(self._records))
        for phase, (solver, least) in enumerate(self._phases):
            self._begin(phase, solver)
            self._check_limits()
            while self._live:
                self._pass(max(self.tol, least))
                if self._live:
                    yield self
                    self._check_limits()
        self._regroup(list(range(len(self._records))))

    def run(self) -> list[Outcome]:
        """Iterate to the end."""
        for _ in self:
            pass
        return self.outcomes()

    def cut_off(self) -> None:
        """Handle an interrupted pass: keep the better of the factors before and after it."""
        if self._solver is not None and self._live:
            self.batch.forget_products()  # it may have been interrupted before a change was noted
            self._solver.tidy_(self.batch)
        self.give_up()

    def give_up(self) -> None:
        """End the loop with the factors as they are, without computing anything."""
        for record in self._records:
            record.status = record.status or Status.INTERRUPTED
        self._regroup(list(range(len(self._records))))

    @property
    def n_iter(self) -> int:
        """The largest number of iterations of any start so far."""
        return max(len(record.steps) for record in self._records)

    def outcomes(self) -> list[Outcome]:
        """How the loop ended, for each start."""
        return [Outcome(_ended(record), record.history()) for record in self._records]

    def state(self) -> LoopState:
        """The state from which another loop can continue bit for bit."""
        pairs = [self._factors_of(start) for start in range(len(self._records))]
        to_host = self.batch.kernels.to_host
        Wt, H = (np.stack([to_host(pair[side]) for pair in pairs]) for side in (0, 1))
        return LoopState(
            Wt=Wt,
            H=H,
            histories=[record.history() for record in self._records],
            statuses=[None if record.can_go_on else record.status for record in self._records],
            phases=list(self._phase_of),
            solvers=self._solver_states(range(len(self._records))),
        )

    def _continue_from(self, state: LoopState) -> None:
        for i, record in enumerate(self._records):
            record.steps, record.seconds, record.errors = state.histories[i].as_lists()
            record.status = state.statuses[i]
        self._phase_of = list(state.phases)
        self._kept = dict(enumerate(state.solvers))

    def _solver_states(self, starts: Iterable[int]) -> list[dict[str, np.ndarray]]:
        """The solver state of each of these starts; empty for a start that has stopped."""
        wanted = {start for start in starts if self._records[start].can_go_on}
        states = {start: self._kept.get(start, {}) for start in wanted}
        if self._solver is not None and wanted & set(self._solver_starts):
            arrays = self._solver.state.on_host(self.batch.kernels)
            for row, start in enumerate(self._solver_starts):
                if start in wanted:
                    states[start] = {name: array[row].copy() for name, array in arrays.items()}
        return [states.get(start, {}) for start in starts]

    def _begin(self, phase: int, solver: type[Solver]) -> None:
        """Begin a phase with the starts that have reached it."""
        starts = [
            start
            for start, record in enumerate(self._records)
            if record.status is None and self._phase_of[start] == phase
        ]
        if not starts:
            return
        self._regroup(starts)
        self.batch.active = None
        self._solver, self._solver_starts = solver(self.batch), starts
        self._take_up_states(starts)
        self._live = starts

    def _take_up_states(self, starts: list[int]) -> None:
        """Restore the solver states of starts that another loop began."""
        assert self._solver is not None
        kept = [self._kept.pop(start, {}) for start in starts]
        if any(kept):
            arrays = self._solver.state.on_host(self.batch.kernels)
            fresh = [
                {name: array[row] for name, array in arrays.items()} for row in range(len(kept))
            ]
            states = [old or new for old, new in zip(kept, fresh, strict=True)]
            if any(_layout(state) != _layout(fresh[0]) for state in states):
                raise ValueError(
                    "the state of the solver in the checkpoint does not fit the data; delete the "
                    "checkpoint to start over"
                )
            self._solver.continue_from(self.batch, _stacked(states))

    def _regroup(self, starts: list[int]) -> None:
        """Form a batch of these starts, in this order; the others are kept aside."""
        self._live = []
        if self._rows == starts:
            return
        self.batch.forget_products()  # it may be kept elsewhere
        pairs = [self._factors_of(start) for start in range(len(self._records))]
        k = self.batch.kernels
        Wt, H = (k.stack([pairs[start][side] for start in starts]) for side in (0, 1))
        batch = Batch(self.batch.problem, Wt, H)
        aside = {i: pair for i, pair in enumerate(pairs) if i not in starts}
        self.batch, self._rows, self._aside = batch, starts, aside

    def _factors_of(self, start: int) -> tuple[Array, Array]:
        if start not in self._rows:
            return self._aside[start]
        row = self._rows.index(start)
        return self.batch.Wt[row], self.batch.H[row]

    def _pass(self, tol: float) -> None:
        assert self._solver is not None
        limits = self.limits
        done = max(len(self._records[start].steps) for start in self._live)
        n = 1 if limits.watches else self.batch.data.iterations_per_sync or self._affordable
        leaving: set[int] = set()
        began = perf_counter()
        steps = self._solver.passes(self.batch, tol, min(n, limits.max_iter - done))
        seconds = (perf_counter() - began) / len(steps)
        self._affordable = max(1, min(self._most, int(_SECONDS / seconds), 4 * len(steps)))
        for row, start in enumerate(self._rows):
            of_start = [step for step in steps[:, row].tolist() if step == step]  # not taken back
            if start in self._live and of_start:
                self._note(start, of_start, seconds)
                if of_start[-1] <= tol:
                    leaving.add(start)
        if any(record.status is Status.CALLBACK for record in self._records):
            for record in self._records:
                record.status = record.status or Status.CALLBACK
            leaving = set(self._live)
        self._leave(leaving)

    def _note(self, start: int, steps: list[float], each: float) -> None:
        """Record iterations of one start, ``each`` in seconds; a single one if it is watched."""
        record, limits, step = self._records[start], self.limits, steps[-1]
        n_iter, seconds, error = len(record.steps) + 1, limits.elapsed(), float("nan")
        if limits.watches or limits.bar is not None:
            row, number = self._rows.index(start), self._first_start + start
            progress = Progress(
                self.stage, n_iter, step, self.tol, seconds, number, self.batch, row
            )  # fmt: skip
        if limits.bar is not None:
            limits.bar.note(progress, error=not self.batch.data.iterations_per_sync)
        if limits.watches:
            stopped = any(record.status is Status.CALLBACK for record in self._records)
            if limits.callback is not None and not stopped and limits.callback(progress):
                record.status = Status.CALLBACK
            if limits.verbose > 1 and n_iter % _REPORT_EVERY == 0:
                which = f"start {number + 1:<3} " * (len(self._records) > 1)
                print(f"  {which}{progress}", flush=True)
            error = progress._fitting_error
        record.steps += steps
        record.seconds += [seconds - each * left for left in reversed(range(len(steps)))]
        record.errors += len(steps) * [error]
        if record.status is None and step <= self.tol:
            record.status = Status.CONVERGED

    def _leave(self, starts: set[int]) -> None:
        """Take starts out of the batch, and shrink it to the others."""
        if not starts:
            return
        for start in starts:
            if self._records[start].status is None:  # its next phase waits for all others
                self._phase_of[start] += 1
        live = [start for start in self._live if start not in starts]
        rows = [self._rows.index(start) for start in live]
        if self.batch.active is not None:  # shrinking takes time on a device: not for a few
            self.batch.active[[self._rows.index(start) for start in starts]] = False
            if not self.batch.kernels.worth_shrinking(self.batch, len(rows)):
                rows = []
        if not rows:  # batch and solver keep their size
            self._live = live
            return
        copy_factor = self.batch.kernels.copy
        gone = [start for start in self._rows if start not in live]
        for start in gone:
            Wt, H = self._factors_of(start)
            self._aside[start] = copy_factor(Wt), copy_factor(H)
        self._kept |= dict(zip(gone, self._solver_states(gone), strict=True))
        self.batch.forget_products()  # makes room for those of the smaller batch
        batch, solver = self.batch.select(rows), copy(self._solver)
        assert solver is not None
        solver.select(batch, rows)
        self.batch, self._solver, self._rows, self._live = batch, solver, live, live
        self._solver_starts = live

    def _check_limits(self) -> None:
        reason = self.limits.reason()
        for start in self._live:
            record = self._records[start]
            if len(record.steps) >= self.limits.max_iter:
                record.status = Status.MAX_ITER
            else:
                record.status = reason
        self._leave({i for i in self._live if self._records[i].status is not None})


def _stacked(states: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Arrays of single starts as arrays of a batch."""
    return {name: np.stack([state[name] for state in states]) for name in states[0]}


def _layout(arrays: dict[str, np.ndarray]) -> dict[str, str]:
    return {name: f"{array.dtype}{array.shape}" for name, array in arrays.items()}


def _ended(record: _Record) -> Status:
    assert record.status is not None, "the loop has not ended"
    return record.status
