"""HDF5 files: one of their datasets. Links to other files are not followed."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nmfmerge.datasets.base import Dataset
from nmfmerge.io.build import build, choose
from nmfmerge.io.errors import FormatError, library
from nmfmerge.io.hdf5_heap import check_heaps
from nmfmerge.io.memory import Memory

_TEXT = 64  # bytes of a string in memory, beside its letters
_DEEPEST = 32  # groups within groups


def read_hdf5(
    path: Path, memory: Memory, variable: str | None = None, pixel_axes: Any = None
) -> Dataset:
    """Read a dataset of an HDF5 file."""
    h5py = library("h5py", path.suffix, "h5py", "hdf5")
    check_heaps(path)
    with h5py.File(path, "r") as file:
        X = load(path, file[choose_dataset(path, file, variable)], memory)
        return build(path, X, memory=memory, pixel_axes=pixel_axes)


def choose_dataset(path: Path, file: Any, variable: str | None) -> str:
    """The name of the dataset to read of an open HDF5 file."""
    h5py = library("h5py", path.suffix, "h5py", "hdf5")
    shapes: dict[str, tuple[int, ...]] = {}

    def note(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.dtype.kind in "fiubc":
            shapes[name] = item.shape

    file.visititems(note)  # which does not follow links to other files
    variable = variable.strip("/") if variable else None
    if not shapes or (variable and variable not in shapes):
        refuse_links(path, file, [variable] if variable else file)
    return choose(path, shapes, variable)


def load(path: Path, dataset: Any, memory: Memory) -> Any:
    """The values of a dataset that stands in the file itself and fits into memory."""
    memory.needs(dataset_size(path, dataset))
    return dataset[()]


def tree_size(path: Path, file: Any, places: Iterable[str]) -> int:
    """Bytes of all datasets below some places of a file, none of which may be elsewhere."""
    return sum(_tree_size(path, file, place, 0) for place in places)


def _tree_size(path: Path, group: Any, name: str, depth: int) -> int:
    if depth > _DEEPEST:
        raise FormatError(f"{path} has groups that contain themselves: write it again")
    parts = name.split("/")
    refuse_links(path, group, ["/".join(parts[: k + 1]) for k in range(len(parts))])
    item = group[name]
    _check_attributes(item)
    if hasattr(item, "shape"):
        return dataset_size(path, item)
    return sum(_tree_size(path, item, inner, depth + 1) for inner in item)


def _check_attributes(item: Any) -> None:
    """Refuse lists of any length, which AnnData does not write and at which h5py may crash."""
    h5py = library("h5py", "HDF5", "h5py", "hdf5")
    for k in range(h5py.h5a.get_num_attrs(item.id)):
        attribute = h5py.h5a.open(item.id, index=k)
        if isinstance(attribute.get_type(), h5py.h5t.TypeVlenID):
            raise ValueError(f"attribute {attribute.name.decode(errors='replace')!r} is damaged")


def refuse_links(path: Path, group: Any, names: Iterable[str]) -> None:
    """Refuse names that are links to other files."""
    h5py = library("h5py", path.suffix, "h5py", "hdf5")
    for name in names:
        link = group.get(name, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            raise FormatError(
                f"{path} has {name!r} as a link to another file ({link.filename}), which is not "
                "followed: read that file, or store the data in this one"
            )


def dataset_size(path: Path, dataset: Any) -> int:
    """Bytes of a dataset in memory, and of a chunk of it where that is larger.

    One that stands in another file is refused.
    """
    elsewhere = dataset.external or []
    if dataset.is_virtual:
        elsewhere = [source for source in dataset.virtual_sources() if source.file_name != "."]
    if elsewhere:
        raise FormatError(
            f"{path} keeps the values of {dataset.name!r} in another file, which is not followed: "
            "store them in this one"
        )
    n = max(int(dataset.size or 0), math.prod(dataset.chunks or (0,)))
    return n * (dataset.dtype.itemsize if dataset.dtype.kind != "O" else _TEXT)
