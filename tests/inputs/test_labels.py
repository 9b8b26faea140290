"""Data sets, AnnData, tables and labelled arrays as X: their matrix is fitted, their names kept."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from nmfmerge import Editor, NMFMerge, datasets, metrics, nmf, nmf_merge, plot, rank_path, transform
from nmfmerge.io import open_lazily

DATA = datasets.lcms_like(30, 40, 3)
GENES, CELLS = [f"gene{i}" for i in range(8)], [f"cell{i}" for i in range(10)]


@pytest.fixture
def counts(rng):
    return rng.poisson(5 * rng.random((10, 3)) @ rng.random((3, 8))) + 1.0


@pytest.fixture
def adata(counts):
    anndata = pytest.importorskip("anndata")
    obs, var = pd.DataFrame(index=CELLS), pd.DataFrame(index=GENES)
    return anndata.AnnData(sp.csr_matrix(counts), obs=obs, var=var)


def assert_same_fit(first, second):
    np.testing.assert_array_equal(first.W, second.W)
    np.testing.assert_array_equal(first.H, second.H)


@pytest.mark.parametrize("function", [nmf, nmf_merge, lambda X, r: rank_path(X, r)[r]])
def test_a_data_set_is_fitted_by_its_matrix_and_keeps_its_axes(function):
    result = function(DATA, 3)
    assert_same_fit(result, function(DATA.X, 3))
    assert (result.axes.rows, result.axes.columns) == (DATA.rows, DATA.columns)
    assert result.axes.X is None
    assert function(DATA.X, 3).axes is None


@pytest.mark.parametrize("function", [nmf, nmf_merge, lambda X, r: rank_path(X, r)[r]])
def test_an_anndata_is_fitted_by_its_x_and_keeps_its_names(function, adata):
    result = function(adata, 3)
    assert_same_fit(result, function(adata.X, 3))
    assert (result.axes.rows.name, result.axes.columns.name) == ("cell", "gene")
    assert result.axes.rows.values.tolist() == CELLS
    assert result.axes.columns.values.tolist() == GENES


def test_the_estimator_and_other_functions_take_them_too(adata):
    for data, X in ((DATA, DATA.X), (adata, adata.X)):
        model = NMFMerge(3)
        W = model.fit_transform(data)
        np.testing.assert_array_equal(W, NMFMerge(3).fit_transform(X))
        np.testing.assert_array_equal(model.transform(data), model.transform(X))
        np.testing.assert_array_equal(transform(data, model.components_), model.transform(X))
        assert model.score(data) == model.score(X)
        error = metrics.fitting_error(X, W, model.components_)
        assert metrics.fitting_error(data, W, model.components_) == error


def test_negative_values_of_an_anndata_lead_to_its_other_matrices(adata, counts):
    adata.raw = adata
    adata.layers["counts"] = counts
    adata.layers["scaled"] = counts - counts.mean(axis=0)
    adata.X = counts - counts.mean(axis=0)
    for function in (nmf_merge, lambda X, r: NMFMerge(r).fit(X)):
        with pytest.raises(ValueError, match=r"pass X\.layers\['counts'\] or X\.raw\.X$"):
            function(adata, 2)
    del adata.X
    with pytest.raises(ValueError, match=r"an AnnData without X: pass X\.layers\['counts'\] or"):
        nmf_merge(adata, 2)
    with pytest.raises(ValueError, match=r"the Dataset 'lcms_like' without its matrix"):
        nmf_merge(replace(DATA, X=None), 2)
    with pytest.raises(ValueError, match=r"shift it, clip it or take magnitudes first$"):
        nmf_merge(counts - 5, 2)


def test_a_data_set_that_is_opened_lazily_is_fitted(tmp_path, adata):
    pytest.importorskip("dask")
    adata.write_h5ad(tmp_path / "x.h5ad")
    data = open_lazily(tmp_path / "x.h5ad")
    result = nmf(data, 2)
    assert result.fitting_error == pytest.approx(nmf(data.X, 2).fitting_error)
    assert result.axes.columns.values.tolist() == GENES
    assert NMFMerge(2).fit(data).components_.shape == (2, 8)


@pytest.fixture
def table(counts):
    return pd.DataFrame(counts, index=CELLS, columns=pd.Index(GENES, name="gene"))


def test_a_figure_has_the_names_of_a_table(table):
    result = nmf_merge(table, 2)
    figure = result.plot()
    shown = {text.get_text() for ax in figure.axes for text in ax.get_yticklabels()}
    assert shown & set(CELLS)
    assert shown & set(GENES)
    numbered = nmf_merge(table.to_numpy(), 2).plot()
    assert not {t.get_text() for ax in numbered.axes for t in ax.get_yticklabels()} & set(GENES)


def test_names_stay_through_edits_and_in_every_solution(table):
    result = nmf_merge(table, 3, return_all=True)
    assert all(one.axes.columns.values.tolist() == GENES for one in result.solutions)
    assert result.numpy().reordered([2, 0, 1]).axes.rows.values.tolist() == CELLS
    editor = Editor(table, result)
    editor.merge(0, 1)
    assert editor.result().axes.columns.name == "gene"


def test_indices_of_tables_become_numbers_dates_or_text(counts):
    days = pd.date_range("2024-01-01", periods=10, name="day")
    pairs = pd.MultiIndex.from_product([["a", "b"], [1, 2, 3, 4]])
    axes = nmf(pd.DataFrame(counts, index=days, columns=pairs), 2).axes
    assert axes.rows.name == "day"
    assert axes.rows.values.dtype.kind == "M"
    assert axes.columns.values.tolist()[:2] == ["a/1", "a/2"]
    axes = nmf(pd.DataFrame(counts), 2).axes
    assert (axes.rows.name, axes.columns.name) == ("row", "column")
    assert axes.columns.values.tolist() == list(range(8))


def test_coordinates_of_an_xarray_are_its_axes(counts):
    xarray = pytest.importorskip("xarray")
    coordinates = {"frequency": ("frequency", 0.5 * np.arange(8), {"units": "Hz"})}
    X = xarray.DataArray(counts, dims=("time", "frequency"), coords=coordinates)
    axes = nmf(X, 2).axes
    assert (axes.rows.label, axes.columns.label) == ("time", "frequency (Hz)")
    np.testing.assert_array_equal(axes.columns.values, 0.5 * np.arange(8))
    assert axes.rows.values.tolist() == list(range(10))


def test_maps_are_drawn_from_the_axes_of_the_result(rng):
    pixels = datasets.Axis("pixel", np.arange(12))
    frames = datasets.Axis("frame", np.arange(9))
    movie = datasets.Dataset("m", rng.random((12, 9)), None, pixels, frames, image_shape=(3, 4))
    assert plot.maps(nmf(movie, 2)).axes
