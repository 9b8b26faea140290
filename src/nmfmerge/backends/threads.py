"""Threads: work shared with those of our own that are idle.

Kernels and BLAS release Python's lock, so plain threads suffice; they sleep when idle. A thread
that shares its work does as much of it as it can, and waits only for parts that another thread has
begun. So on a busy machine it never waits for a thread that is not running. However many fits share
these threads, no more of them work at a time than there are cores, and no more for one fit than its
team has.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

from nmfmerge.backends.blas import blas
from nmfmerge.backends.teams import Team, available_threads, in_team, present_team
from nmfmerge.machine import cores

_IN_A_ROW = 64  # parts: after so many, Ctrl-C is looked for

_T = TypeVar("_T")
_U = TypeVar("_U")


class _Job:
    """Numbered parts of some work; each is done once, by whichever thread comes for it first."""

    def __init__(
        self, part: Callable[[int], object], n: int, on_interrupt: Callable[[], object]
    ) -> None:
        self._part, self._on_interrupt = part, on_interrupt
        self.team = present_team()
        self._left = iter(range(n))
        self._lock = Lock()
        self._helpers = 0
        self._closed = False
        self._finished = Lock()  # held until the last helper is done
        self._finished.acquire()
        self._error: BaseException | None = None

    def help(self) -> None:
        """Do parts, in a thread of the pool; an error is kept for the thread that waits."""
        with self._lock:
            if self._closed:
                return
            self._helpers += 1
        try:
            with in_team(self.team):
                self._work()
        except BaseException as error:
            self._error = error
        finally:
            with self._lock:
                self._helpers -= 1
                if self._closed and self._helpers == 0:
                    self._finished.release()

    def run(self) -> None:
        """Do parts, and wait for the helpers."""
        try:
            self._work()
        except BaseException:
            self._on_interrupt()
            raise
        finally:
            with self._lock:
                self._closed = True
                helped = self._helpers > 0
            if helped:
                self.wait()
        if self._error is not None:
            raise self._error

    def wait(self) -> None:
        """Wait for the helpers, even after Ctrl-C: no thread may write to a factor afterwards."""
        interrupt = None
        while True:
            try:
                self._finished.acquire()
                break
            except KeyboardInterrupt as error:
                interrupt = error
                self._left = iter(())
                self._on_interrupt()
        if interrupt is not None:
            raise interrupt

    def _work(self) -> None:
        try:
            for i in self._left:
                self._part(i)
        except BaseException:
            self._left = iter(())
            raise


class _Pool:
    """Threads that wait for jobs, one less than cores."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[_Job] = SimpleQueue()
        self._lock = Lock()
        self.idle = cores() - 1
        for i in range(self.idle):
            Thread(target=self._serve, name=f"nmfmerge-{i}", daemon=True).start()

    def idle_in(self, team: Team | None) -> int:
        """How many threads may help a team."""
        in_team = self.idle if team is None else team.idle
        return max(0, min(in_team, self.idle, self.idle + 1 - blas().fits))  # a core for each fit

    def offer(self, job: _Job, n: int) -> None:
        """Ask up to ``n`` idle threads to help."""
        with self._lock:
            n = min(n, self.idle_in(job.team))
            self._add_idle(-n, job.team)
        for _ in range(n):
            self._queue.put(job)

    def _serve(self) -> None:
        while True:
            job = self._queue.get()
            job.help()
            with self._lock:
                self._add_idle(+1, job.team)
            del job  # which refers to the work

    def _add_idle(self, n: int, team: Team | None) -> None:
        self.idle += n
        if team is not None:
            team.add_idle(n)


@cache
def _pool() -> _Pool:
    return _Pool()


def _after_fork() -> None:
    _pool.cache_clear()  # threads do not survive a fork


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def alone() -> Iterator[None]:
    """Let this thread work without others, and BLAS too: the others have work of their own."""
    with in_team(Team(1, present_team())), one_blas_thread():
        yield


def one_blas_thread() -> Any:
    """Context in which BLAS has one thread: products are shared by our own."""
    return blas().one()


def share(
    part: Callable[[int], object],
    n: int,
    threads: int | None = None,
    on_interrupt: Callable[[], object] = lambda: None,
) -> None:
    """Call ``part(i)`` for every i below n, by this thread and those that are idle.

    After an error or Ctrl-C in this thread, ``on_interrupt`` asks long parts to end early.
    """
    threads = min(n, available_threads() if threads is None else threads)
    if threads < 2:
        for i in range(n):
            part(i)
        return
    job = _Job(part, n, on_interrupt)
    _pool().offer(job, threads - 1)
    job.run()


def share_ranges(work: Callable[[int, int], object], n: int) -> None:
    """Call ``work(first, last)`` for ranges that cover 0 to n: single parts where threads are idle.

    Elsewhere many in a row, because a long call without Python's lock holds up the other threads
    less than many short ones.
    """
    if n > 1 and available_threads() > 1 and _pool().idle_in(present_team()) > 0:
        share(lambda i: work(i, i + 1), n)
        return
    for first in range(0, n, _IN_A_ROW):
        work(first, min(first + _IN_A_ROW, n))


def of_each(function: Callable[[_T], _U], items: Sequence[_T]) -> list[_U]:
    """``function`` of each item, by several threads."""
    results: list[Any] = [None] * len(items)

    def part(i: int) -> None:
        results[i] = function(items[i])

    share(part, len(items))
    return results


def in_threads(kernel: Callable[..., None], bounds: Sequence[int], *arguments: Any) -> None:
    """Call ``kernel(*arguments, first, last)`` for shares between bounds, or for all at once."""
    share_ranges(lambda i, j: kernel(*arguments, bounds[i], bounds[j]), len(bounds) - 1)
