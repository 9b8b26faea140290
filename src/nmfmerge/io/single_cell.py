"""AnnData files: cells × genes, with the names of both; a sparse matrix stays sparse."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.io.build import build
from nmfmerge.io.errors import FormatError, library
from nmfmerge.io.hdf5 import tree_size
from nmfmerge.io.hdf5_heap import check_heaps
from nmfmerge.io.memory import Memory


def read_h5ad(path: Path, memory: Memory, layer: str | None = None) -> Dataset:
    """Read X, or a layer, of an .h5ad file; nothing else of the file is loaded."""
    read_elem = library("anndata.io", ".h5ad", "anndata", "single-cell").read_elem
    h5py = library("h5py", ".h5ad", "h5py", "single-cell")
    check_heaps(path)
    with h5py.File(path, "r") as file:
        place = place_of(path, file, layer)
        memory.needs(tree_size(path, file, (place, "obs", "var")))
        X = read_elem(file[place])
        cells, genes = names_of(file)
        if X is None:
            raise _no_X(path, file)
    return build(path, X, cells, genes, memory=memory)


def place_of(path: Path, file: Any, layer: str | None) -> str:
    """Where X, or a layer, is in an open .h5ad file."""
    if not {"obs", "var"} <= set(file):
        raise FormatError(f"{path} is not an AnnData file: write it with anndata's write_h5ad")
    if layer is not None and layer not in _layers(file):
        known = ", ".join(_layers(file)) or "none"
        raise FormatError(f"{path} has no layer {layer!r}: choose one of its layers ({known})")
    if layer is None and "X" not in file:
        raise _no_X(path, file)
    return "X" if layer is None else f"layers/{layer}"


def names_of(file: Any) -> tuple[Axis, Axis]:
    """The cells and the genes of an open .h5ad file."""
    read_elem = library("anndata.io", ".h5ad", "anndata", "single-cell").read_elem
    cells, genes = (_index(file[key], read_elem) for key in ("obs", "var"))
    return Axis("cell", cells), Axis("gene", genes)


def _layers(file: Any) -> list[str]:
    return sorted(file["layers"]) if "layers" in file else []


def _no_X(path: Path, file: Any) -> FormatError:
    known = ", ".join(_layers(file)) or "none"
    return FormatError(f"{path} has no X: choose one of its layers ({known}) with layer=")


def _index(frame: Any, read_elem: Callable[[Any], Any]) -> np.ndarray:
    """The names of the rows of a stored data frame, whose other columns are not read."""
    if "_index" in frame.attrs:
        return np.array(read_elem(frame[frame.attrs["_index"]]), dtype=np.str_)
    return np.array(read_elem(frame).index, dtype=np.str_)  # of an early version
