"""The figures of a page, by name; those that a result has nothing for are left out."""

from matplotlib.figure import Figure

from nmfmerge import plot
from nmfmerge.datasets.base import Dataset
from nmfmerge.result import Factorization
from nmfmerge.result_path import RankPath


def draw(
    result: Factorization, data: Dataset | None, path: RankPath | None = None
) -> dict[str, Figure]:
    """Draw every figure of a result, and of the path it was chosen from."""
    drawn = {"convergence": plot.convergence(result)}
    if result.n_components:
        drawn["components"] = plot.components(result, data)
    if data is not None and data.X is not None:
        drawn["reconstruction"] = plot.reconstruction(result, data)
    if result.merges is not None and len(result.merges.pairs):
        drawn["merges"] = plot.merges(result)
    if result.generalized_singular_values.size:
        drawn["singular-values"] = plot.singular_values(result)
    if result.starts:
        drawn["starts"] = plot.starts(result)
    if path is not None:
        drawn["rank-path"] = plot.rank_path(path, result.n_components)
    return drawn
