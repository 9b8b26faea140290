"""The progress bar of a command, from reading the file to writing the folder."""

from nmfmerge.consensus.engine import FIT_STAGES
from nmfmerge.ranks.alternatives import AROUND
from nmfmerge.solvers.progress import MERGED, PLAIN, ProgressBar, path_stages, section_stages

STANDARD = "standard NMF, to compare"


def fit_bar(merges: bool, compares: bool, draws: bool, streams: bool = False) -> ProgressBar:
    """The bar of a fit, with what is computed, compared and drawn after it."""
    plan = {"reading": 4.0, "compiling": 6.0} | section_stages(
        "", MERGED if merges else PLAIN, 60.0
    )
    if streams:
        plan["factors"] = 6.0
    if compares:
        plan |= section_stages(STANDARD, PLAIN, 12.0) if merges else {}
        plan |= section_stages(AROUND, PLAIN, 6.0)
    return ProgressBar(plan | _last(draws))


def demo_bar() -> ProgressBar:
    """The bar of the demonstration: both methods, other ranks, and the report."""
    plan = {"compiling": 10.0}
    plan |= section_stages("standard NMF", PLAIN, 30.0) | section_stages("NMF-Merge", MERGED, 40.0)
    plan |= section_stages(AROUND, PLAIN, 6.0)
    return ProgressBar(plan | _last(True))


def path_bar(n_max: int, n_min: int, stability: bool, draws: bool, n_masks: int = 0) -> ProgressBar:
    """The bar of a path through all ranks."""
    path = section_stages("", path_stages(n_max, n_min, stability, n_masks), 80.0)
    return ProgressBar({"reading": 4.0, "compiling": 6.0} | path | _last(draws))


def consensus_bar(draws: bool) -> ProgressBar:
    """The bar of many fits at several ranks."""
    return ProgressBar({"reading": 4.0, "compiling": 6.0} | FIT_STAGES | _last(draws))


def merge_bar() -> ProgressBar:
    """The bar of merging an existing fit."""
    return ProgressBar({"reading": 4.0} | section_stages("", PLAIN, 80.0) | _last(True))


def _last(draws: bool) -> dict[str, float]:
    return {"drawing": 12.0 if draws else 0.0, "writing": 2.0}
