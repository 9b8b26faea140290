import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge.io import read


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.uint8, bool])
def test_npy_keeps_values_and_type(tmp_path, X, dtype):
    np.save(tmp_path / "x.npy", X.astype(dtype))
    data = read(tmp_path / "x.npy")
    assert data.X.dtype == dtype
    np.testing.assert_array_equal(data.X, X.astype(dtype))
    assert (data.rows.name, data.columns.name) == ("row", "column")
    np.testing.assert_array_equal(data.rows.values, np.arange(5))
    np.testing.assert_array_equal(data.columns.values, np.arange(4))


def test_transpose_swaps_the_matrix_and_its_axes(tmp_path, X):
    np.save(tmp_path / "x.npy", X)
    data = read(tmp_path / "x.npy", transpose=True)
    np.testing.assert_array_equal(data.X, X.T)
    assert (data.rows.name, data.columns.name) == ("column", "row")
    assert len(data.rows.values) == 4


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csc_matrix, sp.coo_array, sp.dia_array])
@pytest.mark.parametrize("transpose", [False, True])
def test_sparse_npz_stays_sparse(tmp_path, X, make, transpose):
    X[X < 25] = 0
    sp.save_npz(tmp_path / "x.npz", make(X))
    data = read(tmp_path / "x.npz", transpose=transpose)
    assert data.X.format == "csr"
    np.testing.assert_array_equal(data.X.toarray(), X.T if transpose else X)


def test_sparse_npz_has_no_variables(tmp_path, X, refused):
    sp.save_npz(tmp_path / "x.npz", sp.csr_matrix(X))
    refused(tmp_path / "x.npz", "one sparse matrix", "variable='y'", variable="y")


def test_sparse_indices_out_of_range_are_refused(tmp_path, refused):
    parts = {"data": [1.0], "indices": [9], "indptr": [0, 1, 1], "shape": [2, 3]}
    arrays = {name: np.array(values) for name, values in parts.items()}
    np.savez(tmp_path / "x.npz", format=np.array(b"csr"), **arrays)
    refused(tmp_path / "x.npz")


def test_npz_with_several_arrays_needs_a_choice(tmp_path, X, refused):
    np.savez(tmp_path / "x.npz", counts=X, weights=2 * X)
    refused(tmp_path / "x.npz", "several arrays", "variable=", "'counts'", "'weights'")
    refused(tmp_path / "x.npz", "no array 'weight'", "'weights'", variable="weight")
    np.testing.assert_array_equal(read(tmp_path / "x.npz", variable="weights").X, 2 * X)


def test_npz_with_one_array_needs_no_choice(tmp_path, X):
    np.savez_compressed(tmp_path / "x.npz", X)
    np.testing.assert_array_equal(read(tmp_path / "x.npz").X, X)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.ones(3), "1 dimension(s), 3: reshape"),
        (np.float64(3), "0 dimension(s), a single number"),
        (np.ones((2, 3, 4)), "3 dimensions, 2 × 3 × 4"),
        (np.ones((0, 3)), "an empty matrix, 0 × 3"),
        (np.ones((2, 2)) * 1j, "complex numbers: store their absolute values"),
        (np.array([["a", "b"]]), "<U1 values, not numbers"),
        (np.array([["2020-01-01"]], dtype="M8[D]"), "not numbers"),
    ],
)
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_what_is_no_matrix_of_numbers_is_refused(tmp_path, refused, array, words, suffix):
    path = tmp_path / f"x.{suffix}"
    (np.save if suffix == "npy" else np.savez)(path, array)
    refused(path, words)


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_pickled_objects_are_never_loaded(tmp_path, refused, suffix):
    path = tmp_path / f"x.{suffix}"
    (np.save if suffix == "npy" else np.savez)(path, np.array([[{}]], dtype=object))
    refused(path, "allow_pickle=False")


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_a_file_cut_short_is_refused(tmp_path, X, refused, cut, suffix):
    path = tmp_path / f"x.{suffix}"
    (np.save if suffix == "npy" else np.savez)(path, X)
    refused(cut(path))


def test_an_archive_named_npy_is_refused(tmp_path, X, refused):
    np.savez(tmp_path / "x.npz", X)
    (tmp_path / "x.npz").rename(tmp_path / "x.npy")
    refused(tmp_path / "x.npy", "rename it to .npz")


def test_a_message_lists_some_of_many_arrays(tmp_path, X, refused):
    np.savez(tmp_path / "x.npz", **{f"array{k}_{'long' * 50}": X for k in range(100)})
    message = refused(tmp_path / "x.npz", "choose one with variable=; it has 'array0_", "88 more")
    assert len(message) < 1000


@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_starts_that_go_backwards_are_refused(tmp_path, refused, layout):
    """They end at 0, so that SciPy sees a matrix without entries and checks no more."""
    np.savez(
        tmp_path / "x.npz", format=layout.encode(), shape=(4, 4), data=np.ones(5),
        indices=np.array([0, 1, 2, 3, 0]), indptr=np.array([0, 0, 5, 0, 0]),
    )  # fmt: skip
    refused(tmp_path / "x.npz", "starts of its sparse matrix go backwards")
