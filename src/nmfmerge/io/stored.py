"""Matrices that stay on disk: each knows its shape, and reads some of its rows or columns.

They hold the name of a file and no open one, so that they can be sent to other processes, which
must find the file under the same name.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from nmfmerge.io.errors import library


@dataclass(frozen=True)
class Stored:
    """A matrix in a file.

    Attributes
    ----------
    file : str
        Absolute name of the file or folder.
    variable : str
        Name of the array in it; empty where there is one only.
    shape : tuple of int
    dtype : dtype
    chunks : tuple of int
        Rows and columns that are stored as one; 1 where any number can be read.
    n_stored : int
        Entries that are stored: all of them, or those of a sparse matrix.
    """

    file: str
    variable: str
    shape: tuple[int, int]
    dtype: Any
    chunks: tuple[int, int]
    n_stored: int

    ndim = 2
    sparse = False

    def __getitem__(self, place: Any) -> Any:
        """Some rows and columns, given by two slices, in memory."""
        raise NotImplementedError

    @property
    def item_size(self) -> float:
        """Bytes of an entry of the matrix in memory, on average; whole numbers become float64."""
        return float(self.dtype.itemsize if self.dtype.kind == "f" else 8)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole matrix in memory."""
        return int(self.shape[0] * self.shape[1] * self.item_size)


class StoredNpy(Stored):
    """The array of a .npy file."""

    def __getitem__(self, place: Any) -> np.ndarray:
        """Read by a memory map, which is closed again."""
        return np.array(np.load(self.file, mmap_mode="r", allow_pickle=False)[place])


class StoredZarr(Stored):
    """An array of a Zarr store."""

    def __getitem__(self, place: Any) -> np.ndarray:
        """Read the chunks there."""
        store = library("zarr", ".zarr", "zarr", "hdf5").open(self.file, mode="r")
        return np.asarray((store[self.variable] if self.variable else store)[place])


class StoredHdf5(Stored):
    """A dataset of an HDF5 file."""

    def __getitem__(self, place: Any) -> np.ndarray:
        """Read the chunks there."""
        h5py = library("h5py", "HDF5", "h5py", "hdf5")
        with h5py.File(self.file, "r") as file:
            return np.asarray(file[self.variable][place])


class StoredCsr(Stored):
    """A CSR matrix in an HDF5 file, as AnnData writes it: data, indices and indptr in a group."""

    sparse = True

    def __getitem__(self, place: Any) -> Any:
        """Read whole rows."""
        h5py = library("h5py", "HDF5", "h5py", "hdf5")
        first, last, _ = place[0].indices(self.shape[0])
        with h5py.File(self.file, "r") as file:
            group = file[self.variable]
            starts = group["indptr"][first : last + 1]
            inside = slice(int(starts[0]), int(starts[-1]))
            parts = (group["data"][inside], group["indices"][inside], starts - starts[0])
        if (np.diff(starts) < 0).any():
            raise ValueError(f"{self.file} has a sparse matrix whose row starts go backwards")
        X = sp.csr_matrix(parts, shape=(last - first, self.shape[1]))
        X.check_format(full_check=True)
        X.sum_duplicates()
        return X[:, place[1]] if place[1] != slice(0, self.shape[1], None) else X

    @property
    def item_size(self) -> float:
        """Bytes of a stored entry and its index, spread over all entries."""
        return (super().item_size + 8) * self.n_stored / max(1, self.shape[0] * self.shape[1])
