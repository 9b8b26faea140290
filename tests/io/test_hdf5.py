import anndata
import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import savemat

from nmfmerge.io import read


@pytest.fixture
def sparse(X):
    return sp.csr_matrix(np.where(X < 25, 0, X))


@pytest.mark.parametrize("format", ["4", "5"])
def test_matlab_matrices_come_back(tmp_path, X, sparse, format):
    savemat(tmp_path / "x.mat", {"A": X}, format=format)
    np.testing.assert_array_equal(read(tmp_path / "x.mat").X, X)
    savemat(tmp_path / "s.mat", {"S": sparse}, format=format)
    data = read(tmp_path / "s.mat")
    assert data.X.format == "csr"
    np.testing.assert_array_equal(data.X.toarray(), sparse.toarray())


def test_matlab_with_several_matrices_needs_a_choice(tmp_path, X, refused):
    content = {"A": X, "B": 2 * X, "note": "text", "cell": np.array([X, "a"], dtype=object)}
    savemat(tmp_path / "x.mat", content)
    message = refused(tmp_path / "x.mat", "several arrays", "'A' (5 × 4), 'B' (5 × 4)")
    assert "note" not in message
    np.testing.assert_array_equal(read(tmp_path / "x.mat", variable="B").X, 2 * X)
    refused(tmp_path / "x.mat", "no array 'note'", variable="note")


def test_matlab_without_numbers_or_cut_short_is_refused(tmp_path, X, refused, cut):
    savemat(tmp_path / "x.mat", {"note": "text"})
    refused(tmp_path / "x.mat", "holds no numeric array")
    savemat(tmp_path / "y.mat", {"A": X})
    refused(cut(tmp_path / "y.mat"))


def write_mat73(path, X, sparse):
    """A file as MATLAB writes it with -v7.3: a user block of 512 bytes, dimensions in reverse."""
    columns = sparse.tocsc()
    with h5py.File(path, "w", userblock_size=512) as file:
        file["A"] = X.T
        file["A"].attrs["MATLAB_class"] = np.bytes_("double")
        file["word"] = np.array([[104], [105]], dtype=np.uint16)
        file["word"].attrs["MATLAB_class"] = np.bytes_("char")
        group = file.create_group("S")
        group.attrs["MATLAB_class"] = np.bytes_("double")
        group.attrs["MATLAB_sparse"] = np.uint64(columns.shape[0])
        group["data"], group["ir"], group["jc"] = columns.data, columns.indices, columns.indptr
        empty = file.create_group("Z")
        empty.attrs["MATLAB_sparse"] = np.uint64(3)
        empty["jc"] = np.zeros(3, dtype=np.uint64)
        file.create_group("#refs#")
    block = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(512)
    with path.open("r+b") as file:
        file.write(block)


def test_matlab_7_3_is_hdf5_in_reverse(tmp_path, X, sparse, refused):
    path = tmp_path / "x.mat"
    write_mat73(path, X, sparse)
    np.testing.assert_array_equal(read(path, variable="A").X, X)
    data = read(path, variable="S")
    assert data.X.format == "csr"
    np.testing.assert_array_equal(data.X.toarray(), sparse.toarray())
    assert read(path, variable="Z").X.shape == (3, 2)
    assert read(path, variable="Z").X.nnz == 0
    message = refused(path, "several arrays", "'A' (5 × 4), 'S' (5 × 4), 'Z' (3 × 2)")
    assert "word" not in message


def test_matlab_7_3_damaged_is_refused(tmp_path, X, sparse, refused, cut):
    path = tmp_path / "x.mat"
    write_mat73(path, X, sparse)
    with h5py.File(path, "r+") as file:
        del file["S/data"]
    refused(path, "sparse matrix without its entries", variable="S")
    refused(cut(path))


@pytest.mark.parametrize("suffix", ["h5", "hdf5", "H5"])
@pytest.mark.parametrize("transpose", [False, True])
def test_hdf5_dataset_comes_back(tmp_path, X, suffix, transpose):
    path = tmp_path / f"x.{suffix}"
    with h5py.File(path, "w") as file:
        file.create_dataset("run/counts", data=X.astype(np.float32), compression="gzip")
        file["names"] = ["a", "b"]
    data = read(path, transpose=transpose)
    assert data.X.dtype == np.float32
    np.testing.assert_array_equal(data.X, X.T if transpose else X)


def test_hdf5_with_several_datasets_needs_a_choice(tmp_path, X, refused):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["run/counts"], file["run/times"] = X, np.arange(4)
    refused(path, "several arrays", "'run/counts' (5 × 4), 'run/times' (4)")
    refused(path, "no array 'run'", variable="run")
    refused(path, "1 dimension(s)", variable="run/times")
    np.testing.assert_array_equal(read(path, variable="/run/counts").X, X)


def test_hdf5_without_numbers_or_cut_short_is_refused(tmp_path, X, refused, cut):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["names"] = ["a", "b"]
    refused(tmp_path / "x.h5", "holds no numeric array")
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file["X"] = np.ones((200, 30))
    refused(cut(tmp_path / "y.h5"), "cannot be read as hdf5")


def test_without_the_libraries_the_command_is_given(tmp_path, X, sparse, needs):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["X"] = X
    assert needs(tmp_path / "x.h5", "h5py", "h5py", "hdf5").startswith("reading .h5 ")
    write_mat73(tmp_path / "x.mat", X, sparse)
    assert "MATLAB 7.3" in needs(tmp_path / "x.mat", "h5py", "h5py", "hdf5")


@pytest.mark.parametrize("suffix", ["h5", "mat", "h5ad"])
@pytest.mark.parametrize("block", [1 << 20, 700])  # bytes that are searched at a time
def test_a_heap_at_which_hdf5_would_hang_is_refused(
    tmp_path, X, refused, suffix, block, monkeypatch
):
    monkeypatch.setattr("nmfmerge.io.hdf5_heap._BLOCK", block)
    path = tmp_path / f"x.{suffix}"
    if suffix == "h5ad":
        anndata.AnnData(X).write_h5ad(path)
    else:
        with h5py.File(path, "w", userblock_size=512 if suffix == "mat" else 0) as file:
            file["X"] = X
            file["X"].attrs["unit"] = "counts"  # of any length, so that it stands in a heap
    np.testing.assert_array_equal(read(path).X, X.T if suffix == "mat" else X)
    raw = bytearray(path.read_bytes())
    heap = raw.index(b"GCOL")
    at = heap + 16
    while number := int.from_bytes(raw[at : at + 2], "little"):
        size = int.from_bytes(raw[at + 8 : at + 16], "little")
        at += 16 + (size + 7) // 8 * 8
    assert number == 0
    assert at < heap + 4096 - 16
    raw[at : at + 16] = bytes(16)
    path.write_bytes(bytes(raw))
    refused(path, "a heap of strings in it is damaged")
