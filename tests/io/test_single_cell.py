import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from nmfmerge.io import open_lazily, read

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


def write_scaled(path, values, **layers):
    """As after scanpy's usual steps: X is scaled and has fewer genes, .raw has the counts."""
    whole = anndata.AnnData(
        sp.csr_matrix(values), obs=pd.DataFrame(index=CELLS), var=pd.DataFrame(index=GENES)
    )
    adata = whole[:, :3].copy()
    adata.raw = whole
    adata.X = values[:, :3] - values[:, :3].mean(axis=0)
    for name, layer in layers.items():
        adata.layers[name] = layer
    adata.write_h5ad(path)
    return path


def test_raw_is_read_with_its_own_genes(tmp_path, X):
    path = write_scaled(tmp_path / "x.h5ad", X)
    data = read(path, layer="raw")
    np.testing.assert_array_equal(data.X.toarray(), X)
    np.testing.assert_array_equal(data.columns.values, GENES)
    np.testing.assert_array_equal(data.rows.values, CELLS)
    lazily = open_lazily(path, layer="raw")
    np.testing.assert_array_equal(lazily.X.compute().toarray(), X)
    np.testing.assert_array_equal(lazily.columns.values, GENES)


def test_a_layer_that_is_called_raw_goes_before_raw_itself(tmp_path, X):
    path = write_scaled(tmp_path / "x.h5ad", X, raw=2 * X[:, :3])
    np.testing.assert_array_equal(read(path, layer="raw").X, 2 * X[:, :3])


def test_negative_values_in_x_lead_to_layers_and_raw(tmp_path, X, refused):
    path = write_scaled(tmp_path / "x.h5ad", X, counts=X[:, :3])
    refused(path, "has negative values", "with layer='counts' or 'raw'")
    refused(path, "no layer 'logs'", "(counts, raw)", layer="logs")


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
