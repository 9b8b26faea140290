"""Figures of a factorization: each function returns a new matplotlib `Figure` to save or show.

Nothing here touches pyplot or any other global state. Components are numbered from 1, in the
order of the columns of W. Given a `Dataset`, figures carry its axes; without one, plain indices.
"""

from collections.abc import Callable, Mapping

from matplotlib.figure import Figure

from nmfmerge.plot.comparison import comparison
from nmfmerge.plot.components import components
from nmfmerge.plot.consensus import clustergram, consensus
from nmfmerge.plot.convergence import convergence
from nmfmerge.plot.maps import maps
from nmfmerge.plot.merges import merges
from nmfmerge.plot.paired_starts import paired_starts
from nmfmerge.plot.rank_path import rank_path
from nmfmerge.plot.reconstruction import reconstruction
from nmfmerge.plot.signatures import signatures
from nmfmerge.plot.singular_values import singular_values
from nmfmerge.plot.starts import starts
from nmfmerge.plot.usages import sample_usages, usage_maps

FIGURES: Mapping[str, Callable[..., Figure]] = {  # of a Factorization, by name
    function.__name__: function
    for function in (
        components, maps, reconstruction, convergence, starts, merges, singular_values, comparison,
    )
}  # fmt: skip

__all__ = [
    "clustergram",
    "comparison",
    "components",
    "consensus",
    "convergence",
    "maps",
    "merges",
    "paired_starts",
    "rank_path",
    "reconstruction",
    "sample_usages",
    "signatures",
    "singular_values",
    "starts",
    "usage_maps",
]
