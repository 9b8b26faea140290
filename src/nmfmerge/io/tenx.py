"""Counts of 10x Genomics, as Cell Ranger writes them: cells × genes, with the symbols of genes.

They come as a folder (matrix.mtx, barcodes.tsv and features.tsv, or genes.tsv of old versions) or
as an HDF5 file (the group "matrix", or a group for each genome in old versions).
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nmfmerge.arguments.errors import Given, Message
from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.io.build import build, choose
from nmfmerge.io.errors import FormatError, ReadingWarning, library
from nmfmerge.io.hdf5 import load, read_hdf5, tree_size
from nmfmerge.io.hdf5_heap import check_heaps
from nmfmerge.io.market import load_mtx
from nmfmerge.io.memory import Memory
from nmfmerge.io.names import make_unique, read_lines

_GENES = "Gene Expression"
_PARTS = {"barcodes", "data", "indices", "indptr", "shape"}


def is_10x(path: Path) -> bool:
    """True if a folder was written by Cell Ranger."""
    return _file(path, "matrix.mtx") is not None


def read_10x(path: Path, memory: Memory, feature_type: str | None = None) -> Dataset:
    """Read a folder of Cell Ranger."""
    barcodes = read_lines(_needed(path, "barcodes.tsv"), memory)
    features = read_lines(_needed(path, "features.tsv", "genes.tsv"), memory)
    X = load_mtx(_needed(path, "matrix.mtx"), memory)
    symbols = [cells[min(1, len(cells) - 1)] if cells else "" for cells in features]
    types = [cells[2] if len(cells) > 2 else _GENES for cells in features]
    cells = [line[0] if line else "" for line in barcodes]
    X = sp.csr_matrix(X.T) if sp.issparse(X) else X.T
    return _cells_by_genes(path, X, cells, symbols, types, feature_type, memory)


def read_h5(
    path: Path,
    memory: Memory,
    variable: str | None = None,
    pixel_axes: Any = None,
    feature_type: str | None = None,
) -> Dataset:
    """Read an HDF5 file: counts of Cell Ranger where it holds them, or one of its datasets."""
    h5py = library("h5py", path.suffix, "h5py", "hdf5")
    check_heaps(path)
    with h5py.File(path, "r") as file:
        groups = groups_of_counts(file)
        if groups and (variable is None or variable.strip("/") in groups) and pixel_axes is None:
            chosen = choose(path, dict.fromkeys(groups), variable and variable.strip("/"))
            return _read_counts(path, file, chosen, feature_type, memory)
    if feature_type is not None:
        raise FormatError(
            Message(
                "{path} holds no counts of 10x Genomics: leave out {given}",
                path=path,
                given=Given("feature_type", feature_type),
            )
        )
    return read_hdf5(path, memory, variable, pixel_axes)


def groups_of_counts(file: Any) -> list[str]:
    """The groups of an open HDF5 file that hold counts of Cell Ranger."""
    return [name for name in file if set(_members(file, name)) >= _PARTS]


def _read_counts(
    path: Path, file: Any, chosen: str, feature_type: str | None, memory: Memory
) -> Dataset:
    """Read the counts of a group of an open HDF5 file."""
    memory.needs(2 * tree_size(path, file, (chosen,)))
    group = file[chosen]
    parts = {name: load(path, group[name], memory) for name in _PARTS}
    n_genes, n_cells = (int(length) for length in parts["shape"])
    X = sp.csr_matrix((parts["data"], parts["indices"], parts["indptr"]), shape=(n_cells, n_genes))
    symbols, types = _features(path, group, memory)
    return _cells_by_genes(path, X, _texts(parts["barcodes"]), symbols, types, feature_type, memory)


def _features(path: Path, group: Any, memory: Memory) -> tuple[list[str], list[str]]:
    """Symbols and types, of new and of old files."""
    if "features" not in group:
        symbols = _texts(load(path, group["gene_names"], memory))
        return symbols, [_GENES] * len(symbols)
    features = group["features"]
    symbols = _texts(load(path, features["name"], memory))
    if "feature_type" not in features:
        return symbols, [_GENES] * len(symbols)
    return symbols, _texts(load(path, features["feature_type"], memory))


def _cells_by_genes(
    path: Path,
    X: Any,
    cells: list[str],
    symbols: list[str],
    types: list[str],
    feature_type: str | None,
    memory: Memory,
) -> Dataset:
    """Dataset of the features of one type, with names for all."""
    if X.shape != (len(cells), len(symbols)) or len(types) != len(symbols):
        raise FormatError(
            f"{path} has {X.shape[0]} cells and {X.shape[1]} features with {len(cells)} barcodes "
            f"and {len(symbols)} names: copy all of its files again"
        )
    kept, note = _chosen(path, np.array(types), feature_type)
    if not kept.all():
        X = X[:, np.flatnonzero(kept)]
    genes = make_unique(np.array(symbols, dtype=object)[kept].tolist())
    return build(
        path,
        X,
        Axis("cell", np.array(cells, dtype=np.str_)),
        Axis("gene", np.array(genes, dtype=np.str_)),
        memory=memory,
        description=note,
    )


def _chosen(path: Path, types: np.ndarray, feature_type: str | None) -> tuple[np.ndarray, str]:
    """A mask of the features that are kept, and a note on those that are not."""
    found = sorted(set(types.tolist()))
    if feature_type == "all" or (feature_type is None and _GENES not in found):
        return np.ones(len(types), dtype=bool), ""
    kept = types == (feature_type or _GENES)
    if not kept.any():
        raise FormatError(
            Message(
                "{path} has no features of {given}: choose one of {found}, or all",
                path=path,
                given=Given("feature_type", feature_type),
                found=", ".join(found),
            )
        )
    others = [name for name in found if name != (feature_type or _GENES)]
    if not others:
        return kept, ""
    note = f"{int((~kept).sum())} features that are {' or '.join(others)} were left out"
    if feature_type is None:
        warnings.warn(
            ReadingWarning(
                Message(
                    "{path}: {note}; choose them with {first}, or keep them with {all}",
                    path=path,
                    note=note,
                    first=Given("feature_type", others[0]),
                    all=Given("feature_type", "all"),
                )
            ),
            stacklevel=2,
        )
    return kept, note


def _file(folder: Path, *names: str) -> Path | None:
    files = (folder / f"{name}{end}" for name in names for end in ("", ".gz"))
    return next((file for file in files if file.is_file()), None)


def _needed(folder: Path, *names: str) -> Path:
    file = _file(folder, *names)
    if file is None:
        raise FormatError(
            f"{folder} has no {' or '.join(names)} beside its matrix: copy the whole folder again"
        )
    return file


def _members(file: Any, name: str) -> Any:
    """Names in a group of the file itself; nothing for links elsewhere and for datasets."""
    link = file.get(name, getlink=True)
    item = file[name] if type(link).__name__ == "HardLink" else None
    return item if hasattr(item, "keys") else ()


def _texts(values: np.ndarray) -> list[str]:
    return [
        value.decode("utf-8") if isinstance(value, bytes) else str(value)
        for value in values.tolist()
    ]
