"""The figures of a fit by name; those that a result has nothing for are left out."""

from collections.abc import Callable, Collection
from typing import Any

from matplotlib.figure import Figure

from nmfmerge import plot
from nmfmerge.datasets.base import Dataset
from nmfmerge.fields.images import has_pictures
from nmfmerge.results.consensus import Consensus
from nmfmerge.results.factorization import Factorization
from nmfmerge.results.rank_path import RankPath

Tick = Callable[[str], None]
# The page draws components and maps itself: they are many, and show values under the pointer.
FILES_ONLY = ("components", "maps")


def draw(
    result: Factorization,
    data: Dataset | None,
    path: RankPath | None = None,
    consensus: Consensus | None = None,
    *,
    leave_out: Collection[str] = (),
    weights: Any = None,
    missing: str = "nan",
    tick: Tick | None = None,
) -> dict[str, Figure]:
    """Draw every figure of a result, and of the path or the consensus it was chosen from.

    Parameters
    ----------
    result, data, path, consensus : Factorization, and Dataset, RankPath, Consensus or None
        What to draw.
    leave_out : collection of str, optional
        Names of figures that are not wanted.
    weights, missing
        Of the entries of X; see `nmf`.
    tick : callable, optional
        Called with the name of each figure that was drawn.
    """
    wanted: dict[str, Callable[[], Figure]] = {}
    if any(stage.n_iter for stage in result.stages):
        wanted["convergence"] = lambda: plot.convergence(result)
    if result.n_components:
        wanted["components"] = lambda: plot.components(result, data)
    if data is not None and result.n_components and has_pictures(data):
        wanted["maps"] = lambda: plot.maps(result, data)
    if data is not None and data.X is not None:
        wanted["reconstruction"] = lambda: plot.reconstruction(
            result, data, weights=weights, missing=missing
        )
    if result.merges is not None and len(result.merges.pairs):
        wanted["merges"] = lambda: plot.merges(result)
    if result.generalized_singular_values.size:
        wanted["singular-values"] = lambda: plot.singular_values(result)
    if result.starts:
        wanted["starts"] = lambda: plot.starts(result)
    if path is not None:
        wanted["rank-path"] = lambda: plot.rank_path(path, result.n_components)
    if consensus is not None:
        wanted["consensus"] = lambda: plot.consensus(consensus)
        at = consensus.at(result.n_components) if result.n_components in consensus else None
        if at is not None and at.components is not None:
            wanted["clustergram"] = lambda: plot.clustergram(at)
    drawn = {}
    for name, make in wanted.items():
        if name not in leave_out:
            drawn[name] = make()
            if tick is not None:
                tick(name)
    return drawn
