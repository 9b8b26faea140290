"""Data to try things on: generated, with their ground truth; no network and no files are needed.

`Dataset` and `Axis` are how all data come: a matrix, and what its rows and columns stand for.
"""

from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.datasets.examples import gaussian_features, paper_example
from nmfmerge.datasets.lcms import lcms_like
from nmfmerge.datasets.melody import melody
from nmfmerge.datasets.mutations import mutation_catalogue

__all__ = [
    "Axis",
    "Dataset",
    "gaussian_features",
    "lcms_like",
    "melody",
    "mutation_catalogue",
    "paper_example",
]
