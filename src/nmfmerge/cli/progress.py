"""The line that shows how far a fit is: stage, starts, iteration, error, step, time."""

import sys
from collections.abc import Collection
from dataclasses import dataclass
from time import monotonic
from typing import TextIO

from nmfmerge.solvers import Progress

_SECONDS = 0.2  # from one line to the next


@dataclass(frozen=True)
class Seen:
    """How far one start was when it was last looked at."""

    iteration: int
    fitting_error: float
    step: float
    done: bool

    @classmethod
    def of(cls, progress: Progress) -> "Seen":
        """What a callback gets, which is valid only until it returns."""
        done = progress.step <= progress.tol
        return cls(progress.iteration, progress.fitting_error, progress.step, done)


class LiveLine:
    """A callback that rewrites one line of a terminal; silent where there is no terminal.

    Parameters
    ----------
    stream : stream, optional
        Where to write; default stderr.
    n_starts : int
        Number of starts that are carried through together.
    """

    def __init__(self, stream: TextIO | None = None, n_starts: int = 1) -> None:
        self.stream = stream or sys.stderr
        self.shown = self.stream.isatty()
        self.n_starts = n_starts
        self._stage = ""
        self._seen: dict[int, Seen] = {}  # of this stage, by start
        self._look_at: dict[int, float] = {}  # when to look at each start again
        self._next = 0.0

    def __call__(self, progress: Progress) -> None:
        """Look at a start if it is time, or if it is done; show all starts if it is time."""
        if not self.shown:
            return
        now = monotonic()
        if progress.stage != self._stage:
            self._stage, self._seen = progress.stage, {}
        if now >= self._look_at.get(progress.start, 0.0) or progress.step <= progress.tol:
            self._look_at[progress.start] = now + _SECONDS
            self._seen[progress.start] = Seen.of(progress)
        if now >= self._next and self._seen:
            self._next = now + _SECONDS
            self.stream.write(f"\r{line(progress, self._seen.values(), self.n_starts)}\x1b[K")
            self.stream.flush()

    def clear(self) -> None:
        """Take the line away."""
        if self.shown:
            self.stream.write("\r\x1b[K")
            self.stream.flush()


def line(progress: Progress, seen: Collection[Seen], n_starts: int) -> str:
    """All starts in one line: the least error, and the largest step of those that go on."""
    running = [start for start in seen if not start.done] or list(seen)
    done = sum(start.done for start in seen)
    starts = f"{done} of {n_starts} starts done   " if n_starts > 1 else ""
    return (
        f"{progress.stage:<12} {starts}"
        f"iteration {max(start.iteration for start in seen):>6}   "
        f"error {min(start.fitting_error for start in seen):.5g} %   "
        f"step {max(start.step for start in running):.1e} of {progress.tol:.0e}   "
        f"{progress.seconds:.1f} s"
    )
