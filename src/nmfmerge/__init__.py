"""Nonnegative matrix factorization that finds a better answer, and the same answer twice."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

from nmfmerge._version import __version__ as __version__

# Now, as their packages, once imported, would take the names:
from nmfmerge.consensus.start import consensus
from nmfmerge.explore.start import explore

if TYPE_CHECKING:  # what `__getattr__` imports when it is used
    from nmfmerge import datasets, metrics
    from nmfmerge import export as export
    from nmfmerge import io as io
    from nmfmerge import jobs as jobs
    from nmfmerge import plot as plot
    from nmfmerge import report as report
    from nmfmerge.api import merge_components, nmf, nmf_merge, recover_components, transform
    from nmfmerge.editor import Editor
    from nmfmerge.estimator import NMFMerge
    from nmfmerge.losses.merging import MergeTree
    from nmfmerge.matrices import DataReadError
    from nmfmerge.method.stop import Interrupted
    from nmfmerge.ranks.path import RankPath, rank_path
    from nmfmerge.results.consensus import Consensus, RankConsensus
    from nmfmerge.results.factorization import Factorization, Spread, Stage, Start
    from nmfmerge.solvers import Progress
    from nmfmerge.solvers.history import History, Status

_PACKAGES = {"datasets", "export", "io", "jobs", "metrics", "plot", "report"}
_PLACES = {
    "Consensus": "results.consensus",
    "DataReadError": "matrices",
    "Editor": "editor",
    "Factorization": "results.factorization",
    "History": "solvers.history",
    "Interrupted": "method.stop",
    "MergeTree": "losses.merging",
    "NMFMerge": "estimator",
    "Progress": "solvers",
    "RankConsensus": "results.consensus",
    "RankPath": "ranks.path",
    "Spread": "results.factorization",
    "Stage": "results.factorization",
    "Start": "results.factorization",
    "Status": "solvers.history",
    "merge_components": "api",
    "nmf": "api",
    "nmf_merge": "api",
    "rank_path": "ranks.path",
    "recover_components": "api",
    "transform": "api",
}


def __getattr__(name: str) -> _Any:
    if name in _PACKAGES:
        return _import_module(f"nmfmerge.{name}")
    if name in _PLACES:
        found = getattr(_import_module(f"nmfmerge.{_PLACES[name]}"), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module 'nmfmerge' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PACKAGES, *_PLACES})


__all__ = [
    "Consensus",
    "DataReadError",
    "Editor",
    "Factorization",
    "History",
    "Interrupted",
    "MergeTree",
    "NMFMerge",
    "Progress",
    "RankConsensus",
    "RankPath",
    "Spread",
    "Stage",
    "Start",
    "Status",
    "consensus",
    "datasets",
    "explore",
    "merge_components",
    "metrics",
    "nmf",
    "nmf_merge",
    "rank_path",
    "recover_components",
    "transform",
]
