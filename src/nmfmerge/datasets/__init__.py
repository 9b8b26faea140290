"""Data to try things on: generated, with their ground truth; no network and no files are needed."""

from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.datasets.examples import gaussian_features, paper_example
from nmfmerge.datasets.lcms import lcms_like
from nmfmerge.datasets.melody import melody

__all__ = [
    "Axis",
    "Dataset",
    "gaussian_features",
    "lcms_like",
    "melody",
    "paper_example",
]
