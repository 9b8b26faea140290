"""Making many runs: in processes of one thread, in order, until all are made or the time is up.

Only the process that called writes to the store, so no run is lost when two end at once, and what is
stored is whole when processes are stopped.
"""

import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing import active_children, get_context

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.common import environment
from nmfmerge import nmf_merge
from reproduce.one_run import Made, make
from reproduce.runs import Run
from reproduce.sets import matrix
from reproduce.store import Store


def perform(
    runs: Iterable[Run],
    store: Store,
    jobs: int,
    *,
    keep_W: Collection[Run] = (),
    until: float = float("inf"),
) -> bool:
    """Make the runs that are not stored yet, showing progress; return whether all are made.

    Parameters
    ----------
    runs : the runs, the most valuable first.
    store : where those made are kept.
    jobs : int
        Processes. With one, runs count as made alone, and those made among others are made again.
    keep_W : the runs whose W is kept.
    until : float
        A moment of `time.monotonic` when to stop; a run that would not end by then is not begun, and
        one that has not ended is given up.
    """
    wanted = [
        run
        for run in dict.fromkeys(runs)
        if not store.has(run, alone=jobs == 1, factors=run in keep_W)
    ]
    if not wanted:
        return True
    print(f"{len(wanted)} runs to make, in {jobs} processes", file=sys.stderr)
    _compile_kernels(wanted)
    schedule = _Schedule(wanted)
    ours = set(active_children())
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), _begin_worker)  # no threads to inherit
    try:
        with _one_thread():
            _work_through(schedule, store, pool, jobs, keep_W, until)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(active_children()) - ours:
            child.terminate()
    left = sum(run in schedule.wanted for run in schedule.waiting) + len(schedule.running)
    if left:
        print(f"time is up; {left} runs are left", file=sys.stderr)
    return not left


class _Schedule:
    """Which run is next, what ended runs leave to those that go on from them, how long a kind takes."""

    def __init__(self, wanted: list[Run]) -> None:
        self.wanted = set(wanted)
        self.waiting = _with_what_they_go_on_from(wanted)
        self.running: dict[Future, tuple[Run, float]] = {}
        self._ended: dict[Run, Made] = {}
        self._followers = Counter(run.goes_on_from for run in self.waiting)
        self._cost: dict[tuple, float] = {}

    def next(self, seconds_left: float) -> tuple[Run, Made | None] | None:
        """Take the first run that can begin now and is likely to end in time.

        It comes with what was made of the run that it goes on from, if any.
        """
        for i, run in enumerate(self.waiting):
            source = run.goes_on_from
            ready = source is None or source in self._ended
            if ready and self._cost.get(run.kind, 0.0) < seconds_left:
                self.waiting.pop(i)
                return run, self._left_by(source)
        return None

    def _left_by(self, source: Run | None) -> Made | None:
        if source is None:
            return None
        self._followers[source] -= 1
        return self._ended[source] if self._followers[source] else self._ended.pop(source)

    def end(self, future: Future) -> Run:
        """Take out a run that ended; keep what was made while runs wait to go on from it."""
        run, began = self.running.pop(future)
        self._cost[run.kind] = max(self._cost.get(run.kind, 0.0), time.monotonic() - began)
        if self._followers[run]:
            self._ended[run] = future.result()
        return run


def _with_what_they_go_on_from(wanted: list[Run]) -> list[Run]:
    """Put the standard run before runs that go on from it, also one whose record is stored."""
    ordered: dict[Run, None] = {}
    for run in wanted:
        if run.goes_on_from is not None:
            ordered[run.goes_on_from] = None
        ordered[run] = None
    return list(ordered)


def _work_through(
    schedule: _Schedule,
    store: Store,
    pool: ProcessPoolExecutor,
    jobs: int,
    keep_W: Collection[Run],
    until: float,
) -> None:
    began, done = time.monotonic(), 0
    machine = environment() | {"threads": 1, "jobs": jobs}
    while True:
        left = until - time.monotonic()
        while len(schedule.running) < jobs and (chosen := schedule.next(left)):
            schedule.running[pool.submit(make, *chosen)] = chosen[0], time.monotonic()
        if not schedule.running:
            return
        timeout = None if until == float("inf") else max(0.0, left)
        ended, _ = wait(schedule.running, timeout, FIRST_COMPLETED)
        if not ended:
            return
        for future in ended:
            made = future.result()
            run = schedule.end(future)
            if run not in schedule.wanted:
                continue
            store.put(run, made.record, machine, made.W if run in keep_W else None)
            done += 1
            print(
                f"[{done}/{len(schedule.wanted)}] {time.monotonic() - began:.0f} s  {run}: "
                f"{made.record['error']:.5g} %, {made.record['seconds']:.3g} s",
                file=sys.stderr,
            )


def _begin_worker() -> None:
    warnings.simplefilter("ignore")  # whether a run converged is in its record
    threadpool_limits(1)


def _compile_kernels(runs: list[Run]) -> None:
    """Fill Numba's cache, so that the processes find machine code and do not all compile at once."""
    small = matrix("melody")
    kinds = {(run.solver, type(matrix(run.data))) for run in runs if run.method != "sklearn"}
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # a few iterations do not converge
        for solver, container in kinds:
            X = small if container is np.ndarray else container(small)
            nmf_merge(X, 2, n_extra=1, solver=solver, init="random", random_state=0, max_iter=30)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Tell the libraries that processes begun from here will load to use one thread."""
    names = [f"{name}_NUM_THREADS" for name in ("OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM")]
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
