"""Zarr stores, of format 2 or 3: one array, or one of a group."""

import math
from pathlib import Path
from typing import Any

from nmfmerge.datasets.base import Dataset
from nmfmerge.io.build import build, choose
from nmfmerge.io.errors import FormatError, library
from nmfmerge.io.memory import Memory
from nmfmerge.io.zarr_chunks import declared_sizes


def is_zarr(path: Path) -> bool:
    """Whether a folder is a Zarr store, by its name or by its metadata."""
    marks = (".zarray", ".zgroup", "zarr.json")
    return path.name.lower().endswith(".zarr") or any((path / mark).is_file() for mark in marks)


def read_zarr(
    path: Path, memory: Memory, variable: str | None = None, pixel_axes: Any = None
) -> Dataset:
    """Read an array of a Zarr store."""
    name, array = open_array(path, variable)
    X = _load(path / name, array, memory)
    return build(path, X, memory=memory, pixel_axes=pixel_axes)


def open_array(path: Path, variable: str | None) -> tuple[str, Any]:
    """The name of the array to read, empty where the store is one array, and the array itself."""
    zarr = library("zarr", ".zarr", "zarr", "hdf5")
    store = zarr.open(str(path), mode="r")
    if not hasattr(store, "arrays"):
        if variable is not None:
            raise FormatError(f"{path} holds one array: leave out variable={variable!r}")
        return "", store
    arrays = _arrays(store)
    shapes = {name: array.shape for name, array in arrays.items()}
    chosen = choose(path, shapes, variable.strip("/") if variable else None)
    return chosen, arrays[chosen]


def _load(folder: Path, array: Any, memory: Memory) -> Any:
    """The array, where it and each of its chunks fit into memory."""
    size = array.dtype.itemsize
    memory.needs(size * max(math.prod(array.shape), math.prod(array.chunks)))
    memory.needs(max(declared_sizes(folder, array), default=0))
    return array[...]


def _arrays(group: Any, prefix: str = "") -> dict[str, Any]:
    """Numeric arrays of a group and of the groups in it, by path."""
    found = {
        prefix + name: array
        for name, array in sorted(group.arrays(), key=lambda item: item[0])
        if getattr(array.dtype, "kind", "O") in "fiubc"
    }
    for name, inner in sorted(group.groups(), key=lambda item: item[0]):
        found |= _arrays(inner, f"{prefix}{name}/")
    return found
