import gzip

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from scipy.io import mmwrite, savemat

from nmfmerge.io import read


@pytest.fixture
def sparse(X):
    return sp.csr_matrix(np.where(X < 25, 0, X))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
def test_matrix_market_sparse_becomes_csr(tmp_path, sparse, packed, transpose):
    path = tmp_path / "x.mtx"
    mmwrite(path, sparse)
    if packed:
        (tmp_path / "x.mtx.gz").write_bytes(gzip.compress(path.read_bytes()))
        path = tmp_path / "x.mtx.gz"
    data = read(path, transpose=transpose)
    assert data.X.format == "csr"
    assert data.name == "x"
    np.testing.assert_array_equal(
        data.X.toarray(), sparse.T.toarray() if transpose else sparse.toarray()
    )


def test_matrix_market_dense_and_integers(tmp_path, X, sparse):
    mmwrite(tmp_path / "x.mtx", X)
    np.testing.assert_array_equal(read(tmp_path / "x.mtx").X, X)
    mmwrite(tmp_path / "y.mtx", sparse.astype(np.int64))
    assert read(tmp_path / "y.mtx").X.dtype.kind == "i"


def test_matrix_market_adds_what_is_given_twice(tmp_path):
    text = "%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 1.5\n2 2 4\n1 1 2\n"
    (tmp_path / "x.mtx").write_text(text)
    data = read(tmp_path / "x.mtx")
    np.testing.assert_array_equal(data.X.toarray(), [[3.5, 0], [0, 4]])
    assert data.X.nnz == 2


@pytest.mark.parametrize(
    "text",
    [
        "%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 1.5\n",
        "%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 1.5\n",
        "%%MatrixMarket matrix coordinate complex general\n2 2 1\n1 1 1.5 2\n",
        "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 x\n",
        "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 2\0",
        "%%MatrixMarket matrix coordinate real general\n",
    ],
)
def test_matrix_market_with_wrong_content_is_refused(tmp_path, refused, text):
    (tmp_path / "x.mtx").write_text(text)
    refused(tmp_path / "x.mtx")


def test_matrix_market_may_end_in_half_a_number(tmp_path):
    text = "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 2e"
    (tmp_path / "x.mtx").write_text(text)
    np.testing.assert_array_equal(read(tmp_path / "x.mtx").X.toarray(), [[2, 0], [0, 0]])


def test_matrix_market_cut_short_is_refused(tmp_path, X, refused, cut):
    mmwrite(tmp_path / "x.mtx", X)
    refused(cut(tmp_path / "x.mtx"))


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


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", ["x.zarr", "folder"])
@pytest.mark.parametrize("transpose", [False, True])
def test_zarr_array_comes_back(tmp_path, X, version, name, transpose):
    array = zarr.create_array(
        tmp_path / name, shape=X.shape, chunks=(2, 3), dtype=X.dtype, zarr_format=version
    )
    array[:] = X
    data = read(tmp_path / name, transpose=transpose)
    np.testing.assert_array_equal(data.X, X.T if transpose else X)
    assert data.name == name.removesuffix(".zarr")


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_group_needs_a_choice(tmp_path, X, refused, version):
    path = tmp_path / "x.zarr"
    group = zarr.open_group(path, mode="w", zarr_format=version)
    group.create_array("a", data=X)
    group.create_group("inner").create_array("b", data=2 * X)
    refused(path, "several arrays", "'a' (5 × 4), 'inner/b' (5 × 4)")
    np.testing.assert_array_equal(read(path, variable="/inner/b").X, 2 * X)
    refused(path, "no array 'c'", variable="c")


def test_zarr_with_wrong_content_is_refused(tmp_path, X, refused):
    (tmp_path / "empty.zarr").mkdir()
    refused(tmp_path / "empty.zarr", "cannot be read as zarr")
    zarr.open_group(tmp_path / "group.zarr", mode="w")
    refused(tmp_path / "group.zarr", "holds no numeric array")
    array = zarr.create_array(tmp_path / "x.zarr", data=np.ones((2, 3, 4)))
    refused(tmp_path / "x.zarr", "3 dimension(s)")
    refused(tmp_path / "x.zarr", "holds one array", variable="a")
    for chunk in (tmp_path / "x.zarr" / "c").rglob("*"):
        if chunk.is_file():
            chunk.write_bytes(b"not a chunk")
    assert array.shape == (2, 3, 4)
    refused(tmp_path / "x.zarr", "cannot be read as zarr")
    (tmp_path / "x.zarr" / "zarr.json").write_text("{")
    refused(tmp_path / "x.zarr", "cannot be read as zarr")


def test_without_the_libraries_the_command_is_given(tmp_path, X, sparse, needs):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["X"] = X
    assert needs(tmp_path / "x.h5", "h5py", "h5py", "hdf5").startswith("reading .h5 ")
    write_mat73(tmp_path / "x.mat", X, sparse)
    assert "MATLAB 7.3" in needs(tmp_path / "x.mat", "h5py", "h5py", "hdf5")
    (tmp_path / "x.zarr").mkdir()
    assert needs(tmp_path / "x.zarr", "zarr", "zarr", "hdf5").startswith("reading .zarr ")
