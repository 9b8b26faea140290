"""NumPy's own files: .npy with one array, .npz with named arrays or one SciPy sparse matrix."""

from pathlib import Path
from zipfile import is_zipfile

import numpy as np
import scipy.sparse as sp

from nmfmerge.datasets.base import Dataset
from nmfmerge.io.build import build, choose
from nmfmerge.io.errors import FormatError

_SPARSE = {"format", "shape", "data"}


def read_npy(path: Path) -> Dataset:
    """Read the array of a .npy file."""
    if is_zipfile(path):
        raise FormatError(f"{path} is an archive of arrays: rename it to .npz")
    with path.open("rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise FormatError(f"{path} is not a NumPy array: check its suffix, or use np.save")
        file.seek(0)
        return build(path, np.load(file, allow_pickle=False))


def read_npz(path: Path, variable: str | None = None) -> Dataset:
    """Read an array of a .npz file, or the matrix that `scipy.sparse.save_npz` stored."""
    if not is_zipfile(path):
        raise FormatError(f"{path} is not a complete .npz archive: write it again with np.savez")
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        if not set(archive.files) >= _SPARSE:
            name = choose(path, dict.fromkeys(archive.files), variable)
            return build(path, archive[name])
        if variable is not None:
            raise FormatError(f"{path} holds one sparse matrix: leave out variable={variable!r}")
        file.seek(0)
        return build(path, sp.load_npz(file))
