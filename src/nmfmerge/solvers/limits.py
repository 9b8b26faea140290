"""Limits of a run, and other reasons to end it early: the user's callback, Ctrl-C."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from nmfmerge.solvers.history import Status
from nmfmerge.solvers.progress import ProgressBar, is_live

Callback = Callable[[Any], object]  # called with a `Progress`


class Stopped(Exception):
    """Raised to leave a run that was stopped; ``status`` says why."""

    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status = status


class _Halt:
    """Set when a run is stopped; shared by all of its threads."""

    status: Status | None = None


@dataclass(frozen=True)
class Limits:
    """Limits of a run: iterations per stage, total time, user callback, verbosity."""

    max_iter: int = 10_000
    max_time: float | None = None
    callback: Callback | None = None
    verbose: int = 0
    bar: ProgressBar | None = None
    owns_bar: bool = False
    began: float = field(default_factory=perf_counter)
    _halt: _Halt = field(default_factory=_Halt)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Limits":
        """Limits from checked settings; a `ProgressBar` passed as callback becomes the bar."""
        callback, bar = given["callback"], None
        if isinstance(callback, ProgressBar):
            callback, bar = None, callback
        return cls(given["max_iter"], given["max_time"], callback, given["verbose"], bar)

    def with_bar(self, plan: Mapping[str, float]) -> "Limits":
        """A copy with a bar through these stages, where ``verbose=1`` asks for one."""
        if self.verbose != 1 or self.bar is not None or not is_live(sys.stderr):
            return self
        return replace(self, bar=ProgressBar(plan), owns_bar=True)

    @property
    def prints_stages(self) -> bool:
        """True if a line is printed after each stage: without a bar, or with high verbosity."""
        return self.verbose > 1 or (self.verbose == 1 and self.bar is None)

    def close_bar(self) -> None:
        """Remove the bar that was made for ``verbose=1``."""
        if self.bar is not None and self.owns_bar:
            self.bar.close()

    @property
    def watches(self) -> bool:
        """True if every iteration is reported to a callback or printed."""
        return self.callback is not None or self.verbose > 1

    def elapsed(self) -> float:
        """Seconds since the run began."""
        return perf_counter() - self.began

    def halt(self, status: Status) -> None:
        """Stop all threads of the run at their next check."""
        self._halt.status = status

    def reason(self) -> Status | None:
        """Why the run must stop now; None if it may continue."""
        if self._halt.status is None and self.max_time is not None:
            return Status.MAX_TIME if self.elapsed() >= self.max_time else None
        return self._halt.status

    def check(self) -> None:
        """Raise `Stopped` if the run must stop now."""
        if (status := self.reason()) is not None:
            raise Stopped(status)
