"""Nonnegative matrix factorization that finds a better answer, and the same answer twice."""

from nmfmerge import datasets, metrics
from nmfmerge.editor import Editor
from nmfmerge.estimator import NMFMerge
from nmfmerge.explore import explore
from nmfmerge.merge import MergeTree
from nmfmerge.pipeline import merge_components, nmf, nmf_merge, recover_components, transform
from nmfmerge.ranks import RankPath, rank_path
from nmfmerge.result import Factorization, History, Spread, Stage, Start, Status
from nmfmerge.run import Interrupted
from nmfmerge.solvers import Progress

__version__ = "0.1.0"

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
