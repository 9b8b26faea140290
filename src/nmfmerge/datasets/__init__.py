"""Data to try things on: generated with their ground truth, and loaders of real data sets.

Generated data need no network and no files. The loaders read files that are not part of this
package: see `nmfmerge.datasets.real`.
"""

from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.datasets.examples import gaussian_features, paper_example
from nmfmerge.datasets.lcms import lcms_like
from nmfmerge.datasets.melody import melody
from nmfmerge.datasets.real import (
    load_brca21,
    load_ca_mouse,
    load_cbcl,
    load_lcms,
    load_mhll,
    load_orl,
    load_pbmc3k,
    load_pf1,
    load_samson,
    load_swimmer,
    load_tdt2,
)

__all__ = [
    "Axis",
    "Dataset",
    "gaussian_features",
    "lcms_like",
    "load_brca21",
    "load_ca_mouse",
    "load_cbcl",
    "load_lcms",
    "load_mhll",
    "load_orl",
    "load_pbmc3k",
    "load_pf1",
    "load_samson",
    "load_swimmer",
    "load_tdt2",
    "melody",
    "paper_example",
]
