"""Work that takes a while: in a thread of its own, with progress, and a way to stop it."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

from nmfmerge.solvers.history import StageName

_SECONDS = 0.2  # between two reports of progress


class Job:
    """One piece of work, as the page shows it."""

    def __init__(self, title: str, changed: Callable[[], None]) -> None:
        self.title = title
        self.progress = ""
        self.began = monotonic()
        self._changed = changed
        self._stop = threading.Event()
        self._next = 0.0

    @property
    def cancelled(self) -> bool:
        """True if the user asked it to stop."""
        return self._stop.is_set()

    @property
    def seconds(self) -> float:
        """Time since it began."""
        return monotonic() - self.began

    def cancel(self) -> None:
        """Ask it to stop; what it has reached is kept."""
        self._stop.set()
        self._changed()

    def __call__(self, progress: Any) -> bool:
        """Take the progress of a solver; the answer stops it where the user has cancelled."""
        if monotonic() >= self._next:
            self._next = monotonic() + _SECONDS
            stage = "" if progress.stage == StageName.FINAL else f"{progress.stage} components, "
            self.report(f"{stage}iteration {progress.iteration}")
        return self.cancelled

    def report(self, progress: str) -> None:
        """Show how far the work is."""
        self.progress = progress
        self._changed()


class Worker:
    """One thread that does one thing after the other."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="nmfmerge-explore")

    def submit(self, function: Callable[[], None]) -> None:
        """Queue a function that handles its own errors."""
        self._pool.submit(function)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until all that was queued so far is done."""
        self._pool.submit(lambda: None).result(timeout)

    def close(self) -> None:
        """Accept no more work; finish what is running."""
        self._pool.shutdown(wait=False, cancel_futures=True)
