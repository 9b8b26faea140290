import types

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from nmfmerge import NMFMerge, metrics, nmf, nmf_merge
from nmfmerge.inputs.check import check_X

VALUES = np.arange(12.0).reshape(4, 3)


def impostor(module, name, **attributes):
    """An object whose type says that it comes from a library that need not be installed."""
    attributes = {"__array__": lambda self, *a, **k: VALUES, "shape": (4, 3), **attributes}
    return type(name, (), {"__module__": module, **attributes})()


REFUSED = [
    ("dask.dataframe.dask_expr._collection", "DataFrame", r"X\.compute\(\)\.to_numpy\(\)"),
    ("cupy", "ndarray", r"X is a cupy\.ndarray: pass X\.get\(\)"),
    ("cupyx.scipy.sparse._csr", "csr_matrix", r"pass X\.get\(\)"),
    ("jaxlib._jax", "ArrayImpl", r"pass numpy\.asarray\(X\)"),
    ("tensorflow.python.framework.ops", "EagerTensor", r"pass X\.numpy\(\)"),
    ("polars.series.series", "Series", r"X is a polars\.Series: pass a table"),
    ("polars.lazyframe.frame", "LazyFrame", r"pass X\.collect\(\)\.to_numpy\(\)"),
    ("pyarrow.lib", "Table", r"pass X\.to_pandas\(\)\.to_numpy\(\)"),
    ("h5py._hl.dataset", "Dataset", r"X is a h5py\.Dataset: .*pass X\[:\]"),
    ("h5py._hl.files", "File", r"X\[name\]\[:\]"),
    ("zarr.core.array", "Array", r"X is a zarr\.Array: .*pass X\[:\]"),
    ("sparse.numba_backend._coo.core", "COO", r"pass X\.to_scipy_sparse\(\)"),
    ("xarray.core.dataset", "Dataset", r"X is a xarray\.Dataset: .*X\[name\]"),
    ("anndata._core.raw", "Raw", r"X is a anndata\.Raw: .*X\.X"),
]


@pytest.mark.parametrize(("module", "name", "message"), REFUSED)
@pytest.mark.parametrize("function", [nmf, nmf_merge, lambda X, r: NMFMerge(r).fit(X)])
def test_objects_of_other_libraries_are_refused_by_name(function, module, name, message):
    with pytest.raises(TypeError, match=message):
        function(impostor(module, name), 2)


def test_a_class_derived_from_one_of_another_library_is_refused_too():
    base = type(impostor("cupy", "ndarray"))
    derived = type("Mine", (base,), {"__module__": "user_code"})()
    with pytest.raises(TypeError, match=r"X is a cupy\.ndarray"):
        nmf(derived, 2)


def test_factors_of_other_libraries_are_refused_by_their_own_name():
    with pytest.raises(TypeError, match=r"W is a cupy\.ndarray: pass W\.get"):
        metrics.fitting_error(VALUES, impostor("cupy", "ndarray"), np.ones((2, 3)))


def test_real_anndata_and_files(tmp_path):
    anndata, h5py = pytest.importorskip("anndata"), pytest.importorskip("h5py")
    zarr = pytest.importorskip("zarr")
    anndata.AnnData(sp.csr_matrix(VALUES)).write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    with pytest.raises(
        TypeError, match=r"backed by its file: pass X\.to_memory\(\), .*open_lazily"
    ):
        nmf(backed, 2)
    with pytest.raises(TypeError, match=r"pass X\.to_memory\(\), .*read_elem_lazy\(X\.group\)"):
        nmf(backed.X, 2)
    expected = nmf(VALUES, 1).fitting_error
    assert nmf(backed.X.to_memory(), 1).fitting_error == pytest.approx(expected)
    lazily = anndata.experimental.read_elem_lazy(backed.X.group)
    assert nmf(lazily, 1).fitting_error == pytest.approx(expected)
    backed.file.close()
    with h5py.File(tmp_path / "x.h5", "w") as file:
        with pytest.raises(TypeError, match=r"X is a h5py\.File"):
            nmf(file, 2)
        with pytest.raises(TypeError, match=r"X is a h5py\.Dataset: .*X\[:\]"):
            nmf(file.create_dataset("x", data=VALUES), 2)
    with pytest.raises(TypeError, match=r"X is a zarr\.Array"):
        nmf(zarr.array(VALUES), 2)


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame(VALUES),
        pd.DataFrame(VALUES).convert_dtypes(),
        pd.DataFrame(VALUES).astype("Float64"),
        pd.DataFrame(VALUES).astype("Float32"),
        pd.DataFrame(VALUES).astype({0: "Int64", 1: "float32"}),
        pd.DataFrame(VALUES).astype("Int8"),
    ],
)
def test_data_frames_are_converted(table):
    data = check_X(table)
    np.testing.assert_array_equal(data.X, VALUES)
    assert data.dtype == (np.float32 if str(table.dtypes[0]) == "Float32" else np.float64)


def test_data_frames_with_text_and_factors_with_missing_values_are_refused():
    table = pd.DataFrame(VALUES, columns=list("abc")).astype("Int64")
    table.loc[2, "b"] = pd.NA
    with pytest.raises(ValueError, match=r"W has missing values \(the first in row 2, column 'b'"):
        metrics.fitting_error(VALUES, table, np.ones((3, 3)))
    table["c"] = pd.Series(list("wxyz"), dtype="string")
    with pytest.raises(TypeError, match=r"X has columns that are not numbers \(c\)"):
        nmf(table, 2)
    with pytest.raises(TypeError, match=r"sparse columns: pass X\.sparse\.to_coo\(\)"):
        nmf(pd.DataFrame(VALUES).astype(pd.SparseDtype(float, 0.0)), 2)


def test_xarray_is_taken_where_it_lies_in_memory_and_refused_where_not():
    in_memory = impostor("xarray.core.dataarray", "DataArray", data=VALUES)
    np.testing.assert_array_equal(check_X(in_memory).X, VALUES)
    on_disk = impostor("h5py._hl.dataset", "Dataset")
    lazy = impostor("xarray.core.dataarray", "DataArray", data=on_disk)
    with pytest.raises(TypeError, match=r"X\.data is a h5py\.Dataset: .*pass X\.data\[:\]"):
        nmf(lazy, 2)


def test_a_factor_that_is_a_dask_array_is_refused_where_it_is_not_the_start_of_a_fit():
    W = impostor("dask.array.core", "Array")
    with pytest.raises(TypeError, match=r"W is a dask\.Array: .*pass W\.compute\(\)"):
        metrics.fitting_error(VALUES, W, np.ones((2, 3)))


def test_polars_tables_are_taken():
    table = impostor("polars.dataframe.frame", "DataFrame")
    np.testing.assert_array_equal(check_X(table).X, VALUES)


def test_objects_with_an_array_interface_are_taken():
    mine = types.SimpleNamespace(__array_interface__=VALUES.__array_interface__, keep=VALUES)
    np.testing.assert_array_equal(check_X(mine).X, VALUES)


FORMATS = ["csr", "csc", "coo", "bsr", "lil", "dok", "dia"]


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("kind", ["matrix", "array"])
def test_every_sparse_format_is_taken(format_, kind):
    X = getattr(sp, f"{format_}_{kind}")(VALUES)
    np.testing.assert_array_equal(check_X(X).X.toarray(), VALUES)


def damage(X, what, at, value):
    """Damage one of the arrays of a compressed matrix, by hand, as SciPy does not notice."""
    array = getattr(X, what).copy()
    if value is None:
        array = array[:-1]
    else:
        array[at % len(array)] = value
    setattr(X, what, array)
    return X


@pytest.mark.parametrize("format_", ["csr", "csc", "bsr"])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    ("what", "at", "value"),
    [
        ("indices", 7, 2_000_000_000),
        ("indices", 7, 50),
        ("indices", 0, -1),
        ("indices", 3, -(2**31)),
        ("indptr", 5, 40),
        ("indptr", 5, -3),
        ("indptr", 0, 1),
        ("indptr", -1, 1000),
        ("indptr", 0, None),
        ("indices", 0, None),
        ("data", 0, None),
    ],
)
def test_damaged_sparse_matrices_are_refused(format_, what, at, value, known):
    X = getattr(sp, f"{format_}_matrix")(np.eye(50))
    if known and format_ != "bsr":
        assert X.has_canonical_format  # SciPy remembers this
    damage(X, what, at, value)
    with pytest.raises(ValueError, match=r"X is a damaged sparse matrix of shape \(50, 50\)"):
        nmf(X, 2, init="random", max_iter=5)


def test_damaged_coordinates_are_refused():
    for name, value in (("row", 50), ("col", -1)):
        X = sp.coo_matrix(np.eye(50))
        getattr(X, name)[3] = value
        with pytest.raises(ValueError, match="X is a damaged sparse matrix"):
            nmf(X, 2)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 999), st.sampled_from(["csr", "csc"]), st.booleans())
def test_unsorted_and_repeated_entries_are_added_up_without_changing_X(seed, format_, known):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(0, 200))
    rows, columns = rng.integers(0, 12, count), rng.integers(0, 9, count)
    values = rng.integers(1, 100, count).astype(rng.choice(["int8", "float32", "float64"]))
    dense = np.zeros((12, 9))
    np.add.at(dense, (rows, columns), values)
    lines, places = (rows, columns) if format_ == "csr" else (columns, rows)
    order = np.argsort(lines, kind="stable")
    n_lines = 12 if format_ == "csr" else 9
    indptr = np.searchsorted(lines[order], np.arange(n_lines + 1))
    make = sp.csr_array if format_ == "csr" else sp.csc_array
    spare = rng.integers(0, 3)  # SciPy allows room after the last entry
    X = make((12, 9), dtype=values.dtype)
    X.data = np.concatenate([values[order], np.full(spare, 77, values.dtype)])
    X.indices = np.concatenate([places[order], np.zeros(spare, int)])
    X.indptr = indptr
    if known:  # what SciPy believes of a matrix that was changed by hand
        X.has_sorted_indices = X.has_canonical_format = True
    before = [X.data.copy(), X.indices.copy(), X.indptr.copy()]
    data = check_X(X)
    np.testing.assert_allclose(data.X.toarray(), dense)
    assert data.norm2 * data.unit**4 == pytest.approx(np.sum(dense**2))
    for old, new in zip(before, (X.data, X.indices, X.indptr), strict=True):
        np.testing.assert_array_equal(old, new)


def test_sparse_matrix_in_good_order_is_not_copied():
    X = sp.csr_array(VALUES)
    assert np.shares_memory(check_X(X).X.data, X.data)
    assert np.shares_memory(check_X(X).X.indices, X.indices)
