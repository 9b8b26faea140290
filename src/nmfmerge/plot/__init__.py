"""Figures of a factorization: each function returns a new matplotlib `Figure` to save or show.

Nothing here touches pyplot or any other global state. Components are numbered from 1, in the
order of the columns of W. Given a `Dataset`, figures carry its axes; without one, plain indices.
"""

from nmfmerge.plot.comparison import comparison
from nmfmerge.plot.components import components
from nmfmerge.plot.convergence import convergence
from nmfmerge.plot.maps import maps
from nmfmerge.plot.merges import merges
from nmfmerge.plot.paired_starts import paired_starts
from nmfmerge.plot.rank_path import rank_path
from nmfmerge.plot.reconstruction import reconstruction
from nmfmerge.plot.singular_values import singular_values
from nmfmerge.plot.starts import starts

__all__ = [
    "comparison",
    "components",
    "convergence",
    "maps",
    "merges",
    "paired_starts",
    "rank_path",
    "reconstruction",
    "singular_values",
    "starts",
]
