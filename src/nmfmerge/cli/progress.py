"""The line that shows how far a fit is: stage, iteration, error, step, time."""

import sys
from time import monotonic
from typing import TextIO

from nmfmerge.solvers import Progress

_SECONDS = 0.2  # from one line to the next


class LiveLine:
    """A callback that rewrites one line of a terminal; silent where there is no terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.shown = self.stream.isatty()
        self._next = 0.0

    def __call__(self, progress: Progress) -> None:
        """Show an iteration, if it is time."""
        if self.shown and monotonic() >= self._next:
            self._next = monotonic() + _SECONDS
            self.stream.write(f"\r{line(progress)}\x1b[K")
            self.stream.flush()

    def clear(self) -> None:
        """Take the line away."""
        if self.shown:
            self.stream.write("\r\x1b[K")
            self.stream.flush()


def line(progress: Progress) -> str:
    """One iteration in one line."""
    return (
        f"{progress.stage:<12} iteration {progress.iteration:>6}   "
        f"error {progress.fitting_error:.5g} %   step {progress.step:.1e} of {progress.tol:.0e}   "
        f"{progress.seconds:.1f} s"
    )
