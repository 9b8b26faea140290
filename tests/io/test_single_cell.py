import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from nmfmerge.io import read

CELLS = ["AAAC-1", "AAAG-1", "AACT-1", "AAGT-1", "ACGT-1"]
GENES = ["TP53", "MYC", "KRAS", "1e5"]


def write(path, X, **layers):
    obs, var = pd.DataFrame(index=CELLS), pd.DataFrame(index=GENES)
    anndata.AnnData(X, obs=obs, var=var, layers=layers).write_h5ad(path)
    return path


@pytest.mark.parametrize("make", [np.array, sp.csr_matrix, sp.csc_matrix])
@pytest.mark.parametrize("transpose", [False, True])
def test_cells_and_genes_come_back(tmp_path, X, make, transpose):
    X[X < 25] = 0
    data = read(write(tmp_path / "x.h5ad", make(X)), transpose=transpose)
    cells, genes = (data.columns, data.rows) if transpose else (data.rows, data.columns)
    assert (cells.name, genes.name) == ("cell", "gene")
    np.testing.assert_array_equal(cells.values, CELLS)
    np.testing.assert_array_equal(genes.values, GENES)
    assert sp.issparse(data.X) == (make is not np.array)
    values = data.X.toarray() if sp.issparse(data.X) else data.X
    assert make is np.array or data.X.format == "csr"
    np.testing.assert_array_equal(values, X.T if transpose else X)


def test_a_layer_is_read_instead_of_x(tmp_path, X, refused):
    path = write(tmp_path / "x.h5ad", X, counts=sp.csr_matrix(2 * X), logs=np.log1p(X))
    np.testing.assert_array_equal(read(path).X, X)
    np.testing.assert_array_equal(read(path, layer="counts").X.toarray(), 2 * X)
    np.testing.assert_array_equal(read(path, layer="logs").X, np.log1p(X))
    refused(path, "no layer 'raw'", "counts, logs", layer="raw")


def test_a_file_without_x_names_its_layers(tmp_path, X, refused):
    path = write(tmp_path / "x.h5ad", None, counts=X)
    refused(path, "has no X", "(counts)", "layer=")
    np.testing.assert_array_equal(read(path, layer="counts").X, X)


def test_what_is_no_anndata_is_refused(tmp_path, X, refused, cut):
    with h5py.File(tmp_path / "x.h5ad", "w") as file:
        file["X"] = X
    refused(tmp_path / "x.h5ad", "not an AnnData file")
    path = write(tmp_path / "y.h5ad", X)
    with h5py.File(path, "r+") as file:
        del file["X"]
        file["X"] = X[:3]
    refused(path, "cannot be read as h5ad")
    refused(cut(write(tmp_path / "z.h5ad", X)), "cannot be read as h5ad")


def test_without_anndata_the_command_is_given(tmp_path, X, needs):
    path = write(tmp_path / "x.h5ad", X)
    message = needs(path, "anndata", "anndata", "single-cell")
    assert message.startswith("reading .h5ad needs anndata")


def test_an_attribute_that_became_a_list_is_refused(tmp_path, X, refused):
    anndata.AnnData(X).write_h5ad(tmp_path / "x.h5ad")
    with h5py.File(tmp_path / "x.h5ad", "a") as file:
        kind = h5py.vlen_dtype(np.dtype("i4"))
        del file["var"].attrs["_index"]
        lists = np.empty(1, dtype=object)
        lists[0] = np.array([1, 2], dtype="i4")
        file["var"].attrs.create("_index", lists, shape=(1,), dtype=kind)
    refused(tmp_path / "x.h5ad", "attribute '_index' is damaged")
