"""HDF5 files and MATLAB files, whose version 7.3 is HDF5 with the dimensions in reverse."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.io import loadmat

from nmfmerge.datasets.base import Dataset
from nmfmerge.io.build import build, choose
from nmfmerge.io.errors import FormatError, library

_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def read_hdf5(path: Path, variable: str | None = None) -> Dataset:
    """Read a dataset of an HDF5 file."""
    h5py = library("h5py", path.suffix, "h5py", "hdf5")
    with h5py.File(path, "r") as file:
        shapes: dict[str, tuple[int, ...]] = {}

        def note(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset) and item.dtype.kind in "fiubc":
                shapes[name] = item.shape

        file.visititems(note)
        chosen = choose(path, shapes, variable.strip("/") if variable else None)
        return build(path, file[chosen][()])


def read_mat(path: Path, variable: str | None = None) -> Dataset:
    """Read a matrix of a MATLAB file of any version."""
    if _is_hdf5(path):
        return _read_mat73(path, variable)
    arrays = {
        name: value
        for name, value in loadmat(path).items()
        if not name.startswith("__") and (sp.issparse(value) or value.dtype.kind in "fiubc")
    }
    shapes = {name: value.shape for name, value in arrays.items()}
    return build(path, arrays[choose(path, shapes, variable)])


def _is_hdf5(path: Path) -> bool:
    """Whether the HDF5 signature stands at the start, or after the 512 bytes that MATLAB writes."""
    with path.open("rb") as file:
        head = file.read(520)
    return head.startswith(_SIGNATURE) or head[512:] == _SIGNATURE


def _read_mat73(path: Path, variable: str | None) -> Dataset:
    h5py = library("h5py", "MATLAB 7.3 files", "h5py", "hdf5")
    with h5py.File(path, "r") as file:
        shapes: dict[str, tuple[int, ...]] = {}
        for name, item in file.items():
            if "MATLAB_sparse" in item.attrs:
                shapes[name] = (int(item.attrs["MATLAB_sparse"]), len(item["jc"]) - 1)
            elif isinstance(item, h5py.Dataset) and _is_numeric(item):
                shapes[name] = item.shape[::-1]
        chosen = choose(path, shapes, variable)
        item = file[chosen]
        if isinstance(item, h5py.Dataset):
            return build(path, item[()].T)
        return build(path, _sparse(path, item, shapes[chosen]))


def _is_numeric(item: Any) -> bool:
    kind = item.attrs.get("MATLAB_class", b"double")
    return item.dtype.kind in "fiub" and kind not in (b"char", b"cell", b"struct")


def _sparse(path: Path, item: Any, shape: tuple[int, ...]) -> Any:
    if not {"data", "ir"} <= set(item):
        if item["jc"][-1] == 0:  # MATLAB stores no entries for a matrix of zeros
            return sp.csc_matrix(shape)
        raise FormatError(f"{path} has a sparse matrix without its entries: save it again")
    indices, starts = item["ir"][()].astype(np.int64), item["jc"][()].astype(np.int64)
    return sp.csc_matrix((item["data"][()], indices, starts), shape=shape)
