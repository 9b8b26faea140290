"""Starts on all cores, and fits on a machine that is busy: wall and processor seconds."""

import json
import os
import shutil
import subprocess
import sys
import time
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.common import print_rows, run_parts
from nmfmerge import nmf_merge
from nmfmerge.datasets import lcms_like
from reproduce.sets import SETS, matrix

STARTS = {"mhll": 32, "wt15": 32, "ko15": 32, "pf1": 32, "cbcl": 16}
_QUOTA = Path("/sys/fs/cgroup/nmfmerge-benchmark")
GENERATED = "generated LC-MS run, 400 × 600, r = 17"


def main(*names):
    """Run all parts, or those named, print them, and store each by the number of cores."""
    warnings.simplefilter("ignore")
    run_parts((starts, busy, at_once, limited), names, f"cores-{os.cpu_count()}")


def starts():
    """`nmf_merge` from many random starts, on one thread and on all."""
    rows = []
    for name, n_init in STARTS.items():
        X, r = matrix(name), SETS[name].rank
        with threadpool_limits(1, user_api="blas"):
            one = min(_fit(X, r, n_init, init="random") for _ in range(2))
        wall, processor = min(_fit(X, r, n_init, init="random") for _ in range(2))
        rows.append({
            "data": name, "components": r, "starts": n_init, "one thread (s)": one[0],
            "all cores (s)": wall, "times faster": one[0] / wall,
            "processor, one thread (s)": one[1], "processor (s)": processor,
        })  # fmt: skip
        print_rows(rows[-1:])
    return rows


def busy(repeats=5):
    """A fit alone, on one thread, and beside a busy loop for each core; medians."""
    X = lcms_like().X
    rows = []
    for n_init in (1, 4, 32):
        row = {"data": GENERATED, "starts": n_init}
        with threadpool_limits(1, user_api="blas"):
            row |= _median("one thread", X, n_init, repeats)
        row |= _median("alone", X, n_init, repeats)
        command = [sys.executable, "-c", "while 1: 0"]
        loops = [subprocess.Popen(command) for _ in range(os.cpu_count())]
        try:
            row |= _median("busy", X, n_init, repeats)
        finally:
            for loop in loops:
                loop.kill()
        rows.append(row)
    return rows


_FITS = """
import json, sys
from benchmarks.cores import _fit
from nmfmerge.datasets import lcms_like
X, n_init, options = lcms_like().X, int(sys.argv[1]), json.loads(sys.argv[2])
_fit(X, 17, n_init, **options)
print("ready", flush=True)
sys.stdin.readline()
times = [_fit(X, 17, n_init, **options) for _ in range(5)]
print(*(sum(column) / 5 for column in zip(*times)))
"""


def at_once(n=8):
    """Eight processes that fit at the same time: the mean fit of each, the fastest and slowest."""
    rows = []
    for n_init in (1, 4, 32):
        wall, processor = _mean_fits(n_init, n)
        rows.append({
            "data": GENERATED, "starts": n_init, "fits at once": n, "fastest (s)": wall.min(),
            "slowest (s)": wall.max(), "processor (s)": processor.mean(),
        })  # fmt: skip
    return rows


def limited():
    """32 starts where a process may use 2 cores only: by `n_jobs`, by affinity, by a CPU quota."""
    ways = {"n_jobs=2": {"options": {"n_jobs": 2}}}
    if shutil.which("taskset"):
        ways["taskset"] = {"prefix": ("taskset", "--cpu-list", "0,1")}
    rows = []
    with _quota(2) as join:
        if join:
            ways["CPU quota of a cgroup"] = {"prefix": join}
        for name, way in ways.items():
            (wall,), (processor,) = _mean_fits(32, **way).tolist()
            rows.append(
                {"limited by": name, "starts": 32, "wall (s)": wall, "processor (s)": processor}
            )
    return rows


@contextmanager
def _quota(n):
    """Context with a control group of n cores: a command that joins it, or none without groups.

    Groups of version 1 are not used: there the same files would be made, and limit nothing.
    """
    own, controllers = _QUOTA, _QUOTA.parent / "cgroup.subtree_control"
    try:
        (own.parent / "cgroup.controllers").read_text()
        shared = "cpu" in controllers.read_text().split()
        controllers.write_text("+cpu")
        own.mkdir(exist_ok=True)
    except OSError:
        yield ()
        return
    try:
        (own / "cpu.max").write_text(f"{n}00000 100000")
        yield "sh", "-c", f'echo $$ > {own}/cgroup.procs && exec "$@"', "sh"
    finally:
        with suppress(OSError):  # in use by others
            own.rmdir()  # its processes have ended
            if not shared:
                controllers.write_text("-cpu")


def _mean_fits(n_init, n=1, prefix=(), options=None):
    """Wall and processor seconds of a mean fit in each of n processes that fit at the same time."""
    command = [*prefix, sys.executable, "-c", _FITS, str(n_init), json.dumps(options or {})]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(n)
    ]
    for process in processes:
        process.stdout.readline()
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    return np.array([process.communicate()[0].split() for process in processes], float).T


def _median(name, X, n_init, repeats):
    _fit(X, 17, n_init)
    wall, processor = np.median([_fit(X, 17, n_init) for _ in range(repeats)], axis=0).tolist()
    return {f"{name} (s)": wall, f"{name}, processor (s)": processor}


def _fit(X, r, n_init, **options):
    """Wall and processor seconds of one call."""
    began = time.perf_counter(), time.process_time()
    nmf_merge(X, r, n_init=n_init, **options)
    return time.perf_counter() - began[0], time.process_time() - began[1]
