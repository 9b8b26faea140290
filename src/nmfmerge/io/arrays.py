"""NumPy's own files: .npy with one array, .npz with named arrays or one SciPy sparse matrix."""

from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import ZipFile, is_zipfile

import numpy as np
import scipy.sparse as sp

from nmfmerge.arguments.errors import Given, Message
from nmfmerge.datasets.base import Dataset
from nmfmerge.io.build import build, choose
from nmfmerge.io.errors import FormatError
from nmfmerge.io.memory import Memory

_SPARSE = {"format", "shape", "data"}
_HEADER = 1 << 16  # bytes; NumPy takes headers of up to 10,000
_MAGIC = b"\x93NUMPY"


def read_npy(path: Path, memory: Memory, pixel_axes: Any = None) -> Dataset:
    """Read the array of a .npy file."""
    if is_zipfile(path):
        raise FormatError(f"{path} is an archive of arrays: rename it to .npz")
    with path.open("rb") as file:
        if file.read(6) != _MAGIC:
            raise FormatError(f"{path} is not a NumPy array: check its suffix, or use np.save")
        file.seek(0)
        memory.needs(_declared_size(file))
        file.seek(0)
        X = np.load(file, allow_pickle=False)
        return build(path, X, memory=memory, pixel_axes=pixel_axes)


def read_npz(
    path: Path, memory: Memory, variable: str | None = None, pixel_axes: Any = None
) -> Dataset:
    """Read an array of a .npz file, or the matrix that `scipy.sparse.save_npz` stored."""
    if not is_zipfile(path):
        raise FormatError(f"{path} is not a complete .npz archive: write it again with np.savez")
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        if not set(archive.files) >= _SPARSE:
            name = choose(path, dict.fromkeys(archive.files), variable)
            memory.needs(_member_size(archive.zip, name))
            return build(path, archive[name], memory=memory, pixel_axes=pixel_axes)
        if variable is not None:
            raise FormatError(
                Message(
                    "{path} holds one sparse matrix: leave out {given}",
                    path=path,
                    given=Given("variable", variable),
                )
            )
        memory.needs(sum(_member_size(archive.zip, name) for name in archive.files))
        file.seek(0)
        return build(path, sp.load_npz(file), memory=memory, pixel_axes=pixel_axes)


def _member_size(archive: ZipFile, name: str) -> int:
    """Bytes that an array of an archive takes, by the archive and by the array's own header."""
    member = name if name in archive.namelist() else f"{name}.npy"
    with archive.open(member) as file:
        is_array = file.read(6) == _MAGIC
    if not is_array:
        raise ValueError(f"{name!r} is not a NumPy array")
    with archive.open(member) as file:
        return max(_declared_size(file), archive.getinfo(member).file_size)


def _declared_size(file: BinaryIO | Any) -> int:
    """Bytes of the array that the header of a .npy file declares."""
    file = BytesIO(file.read(_HEADER))  # or a header that declares gigabytes would get them
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    else:  # version 3 differs in the names of fields, which no matrix of numbers has
        shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    if any(length < 0 for length in shape):
        raise ValueError(f"its header declares the shape {shape}")
    size = dtype.itemsize
    for length in shape:
        size *= length
    return size
