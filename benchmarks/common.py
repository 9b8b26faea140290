"""Data, timing and storage for all benchmarks."""

import json
import os
import platform
import subprocess
import time
from datetime import date
from importlib.metadata import version
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_info

from nmfmerge import datasets

RESULTS = Path(__file__).parent / "results"

# name: (rank, how to scale what is in the file)
REAL = {
    "mhll": (3, lambda X: X),
    "lcms_wt15": (17, lambda X: X / X.max()),
    "lcms_ko15": (23, lambda X: X / X.max()),
    "pf1": (13, lambda X: X),
    "cbcl": (49, lambda X: (X + 1) / 256),
    "orl": (25, lambda X: X / 255),
}
SPARSE = {"pbmc3k": 10, "tdt2": 20}


def data_folder():
    """The folder of the real data, or None."""
    folder = os.environ.get("NMFMERGE_DATA")
    return Path(folder) if folder and Path(folder).is_dir() else None


def dense_sets(names=None):
    """Yield name, X, rank of the paper's data sets, or of generated ones where there are none."""
    folder = data_folder()
    if folder is None:
        for data in (datasets.lcms_like(), datasets.melody()):
            if names is None or data.name in names:
                yield data.name, data.X, data.n_components
        return
    for name, (rank, scale) in REAL.items():
        if names is None or name in names:
            yield name, scale(np.load(folder / f"{name}.npz")["X"].astype(np.float64)), rank


def sparse_sets():
    """Yield name, X, rank of the sparse data sets; nothing without the data folder."""
    folder = data_folder()
    if folder is not None:
        for name, rank in SPARSE.items():
            yield name, sp.load_npz(folder / f"{name}_sparse.npz").astype(np.float64), rank


def fastest(contenders, repeats=5, seconds=0.2):
    """Time functions by turns; return the least seconds of one call of each.

    Each turn repeats a call for about ``seconds``, and contenders alternate, so that a slow spell
    of the machine hits all of them.
    """
    counts = {}
    for name, function in contenders.items():
        function()
        began = time.perf_counter()
        function()
        counts[name] = max(1, int(seconds / max(time.perf_counter() - began, 1e-6)))
    best = dict.fromkeys(contenders, np.inf)
    for _ in range(repeats):
        for name, function in contenders.items():
            began = time.perf_counter()
            for _ in range(counts[name]):
                function()
            best[name] = min(best[name], (time.perf_counter() - began) / counts[name])
    return best


def geometric_mean(values):
    """Geometric mean of positive numbers."""
    return float(np.exp(np.mean(np.log(list(values)))))


def environment():
    """What a published number needs beside it."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    return {
        "date": date.today().isoformat(),
        "commit": commit,
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "blas": [f"{pool['internal_api']} {pool['version']}" for pool in threadpool_info()],
        "threads": [pool["num_threads"] for pool in threadpool_info()],
        **{name: version(name) for name in ("nmfmerge", "numpy", "scipy", "numba", "scikit-learn")},
    }


def _cpu_name():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def store(name, content):
    """Write one benchmark's result with its environment."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"environment": environment(), **content}, indent=1) + "\n")


def load(name):
    """Read one benchmark's stored result, or None."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None
