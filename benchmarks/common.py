"""Data, timing and storage for all benchmarks."""

import json
import os
import platform
import subprocess
import time
from contextlib import nullcontext
from datetime import date
from importlib.metadata import version
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info

import nmfmerge
from nmfmerge import datasets
from reproduce import real

RESULTS = Path(__file__).parent / "results"

DENSE = (
    real.load_mhll,
    lambda: real.load_lcms("wt15"),
    lambda: real.load_lcms("ko15"),
    real.load_pf1,
    real.load_cbcl,
    real.load_orl,
)
GENERATED = (datasets.lcms_like, datasets.melody)
MORE = (real.load_samson, real.load_ca_mouse)
SPARSE = (real.load_pbmc3k, real.load_tdt2)


def has_real_data():
    """True if the folder of the real data exists."""
    return Path(os.environ.get("NMFMERGE_DATA", "/nonexistent")).is_dir()


def dense_sets(names=None):
    """Yield name, X, rank of the paper's data sets, or of generated ones where there are none."""
    for load_set in DENSE if has_real_data() else GENERATED:
        data = load_set()
        if names is None or data.name in names:
            yield data.name, data.X, data.n_components


def more_sets():
    """Yield name, X, rank of dense data sets that the paper does not have."""
    return _real_sets(MORE)


def sparse_sets():
    """Yield name, X, rank of the sparse data sets."""
    return _real_sets(SPARSE)


def _real_sets(loaders):
    """Nothing without the data folder."""
    for load_set in loaders if has_real_data() else ():
        data = load_set()
        yield data.name, data.X, data.n_components


def fastest(contenders, repeats=5, seconds=0.2, contexts=None):
    """Time functions by turns; return the least seconds of one call of each.

    Each turn repeats a call for about ``seconds``, and contenders alternate, so that a slow spell
    of the machine hits all of them. A turn of a contender named in ``contexts`` is within the
    context that the function there makes.
    """
    contexts = contexts or {}
    counts, best = {}, dict.fromkeys(contenders, np.inf)
    for turn in range(-1, repeats):
        for name, function in contenders.items():
            with contexts.get(name, nullcontext)():
                if turn < 0:
                    function()
                began = time.perf_counter()
                for _ in range(counts.get(name, 1)):
                    function()
                took = (time.perf_counter() - began) / counts.get(name, 1)
            if turn < 0:
                counts[name] = max(1, int(seconds / max(took, 1e-6)))
            else:
                best[name] = min(best[name], took)
    return best


def run_parts(parts, names, folder, **more):
    """Run all parts, or those named: print each, and store it in a folder of the results."""
    for part in parts:
        if names and part.__name__ not in names:
            continue
        print(f"\n{part.__name__}: {part.__doc__.splitlines()[0]}", flush=True)
        began = time.perf_counter()
        rows = part()
        print_rows(rows)
        print(f"{time.perf_counter() - began:.1f} s", flush=True)
        store(f"{folder}/{part.__name__}", {**more, "rows": rows})


def print_rows(rows):
    """Print a list of dictionaries as an aligned table."""
    header = list(rows[0])
    cells = [[_text(row.get(key)) for key in header] for row in rows]
    widths = [max(len(line[i]) for line in [header, *cells]) for i in range(len(header))]
    for line in [header, *cells]:
        print("  ".join(word.rjust(width) for word, width in zip(line, widths, strict=True)))


def _text(value):
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def geometric_mean(values):
    """Geometric mean of positive numbers."""
    return float(np.exp(np.mean(np.log(list(values)))))


def environment():
    """The environment to publish with a number."""
    return {
        "date": date.today().isoformat(),
        "commit": _commit(),
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "blas": [f"{pool['internal_api']} {pool['version']}" for pool in threadpool_info()],
        "threads": [pool["num_threads"] for pool in threadpool_info()],
        "nmfmerge": nmfmerge.__version__,
        **{name: version(name) for name in ("numpy", "scipy", "numba", "scikit-learn")},
    }


def _commit():
    """The commit of the working tree, or nothing where Git or its history is not there."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        return ""


def _cpu_name():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def store(name, content):
    """Write one benchmark's result with its environment."""
    path = RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"environment": environment(), **content}, indent=1) + "\n")


def load(name):
    """Read one benchmark's stored result, or None."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None
