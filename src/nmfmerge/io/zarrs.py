"""Zarr stores, of format 2 or 3: one array, or one of a group, with its coordinates."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.arguments.errors import Given, Message
from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.io.build import build, choose
from nmfmerge.io.errors import FormatError, library
from nmfmerge.io.memory import Memory
from nmfmerge.io.zarr_chunks import declared_sizes

_NUMBERS, _TEXT = "fiubc", "UT"  # kinds of dtypes; objects are not read


def is_zarr(path: Path) -> bool:
    """True if a folder is a Zarr store, by its name or by its metadata."""
    marks = (".zarray", ".zgroup", "zarr.json")
    return path.name.lower().endswith(".zarr") or any((path / mark).is_file() for mark in marks)


def read_zarr(
    path: Path, memory: Memory, variable: str | None = None, pixel_axes: Any = None
) -> Dataset:
    """Read an array of a Zarr store."""
    found = open_array(path, variable)
    X = _load(path / found.name, found.array, memory)
    return build(path, X, *axes_of(path, found, memory), memory=memory, pixel_axes=pixel_axes)


@dataclass(frozen=True)
class Found:
    """The array to read of a store, by its name (empty where it is all of the store).

    The ``coordinates`` are arrays along one named dimension, as xarray writes them, by their path
    in the store; one with the name of a dimension has the values of that axis.
    """

    name: str
    array: Any
    coordinates: dict[str, Any] = field(default_factory=dict)


def open_array(path: Path, variable: str | None) -> Found:
    """Find the array to read."""
    zarr = library("zarr", ".zarr", "zarr", "hdf5")
    store = zarr.open(str(path), mode="r")
    if not hasattr(store, "arrays"):
        if variable is not None:
            raise FormatError(
                Message(
                    "{path} holds one array: leave out {given}",
                    path=path,
                    given=Given("variable", variable),
                )
            )
        return Found("", store)
    arrays = _arrays(store)
    coordinates = {name: one for name, one in arrays.items() if len(_dimensions(one)) == 1}
    matrices = {name: one for name, one in arrays.items() if one.dtype.kind in _NUMBERS}
    if variable is None:
        matrices = {name: one for name, one in matrices.items() if name not in coordinates}
    shapes = {name: array.shape for name, array in matrices.items()}
    chosen = choose(path, shapes, variable.strip("/") if variable else None)
    return Found(chosen, arrays[chosen], coordinates)


def axes_of(path: Path, found: Found, memory: Memory) -> list[Axis | None]:
    """The kinds of the rows and columns of an array, if its dimensions have names."""
    dimensions = _dimensions(found.array)
    if len(dimensions) != 2:
        return [None, None]
    group = found.name.rpartition("/")[0]
    axes: list[Axis | None] = []
    for dimension, length in zip(dimensions, found.array.shape, strict=True):
        place = f"{group}/{dimension}".lstrip("/")
        coordinate = found.coordinates.get(place)
        if coordinate is None or coordinate.shape != (length,):
            axes.append(Axis(dimension, np.arange(length)))
            continue
        values = _load(path / place, coordinate, memory)
        unit = str(coordinate.attrs.get("units", ""))
        text = values.dtype.kind not in _NUMBERS
        axes.append(Axis(dimension, values.astype(np.str_) if text else values, unit))
    return axes


def _dimensions(array: Any) -> list[str]:
    """Names of the dimensions, as format 3 or xarray in format 2 stores them; none if not all."""
    names = getattr(array.metadata, "dimension_names", None)
    names = array.attrs.get("_ARRAY_DIMENSIONS") if names is None else names
    fits = isinstance(names, list | tuple) and len(names) == len(array.shape)
    return list(names) if fits and all(name and isinstance(name, str) for name in names) else []


def _load(folder: Path, array: Any, memory: Memory) -> Any:
    """The array, where it and each of its chunks fit into memory."""
    size = array.dtype.itemsize
    memory.needs(size * max(math.prod(array.shape), math.prod(array.chunks)))
    memory.needs(max(declared_sizes(folder, array), default=0))
    return array[...]


def _arrays(group: Any, prefix: str = "") -> dict[str, Any]:
    """Arrays of numbers and of text in a group and in the groups in it, by path."""
    found = {
        prefix + name: array
        for name, array in sorted(group.arrays(), key=lambda item: item[0])
        if getattr(array.dtype, "kind", "O") in _NUMBERS + _TEXT
    }
    for name, inner in sorted(group.groups(), key=lambda item: item[0]):
        found |= _arrays(inner, f"{prefix}{name}/")
    return found
