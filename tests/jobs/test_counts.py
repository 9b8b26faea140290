"""Counts are found in X, a layer or .raw; cells and genes without any are left out by name."""

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge import io
from nmfmerge.arguments.errors import ArgumentError, ArgumentTypeError
from nmfmerge.datasets import Axis, Dataset
from nmfmerge.jobs.programs.counts import counts_elsewhere, counts_of


@pytest.fixture
def scaled(adata):
    """As after scanpy's usual steps: X has negative values, and the counts are a layer."""
    adata.layers["counts"] = adata.X.copy()
    adata.layers["logs"] = adata.X.log1p()
    adata.X = np.asarray(adata.X.todense()) - 1.0
    return adata


@pytest.mark.parametrize("dense", [False, True])
def test_x_is_taken_without_its_empty_genes(adata, dense):
    expected = np.asarray(adata.X.todense())
    if dense:
        adata.X = expected
    counts = counts_of(adata)
    np.testing.assert_array_equal(counts.X.todense(), expected[:, expected.sum(0) > 0])
    assert set(adata.var_names[-10:]).isdisjoint(counts.genes)
    assert list(counts.cells) == list(adata.obs_names)


def test_cells_without_counts_are_dropped_and_named(adata):
    X = adata.X.tolil()
    X[[3, 7]] = 0
    adata.X = X.tocsr()
    counts = counts_of(adata)
    assert list(counts.dropped) == ["cell3", "cell7"]
    assert counts.X.shape[0] == adata.n_obs - 2 == len(counts.cells)
    assert np.flatnonzero(~counts.of_cells).tolist() == [3, 7]


def test_some_of_the_cells_keep_their_names(adata):
    counts = counts_of(adata)
    some = np.arange(len(counts.cells)) % 2 == 0
    half = counts.of(some)
    assert list(half.cells) == list(counts.cells[some])
    places = np.flatnonzero(half.of_cells)
    np.testing.assert_array_equal(
        half.X.todense(), adata.X[places][:, np.flatnonzero(half.of_genes)].todense()
    )


def test_a_layer_is_taken(scaled):
    counts = counts_of(scaled, "counts")
    assert counts.X.sum() == scaled.layers["counts"].sum()


def test_raw_has_its_own_genes(adata):
    adata.raw = adata.copy()
    adata = adata[:, :50].copy()
    counts = counts_of(adata, "raw")
    assert counts.X.shape[1] == 290
    assert len(counts.all_genes) == 300


def test_scaled_values_are_refused_and_the_counts_named_first(scaled):
    with pytest.raises(ArgumentError, match=r"negative values in X.*layer='counts' or 'logs'"):
        counts_of(scaled)


def test_a_layer_of_other_values_is_recognised(scaled, adata):
    assert counts_elsewhere(scaled, "logs") == ["counts"]
    assert counts_elsewhere(scaled, "counts") == []


@pytest.mark.parametrize(
    ("layer", "message"),
    [("nothing", "expected one of 'counts', 'logs'"), ("raw", "layer='raw' is not there")],
)
def test_layers_that_are_not_there_are_refused(scaled, layer, message):
    with pytest.raises(ArgumentError, match=message):
        counts_of(scaled, layer)


def test_other_objects_are_refused(adata):
    with pytest.raises(ArgumentTypeError, match="adata is a ndarray; expected an AnnData"):
        counts_of(np.ones((3, 3)))
    adata.X = adata.X * 0
    with pytest.raises(ArgumentError, match="all of them are zero"):
        counts_of(adata)
    adata.X = None
    with pytest.raises(ArgumentError, match="has no X: give counts"):
        counts_of(adata)


def test_a_file_read_by_the_package_gives_the_same(adata, tmp_path):
    adata.write_h5ad(tmp_path / "cells.h5ad")
    data = io.read(tmp_path / "cells.h5ad")
    one, other = counts_of(adata), counts_of(data)
    assert (one.X != other.X).nnz == 0
    assert list(one.genes) == list(other.genes)


def test_genes_in_rows_are_turned(adata):
    cells, genes = (Axis(n, v.to_numpy()) for n, v in (("cell", adata.obs_names),
                                                      ("gene", adata.var_names)))  # fmt: skip
    data = Dataset("turned", sp.csc_matrix(adata.X.T), None, genes, cells)
    assert (counts_of(data).X != counts_of(adata).X).nnz == 0
    with pytest.raises(ArgumentError, match="'row' and 'column'; expected 'cell' and 'gene'"):
        counts_of(Dataset("?", np.ones((2, 2)), None, Axis("row", np.arange(2)),
                          Axis("column", np.arange(2))))  # fmt: skip
