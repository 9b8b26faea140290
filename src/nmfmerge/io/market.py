"""Matrix Market files, plain or gzipped: sparse ones become CSR."""

from pathlib import Path

from scipy.io import mmread

from nmfmerge.datasets.base import Dataset
from nmfmerge.io.build import build


def read_mtx(path: Path) -> Dataset:
    """Read a Matrix Market file."""
    return build(path, mmread(str(path)))
