"""Making many runs: in processes of one thread, in order, until all are made or the time is up.

Only the process that called writes to the store, so no run is lost when two end at once, and what is
stored is whole when processes are stopped.
"""

import os
import shutil
import sys
import time
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from threading import Thread

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.common import environment
from nmfmerge import nmf_merge
from reproduce.one_run import Made, make
from reproduce.runs import Run, identity
from reproduce.sets import SETS, matrix
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
        A moment of `time.monotonic` when to stop. A run that would not end by then is not begun, and
        one that has not ended is given up; but runs on large data leave a checkpoint, from which
        the next call goes on (not those made alone, whose times count).
    """
    wanted = missing(runs, store, jobs, keep_W)
    if not wanted or time.monotonic() >= until:
        return not wanted
    print(f"{len(wanted)} runs to make, in {jobs} processes", file=sys.stderr)
    _compile_kernels(wanted)
    checkpoints = store.path.with_name(store.path.name + ".unfinished") if jobs > 1 else None
    schedule = _Schedule(wanted, checkpoints)
    ours = set(active_children())
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), _begin_worker)  # no threads to inherit
    try:
        with _one_thread():
            _work_through(schedule, store, pool, jobs, keep_W, until)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(active_children()) - ours:
            child.terminate()
            child.join()
    left = sum(run in schedule.wanted for run in schedule.waiting) + len(schedule.running)
    if left:
        print(f"time is up; {left} runs are left", file=sys.stderr)
    elif checkpoints:
        shutil.rmtree(checkpoints, ignore_errors=True)
    return not left


def missing(
    runs: Iterable[Run], store: Store, jobs: int | None = None, keep_W: Collection[Run] = ()
) -> list[Run]:
    """The runs that are not stored in the required form: made alone if there is one job, some with W."""
    return [
        run
        for run in dict.fromkeys(runs)
        if not store.has(run, alone=jobs == 1, factors=run in keep_W)
    ]


class _Schedule:
    """Which run is next, what ended runs leave to those that go on from them, how long a kind takes."""

    def __init__(self, wanted: list[Run], checkpoints: Path | None = None) -> None:
        self._checkpoints = checkpoints
        if checkpoints:
            checkpoints.mkdir(exist_ok=True)
        self.wanted = set(wanted)
        self.waiting = with_what_they_go_on_from(wanted)
        self.running: dict[Future, tuple[Run, float]] = {}
        self._ended: dict[Run, Made] = {}
        self._followers = Counter(run.goes_on_from for run in self.waiting)
        self._cost: dict[tuple, float] = {}

    def next(self, seconds_left: float) -> tuple[Run, Made | None] | None:
        """Take the first run that can begin now and is likely to end in time.

        If there is none, the first that can go on another time from its checkpoint. It comes with
        what was made of the run that it goes on from, if any.
        """
        long = None
        for i, run in enumerate(self.waiting):
            source = run.goes_on_from
            if source is None or source in self._ended:
                if self._cost.get(run.kind, 0.0) < seconds_left:
                    return self._take(i)
                if long is None and self.checkpoint(run):
                    long = i
        return None if long is None or seconds_left <= 0 else self._take(long)

    def checkpoint(self, run: Run) -> Path | None:
        """Where a run keeps its state, if it is long enough for that to be worth its while."""
        if self._checkpoints is None or not SETS[run.data].large or run.method == "sklearn":
            return None
        return self._checkpoints / f"{identity(run)}.npz"

    def _take(self, i: int) -> tuple[Run, Made | None]:
        run = self.waiting.pop(i)
        return run, self._left_by(run.goes_on_from)

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
        elif (file := self.checkpoint(run)) is not None:
            file.unlink(missing_ok=True)  # that of a run with followers stays until they are made
        return run


def with_what_they_go_on_from(wanted: list[Run]) -> list[Run]:
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
            run, standard = chosen
            future = pool.submit(make, run, standard, schedule.checkpoint(run))
            schedule.running[future] = run, time.monotonic()
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
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End when the process that began this one is killed; its results would be lost."""
    parent_process().join()
    os._exit(1)


def _compile_kernels(runs: list[Run]) -> None:
    """Fill Numba's cache, so that the processes find machine code and do not all compile at once."""
    small = matrix("melody")
    kinds = {(run.solver, type(matrix(run.data))) for run in runs if run.method != "sklearn"}
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # a few iterations do not converge
        for solver, container in kinds:
            X = small if container is np.ndarray else container(small)
            nmf_merge(
                X, 2, n_extra=1, n_init=1, solver=solver, init="random", random_state=0, max_iter=30
            )


@contextmanager
def _one_thread() -> Iterator[None]:
    """Set the libraries of new processes to one thread."""
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
