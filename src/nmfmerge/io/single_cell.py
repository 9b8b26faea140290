"""AnnData files: cells × genes, with the names of both; a sparse matrix stays sparse."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nmfmerge.arguments.errors import Given, Message
from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.io.build import build
from nmfmerge.io.errors import FormatError, library
from nmfmerge.io.hdf5 import tree_size
from nmfmerge.io.hdf5_heap import check_heaps
from nmfmerge.io.memory import Memory

RAW = "raw"  # the layer that is .raw of an AnnData, unless one of its layers has that name


def read_h5ad(path: Path, memory: Memory, layer: str | None = None) -> Dataset:
    """Read X, a layer or .raw of an .h5ad file; nothing else of the file is loaded."""
    read_elem = library("anndata.io", ".h5ad", "anndata", "single-cell").read_elem
    h5py = library("h5py", ".h5ad", "h5py", "single-cell")
    check_heaps(path)
    with h5py.File(path, "r") as file:
        place = place_of(path, file, layer)
        memory.needs(tree_size(path, file, (place, "obs", _genes_of(place))))
        X = read_elem(file[place])
        cells, genes = names_of(file, place)
        others = _layers(file)
        if X is None:
            raise _no_X(path, file)
    if layer is None and others and is_negative(X):
        raise FormatError(
            Message(
                "X of {path} has negative values, as after sc.pp.scale, and NMF needs nonnegative "
                "ones: read the counts, or their logarithms, with {first}{others}",
                path=path,
                first=Given("layer", others[0]),
                others="".join(f" or {name!r}" for name in others[1:]),
            )
        )
    return build(path, X, cells, genes, memory=memory)


def place_of(path: Path, file: Any, layer: str | None) -> str:
    """Where X, a layer or .raw is in an open .h5ad file."""
    if not {"obs", "var"} <= set(file):
        raise FormatError(f"{path} is not an AnnData file: write it with anndata's write_h5ad")
    if layer is not None and layer not in _layers(file):
        known = ", ".join(_layers(file)) or "none"
        raise FormatError(f"{path} has no layer {layer!r}: choose one of its layers ({known})")
    if layer is None and "X" not in file:
        raise _no_X(path, file)
    if layer == RAW and RAW not in file.get("layers", ()):
        return f"{RAW}/X"
    return "X" if layer is None else f"layers/{layer}"


def names_of(file: Any, place: str) -> tuple[Axis, Axis]:
    """The cells and the genes of X, a layer or .raw of an open .h5ad file."""
    read_elem = library("anndata.io", ".h5ad", "anndata", "single-cell").read_elem
    cells, genes = (_index(file[key], read_elem) for key in ("obs", _genes_of(place)))
    return Axis("cell", cells), Axis("gene", genes)


def is_negative(X: Any) -> bool:
    """True if a matrix, dense or sparse, has negative values."""
    values = X.data if sp.issparse(X) else np.asarray(X)
    return bool(values.dtype.kind in "fi" and values.size and (values < 0).any())


def _genes_of(place: str) -> str:
    """Where the genes of a matrix are; .raw has its own, often more."""
    return f"{RAW}/var" if place == f"{RAW}/X" else "var"


def _layers(file: Any) -> list[str]:
    """The allowed values of ``layer``: the layers, and "raw" for .raw."""
    layers = set(file.get("layers", ()))
    has_raw = RAW in file and {"X", "var"} <= set(file[RAW])
    return sorted(layers | {RAW} if has_raw else layers)


def _no_X(path: Path, file: Any) -> FormatError:
    known = ", ".join(_layers(file)) or "none"
    return FormatError(
        Message(
            "{path} has no X: choose one of its layers ({known}) with {layer=}",
            path=path,
            known=known,
        )
    )


def _index(frame: Any, read_elem: Callable[[Any], Any]) -> np.ndarray:
    """The names of the rows of a stored data frame, whose other columns are not read."""
    if "_index" in frame.attrs:
        return np.array(read_elem(frame[frame.attrs["_index"]]), dtype=np.str_)
    return np.array(read_elem(frame).index, dtype=np.str_)  # of an early version
