"""The figures of a fit by name; those that a result has nothing for are left out."""

from collections.abc import Callable, Collection

from matplotlib.figure import Figure

from nmfmerge import plot
from nmfmerge.datasets.base import Dataset
from nmfmerge.result import Factorization
from nmfmerge.result_path import RankPath

Tick = Callable[[str], None]
# The page draws components and maps itself: they are many, and show values under the pointer.
FILES_ONLY = ("components", "maps")


def draw(
    result: Factorization,
    data: Dataset | None,
    path: RankPath | None = None,
    *,
    leave_out: Collection[str] = (),
    tick: Tick | None = None,
) -> dict[str, Figure]:
    """Draw every figure of a result, and of the path it was chosen from.

    Parameters
    ----------
    result, data, path : Factorization, Dataset or None, RankPath or None
        What to draw.
    leave_out : collection of str, optional
        Names of figures that are not wanted.
    tick : callable, optional
        Called with the name of each figure that was drawn.
    """
    wanted: dict[str, Callable[[], Figure]] = {"convergence": lambda: plot.convergence(result)}
    if result.n_components:
        wanted["components"] = lambda: plot.components(result, data)
    if data is not None and result.n_components and _has_pictures(data):
        wanted["maps"] = lambda: plot.maps(result, data)
    if data is not None and data.X is not None:
        wanted["reconstruction"] = lambda: plot.reconstruction(result, data)
    if result.merges is not None and len(result.merges.pairs):
        wanted["merges"] = lambda: plot.merges(result)
    if result.generalized_singular_values.size:
        wanted["singular-values"] = lambda: plot.singular_values(result)
    if result.starts:
        wanted["starts"] = lambda: plot.starts(result)
    if path is not None:
        wanted["rank-path"] = lambda: plot.rank_path(path, result.n_components)
    drawn = {}
    for name, make in wanted.items():
        if name not in leave_out:
            drawn[name] = make()
            if tick is not None:
                tick(name)
    return drawn


def _has_pictures(data: Dataset) -> bool:
    return data.is_picture(data.rows) or data.is_picture(data.columns)
