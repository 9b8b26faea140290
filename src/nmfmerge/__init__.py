"""Nonnegative matrix factorization that finds a better answer, and the same answer twice."""

from importlib import import_module as _import_module
from types import ModuleType as _ModuleType

from nmfmerge import datasets, metrics
from nmfmerge._version import __version__ as __version__
from nmfmerge.data import Unreadable
from nmfmerge.editor import Editor
from nmfmerge.estimator import NMFMerge
from nmfmerge.explore import explore
from nmfmerge.merge import MergeTree
from nmfmerge.pipeline import merge_components, nmf, nmf_merge, recover_components, transform
from nmfmerge.ranks import RankPath, rank_path
from nmfmerge.result import Factorization, History, Spread, Stage, Start, Status
from nmfmerge.run import Interrupted
from nmfmerge.solvers import Progress

_LAZY = ("export", "io", "plot", "report")  # imported when they are used


def __getattr__(name: str) -> _ModuleType:
    if name in _LAZY:
        return _import_module(f"nmfmerge.{name}")
    raise AttributeError(f"module 'nmfmerge' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


__all__ = [
    "Editor",
    "Factorization",
    "History",
    "Interrupted",
    "MergeTree",
    "NMFMerge",
    "Progress",
    "RankPath",
    "Spread",
    "Stage",
    "Start",
    "Status",
    "Unreadable",
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
