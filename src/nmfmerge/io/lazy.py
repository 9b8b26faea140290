"""A file goes in, a Dataset with a Dask array comes out: nothing but names is read yet."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nmfmerge.arguments.errors import ArgumentError, Given, Message
from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.io.adjust import ADJUSTMENTS, adjust
from nmfmerge.io.bands import Bands, Workers, choose_bands
from nmfmerge.io.build import UNNAMED, check_kind
from nmfmerge.io.cubes import size_in_words
from nmfmerge.io.errors import FormatError, library
from nmfmerge.io.hdf5 import choose_dataset, dataset_size
from nmfmerge.io.hdf5_heap import check_heaps
from nmfmerge.io.memory import Memory, memory_for, parse_size
from nmfmerge.io.options import check_options
from nmfmerge.io.registry import find_format, named, safely, stem, transpose
from nmfmerge.io.sample import sample_digest
from nmfmerge.io.single_cell import names_of, place_of
from nmfmerge.io.stored import Stored, StoredCsr, StoredHdf5, StoredNpy, StoredZarr
from nmfmerge.io.tenx import groups_of_counts
from nmfmerge.io.zarrs import axes_of, open_array
from nmfmerge.machine import cores, machine_memory

_NOT_LAZY = ("pixel_axes", "drop_zero_rows", "drop_zero_columns", "feature_type", "max_memory")


@dataclass(frozen=True)
class OnDisk:
    """A matrix on disk, with what its sides are where the file says it."""

    stored: Stored
    rows: Axis | None = None
    columns: Axis | None = None


def open_lazily(
    path: str | os.PathLike[str], memory: str | float | None = None, **options: Any
) -> Dataset:
    """Open a data file as a Dask array, for data that are larger than memory.

    X is cut into bands of whole rows (whole columns where it is wide) along the chunks that are
    stored, up to 32 MB each and at least two for each processor, where these allow it. Nothing is
    read of it before it is used.

    Parameters
    ----------
    path : str or path
        A Zarr array (or one of a group), a dataset of an HDF5 file, a .npy file, or an .h5ad file
        whose X is dense or CSR. Workers of a cluster must find it under the same name.
    memory : str or number, optional
        What a fit may take, such as ``"8GB"``, to choose bands that are small enough. Default: the
        memory of the machine.
    **options
        As in `read`, but for those that change X: of these only ``transpose`` can be used, where X
        is dense.

    Returns
    -------
    Dataset
        X is a Dask array of NumPy arrays, or of CSR matrices.

    Raises
    ------
    FileNotFoundError, FormatError, ValueError
        As in `read`; also where a format cannot be opened lazily, or where a band of it would take
        more than a quarter of the memory.
    """
    limit = machine_memory() if memory is None else parse_size(memory, "memory")
    return opened(Path(path), Workers(limit, cores(), cores()), **options)


def opened(path: Path, workers: Workers, **options: Any) -> Dataset:
    """Open a file as `open_lazily` does, for those who read it."""
    array = library("dask.array", "data lazily", "Dask", "dask", doing="opening")
    found = on_disk(path, **options)
    given = {name: value for name, value in options.items() if value is not None}
    stored = found.stored
    bands = bands_of(path, stored, workers)
    X = array.from_array(
        stored,
        chunks=bands.chunks(stored.shape),
        name=f"stored-{sample_digest(path)[:16]}-{stored.variable}-{bands.length}",
        asarray=False,
        fancy=False,
        inline_array=True,
        meta=sp.csr_matrix((0, 0), dtype=stored.dtype) if stored.sparse else None,
    )
    m, n = stored.shape
    fmt = find_format(path)
    data = Dataset(
        name=stem(fmt, path),
        X=X,
        n_components=None,
        rows=found.rows or Axis(UNNAMED[0], np.arange(m)),
        columns=found.columns or Axis(UNNAMED[1], np.arange(n)),
        source=str(path),
    )
    adjustments = {name: given[name] for name in ADJUSTMENTS if name in given}
    names_memory = Memory(path, workers.memory)
    if fmt.names_beside:
        data = named(path, data, names_memory, adjustments)
    data = transpose(data) if given.get("transpose") else data
    return adjust(data, adjustments, names_memory)


def on_disk(path: Path, **options: Any) -> OnDisk:
    """Find the matrix of a file without reading it; the file and the options are checked."""
    if not path.exists():
        raise FileNotFoundError(f"{path} was not found: check its name and folder")
    fmt = find_format(path)
    if fmt.name not in _OPENERS:
        raise FormatError(
            f"{path} cannot be streamed: that can be done with Zarr arrays, datasets of HDF5 "
            "files, .npy, and .h5ad with a dense or CSR matrix; store it in one of these, or read "
            "it whole"
        )
    check_options(options, fmt.options, fmt.name)
    given = {name: value for name, value in options.items() if value is not None}
    for name in _NOT_LAZY:
        if given.get(name):
            raise ArgumentError(
                name,
                "cannot be used with data that are streamed",
                value=given[name],
                fix="leave it out",
            )
    own = {name: given[name] for name in ("variable", "layer") if name in given}
    found = safely(fmt, path, lambda: _OPENERS[fmt.name](path, **own))
    check_kind(path, found.stored.dtype, found.stored.shape)
    if found.stored.sparse and given.get("transpose"):
        raise FormatError(
            Message(
                "{path} is sparse and streamed by rows, which cannot be swapped with columns: "
                "leave out {given}",
                path=path,
                given=Given("transpose", True),
            )
        )
    return found


def can_stream(path: Path, **options: Any) -> bool:
    """True if the matrix of a file can be opened lazily with these options."""
    try:
        on_disk(path, **{name: value for name, value in options.items() if name != "max_memory"})
    except (ValueError, OSError):
        return False
    return True


def bands_of(path: Path, stored: Stored, workers: Workers) -> Bands:
    """The bands in which a stored matrix is read; those of a CSR matrix are rows."""
    chunks = (1, stored.shape[1]) if stored.sparse else stored.chunks
    return choose_bands(path, stored.shape, chunks, stored.item_size, workers)


def _open_npy(path: Path) -> OnDisk:
    X = np.load(path, mmap_mode="r", allow_pickle=False)
    return OnDisk(_stored(StoredNpy, path, "", X, None))


def _open_zarr(path: Path, variable: str | None = None) -> OnDisk:
    found = open_array(path, variable)
    X = found.array
    stored = _stored(StoredZarr, path, found.name, X, getattr(X, "shards", None) or X.chunks)
    return OnDisk(stored, *axes_of(path, found, memory_for(path, None)))


def _open_hdf5(path: Path, variable: str | None = None) -> OnDisk:
    h5py = library("h5py", path.suffix, "h5py", "hdf5")
    check_heaps(path)
    with h5py.File(path, "r") as file:
        if variable is None and groups_of_counts(file):
            raise FormatError(
                f"{path} holds counts of 10x Genomics, which cannot be streamed: store them as "
                ".h5ad with scanpy, or read them whole"
            )
        name = choose_dataset(path, file, variable)
        return OnDisk(_stored_hdf5(path, file, name))


def _open_h5ad(path: Path, layer: str | None = None) -> OnDisk:
    h5py = library("h5py", ".h5ad", "h5py", "single-cell")
    check_heaps(path)
    with h5py.File(path, "r") as file:
        place = place_of(path, file, layer)
        X = file[place]
        stored = _stored_hdf5(path, file, place) if hasattr(X, "shape") else _csr(path, place, X)
        return OnDisk(stored, *names_of(file, place))


def _stored_hdf5(path: Path, file: Any, name: str) -> Stored:
    dataset_size(path, file[name])
    return _stored(StoredHdf5, path, name, file[name], file[name].chunks)


def _csr(path: Path, place: str, group: Any) -> Stored:
    kind = group.attrs.get("encoding-type", group.attrs.get("h5sparse_format", ""))
    if not str(kind).startswith("csr"):
        name = (
            f"adata.layers[{place.removeprefix('layers/')!r}]" if "layers" in place else "adata.X"
        )
        first = "adata = adata.raw.to_adata(); " if place.startswith("raw/") else ""
        raise FormatError(
            f"{path} has {place} as {str(kind)!r}, which cannot be streamed by rows: store it as "
            f"CSR with {first}{name} = {name}.tocsr()"
        )
    m, n = (int(k) for k in group.attrs.get("shape", group.attrs.get("h5sparse_shape")))
    for part in ("data", "indices", "indptr"):
        dataset_size(path, group[part])
    dtype, n_stored = group["data"].dtype, int(group["data"].shape[0])
    return StoredCsr(os.path.abspath(path), place, (m, n), dtype, (1, n), n_stored)


def _stored(kind: type[Stored], path: Path, name: str, X: Any, chunks: Any) -> Stored:
    """A dense matrix; what is not chunked can be read in any pieces."""
    if len(X.shape) > 2:
        raise FormatError(
            f"{path} holds an array of {len(X.shape)} dimensions, {size_in_words(X.shape)}, and "
            "only matrices are streamed: store it as one, such as pixels × bands"
        )
    check_kind(path, X.dtype, X.shape)
    m, n = (int(length) for length in X.shape)
    rows, columns = chunks or (1, 1)
    return kind(os.path.abspath(path), name, (m, n), X.dtype, (int(rows), int(columns)), m * n)


_OPENERS: Mapping[str, Callable[..., OnDisk]] = {
    "npy": _open_npy,
    "zarr": _open_zarr,
    "hdf5": _open_hdf5,
    "h5ad": _open_h5ad,
}
