"""Kill workers of a cluster at random steps of a fit: does it finish, as well, and what is lost?"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import dask
import dask.array as da
import distributed
import numpy as np

from nmfmerge import nmf_merge
from nmfmerge.matrices.dask.cluster import Cluster

ROWS, COLUMNS, R, CHUNK = 8_000, 40, 5, 500
TOL = 1e-6


@dataclass(frozen=True)
class Disturbed:
    """The outcome of a fit during which a worker was killed."""

    step: int  # at which it was killed
    finished: bool
    difference: float  # of the objective, relative to that of an undisturbed fit
    seconds_lost: float


def data() -> Any:
    """A Dask array of mixtures of few components, with noise."""
    rng = np.random.default_rng(0)
    X = rng.random((ROWS, R)) ** 8 @ rng.random((R, COLUMNS)) ** 8
    X += 0.02 * rng.random((ROWS, COLUMNS))
    return da.from_array(X, chunks=(CHUNK, -1))


@contextmanager
def steps(at: int = -1, action: Any = None) -> Iterator[list[float]]:
    """Note when each step of a fit is under way, and do something at one of them."""
    submit, begun = Cluster._submit, []

    def noted(self: Any, *args: Any) -> Any:
        tasks = submit(self, *args)
        begun.append(time.perf_counter())
        if len(begun) == at + 1:
            action()
        return tasks

    Cluster._submit = noted  # type: ignore[method-assign]
    try:
        yield begun
    finally:
        Cluster._submit = submit  # type: ignore[method-assign]


def fit(X: Any) -> tuple[float, float]:
    """Objective and seconds."""
    began = time.perf_counter()
    return nmf_merge(X, R, tol=TOL, random_state=0).objective, time.perf_counter() - began


def disturbed(n_runs: int, seed: int = 0) -> Iterator[Disturbed]:
    """Fits of which each loses a worker, at a random step."""
    rng, X = np.random.default_rng(seed), data()
    left = n_runs
    while left > 0:
        with _cluster() as client:
            fit(X)  # imports and compiles
            with steps() as begun:
                objective, seconds = fit(X)
            while left > 0 and _has_two(client):
                yield _disturbed(client, X, int(rng.integers(len(begun))), objective, seconds)
                left -= 1


@contextmanager
def _cluster() -> Iterator[Any]:
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def _has_two(client: Any) -> bool:
    """Wait for a nanny to start another worker; sometimes it does not, and all restart."""
    try:
        client.wait_for_workers(2, timeout=5)
    except TimeoutError:
        return False
    return True


def _disturbed(
    client: Any, X: Any, step: int, objective: float, seconds: float
) -> Disturbed:  # fmt: skip
    pid = list(client.run(os.getpid).values())[step % 2]
    with steps(step, lambda: os.kill(pid, signal.SIGKILL)):
        try:
            reached, took = fit(X)
        except Exception as error:
            print(f"step {step}: {type(error).__name__}: {error}", file=sys.stderr)
            return Disturbed(step, False, np.nan, np.nan)
    found = Disturbed(step, True, reached / objective - 1, took - seconds)
    print(
        f"killed at step {step}: objective differs by {found.difference:.1e}, "
        f"{found.seconds_lost:.1f} s lost of {took:.1f}", flush=True,
    )  # fmt: skip
    return found


def faults(n_runs: int = 20) -> list[dict[str, Any]]:
    """Fits during which a worker is killed, at a random step, as the operating system would."""
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):
        found = list(disturbed(n_runs))
    done = [run for run in found if run.finished]
    lost = [run.seconds_lost for run in done]
    return [
        {
            "fits": n_runs, "finished": len(done),
            "largest difference of the objective": max(abs(run.difference) for run in done),
            "seconds lost, median": median(lost), "most": max(lost),
        }
    ]  # fmt: skip
