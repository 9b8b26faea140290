"""MATLAB files: up to version 7 by SciPy in a process of its own, version 7.3 as HDF5.

SciPy's reader can end the whole process at a damaged file. It therefore runs in another one, which
takes about as long as starting Python.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nmfmerge.datasets.base import Dataset
from nmfmerge.io.build import build, choose
from nmfmerge.io.errors import FormatError, library
from nmfmerge.io.hdf5 import load, refuse_links
from nmfmerge.io.hdf5_heap import check_heaps
from nmfmerge.io.memory import Memory

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_PROGRAM = Path(__file__).with_name("matlab_process.py")
_SIZES = {"int8": 1, "uint8": 1, "logical": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4,
          "single": 4, "double": 8, "int64": 8, "uint64": 8, "sparse": 0}  # fmt: skip


def read_mat(
    path: Path, memory: Memory, variable: str | None = None, pixel_axes: Any = None
) -> Dataset:
    """Read a matrix of a MATLAB file of any version."""
    X = _read_hdf5(path, memory, variable) if _is_hdf5(path) else _read(path, memory, variable)
    return build(path, X, memory=memory, pixel_axes=pixel_axes)


def _read(path: Path, memory: Memory, variable: str | None) -> Any:
    """A variable of a file up to version 7: the process lists, this one chooses."""
    command = [sys.executable, "-P", str(_PROGRAM), str(path.absolute()), str(memory.limit)]
    with subprocess.Popen(
        [*command, json.dumps(sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            found = _answer(path, process, memory)["variables"]
            numeric = {name: tuple(shape) for name, shape, kind in found if kind in _SIZES}
            chosen = choose(path, numeric, variable)
            kind = next(kind for name, _, kind in found if name == chosen)
            memory.array(numeric[chosen], _SIZES[kind])
            assert process.stdin is not None
            process.stdin.write(json.dumps(chosen).encode() + b"\n")
            process.stdin.flush()
            sent = _answer(path, process, memory)
            arrays = [_array(path, process) for _ in range(sent["n_arrays"])]
        finally:
            process.kill()
    if sent["shape"] is None:
        return arrays[0]
    return sp.csc_matrix(tuple(arrays), shape=tuple(sent["shape"]))


def _answer(path: Path, process: subprocess.Popen, memory: Memory) -> dict[str, Any]:
    """The next message of the process; FormatError if it failed or died."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.endswith(b"\n"):
        raise _damaged(path, process)
    answer = json.loads(line)
    if answer.get("out_of_memory"):
        raise memory.unpacks_beyond()
    if "error" in answer:
        raise ValueError(answer["error"])
    return answer


def _array(path: Path, process: subprocess.Popen) -> np.ndarray:
    class Pipe:  # NumPy wants to seek in what it takes for a file
        read = staticmethod(process.stdout.read)  # type: ignore[union-attr]

    try:
        return np.lib.format.read_array(Pipe(), allow_pickle=False)
    except ValueError as error:
        raise _damaged(path, process) from error


def _damaged(path: Path, process: subprocess.Popen) -> FormatError:
    code = process.wait()
    return FormatError(
        f"{path} is damaged: the process that read it ended with code {code}; save or copy the "
        "file again"
    )


def _is_hdf5(path: Path) -> bool:
    """True if the HDF5 signature is at the start, or after the 512 bytes that MATLAB writes."""
    with path.open("rb") as file:
        head = file.read(520)
    return head.startswith(_SIGNATURE) or head[512:] == _SIGNATURE


def _read_hdf5(path: Path, memory: Memory, variable: str | None) -> Any:
    h5py = library("h5py", "MATLAB 7.3 files", "h5py", "hdf5")
    check_heaps(path)
    with h5py.File(path, "r") as file:
        shapes: dict[str, tuple[int, ...]] = {}
        for name in file:
            if not isinstance(file.get(name, getlink=True), h5py.HardLink):
                continue
            item = file[name]
            if "MATLAB_sparse" in item.attrs:
                shapes[name] = (int(item.attrs["MATLAB_sparse"]), item["jc"].size - 1)
            elif isinstance(item, h5py.Dataset) and _is_numeric(item):
                shapes[name] = item.shape[::-1]
        if not shapes or (variable and variable not in shapes):
            refuse_links(path, file, [variable] if variable else file)
        chosen = choose(path, shapes, variable)
        item = file[chosen]
        if isinstance(item, h5py.Dataset):
            return load(path, item, memory).T
        return _sparse(path, item, shapes[chosen], memory)


def _is_numeric(item: Any) -> bool:
    kind = item.attrs.get("MATLAB_class", b"double")
    return item.dtype.kind in "fiub" and kind not in (b"char", b"cell", b"struct")


def _sparse(path: Path, item: Any, shape: tuple[int, ...], memory: Memory) -> Any:
    refuse_links(path, item, item)
    starts = load(path, item["jc"], memory)
    if not {"data", "ir"} <= set(item):
        if starts[-1] == 0:  # MATLAB stores no entries for a matrix of zeros
            return sp.csc_matrix(shape)
        raise FormatError(f"{path} has a sparse matrix without its entries: save it again")
    values, indices = load(path, item["data"], memory), load(path, item["ir"], memory)
    return sp.csc_matrix((values, indices.astype(np.int64), starts.astype(np.int64)), shape=shape)
