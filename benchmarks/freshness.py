"""Is a stored result older than the code it measures? Git knows."""

import subprocess
from functools import cache
from pathlib import Path

from benchmarks.common import RESULTS, load

ROOT = Path(__file__).parents[1]
SOURCE = "src/nmfmerge"
_ITERATING = ("backends", "matrices", "solvers")
_METHOD = (*_ITERATING, "losses", "method")
# The parts of the package that each folder or file of results measures.
MEASURES = {
    "cpu-2-cores": _ITERATING,
    "cpu-16-cores": _ITERATING,
    "cores-2": _METHOD,
    "cores-16": _METHOD,
    "dask": _ITERATING,
    "gpu": _ITERATING,
    "starts": _METHOD,
    "solvers": _METHOD,
    "path": (*_ITERATING, "losses", "ranks"),
    "rank_choice": ("ranks", "results/assessment.py"),
    "kl": _METHOD,
    "missing": (*_METHOD, "inputs"),
    "programs": (*_METHOD, "consensus", "jobs"),
    "signatures": (*_METHOD, "consensus", "jobs"),
    "svd": ("matrices/svd.py",),
}


def names():
    """All stored results."""
    return sorted(str(p.relative_to(RESULTS).with_suffix("")) for p in RESULTS.rglob("*.json"))


def is_stale(name):
    """True if code that a result measures is not that of its commit; None where Git cannot tell."""
    commit = load(name)["environment"]["commit"]
    if not commit or not _has_whole_history():
        return None
    if _git("cat-file", "-e", f"{commit}^{{commit}}") != 0:
        return True  # of a history that was not published
    paths = [f"{SOURCE}/{part}" for part in MEASURES[name.split("/")[0]]]
    return _git("diff", "--quiet", commit, "--", *paths) != 0


@cache
def _has_whole_history():
    """True in a clone that has all commits; not in an unpacked archive."""
    return _git("rev-parse", "HEAD") == 0 and not (ROOT / ".git" / "shallow").exists()


def _git(*words):
    command = ["git", "-C", str(ROOT), *words]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode
    except FileNotFoundError:
        return -1


def remark(name):
    """The remark under a table whose code has changed since; empty otherwise."""
    return "; the code has changed since then" if is_stale(name) else ""
