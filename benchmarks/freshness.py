"""Is a stored result older than the code it measures? Git knows."""

import subprocess
from pathlib import Path

from benchmarks.common import RESULTS, load

ROOT = Path(__file__).parents[1]
SOURCE = "src/nmfmerge"
_ITERATING = ("kernels", "solvers", "data")
_METHOD = (*_ITERATING, "init.py", "recover.py", "merge.py", "run.py", "beginning.py")
# What each folder or file of results measures, in the package.
MEASURES = {
    "cpu-2-cores": _ITERATING,
    "cpu-16-cores": _ITERATING,
    "dask": _ITERATING,
    "gpu": _ITERATING,
    "starts": _METHOD,
    "solvers": _METHOD,
    "path": (*_ITERATING, "rank_search.py", "recover.py", "merge.py"),
    "rank_choice": ("assessment.py", "residual.py", "rank_search.py"),
    "svd": ("data/svd.py",),
}


def names():
    """All stored results."""
    return sorted(str(p.relative_to(RESULTS).with_suffix("")) for p in RESULTS.rglob("*.json"))


def is_stale(name):
    """True if code that a result measures has changed since; None where Git cannot tell."""
    commit = load(name)["environment"]["commit"]
    if not commit or _git("cat-file", "-e", f"{commit}^{{commit}}") != 0:
        return None
    paths = [f"{SOURCE}/{part}" for part in MEASURES[name.split("/")[0]]]
    return _git("diff", "--quiet", commit, "--", *paths) != 0


def _git(*words):
    command = ["git", "-C", str(ROOT), *words]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode
    except FileNotFoundError:
        return -1


def remark(name):
    """What a page says under a table whose code has changed since; nothing else."""
    return "; the code has changed since then" if is_stale(name) else ""
