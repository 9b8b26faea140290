"""`layer` and `mask_var` choose the matrix and the genes of an AnnData."""

import anndata
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from nmfmerge import NMFMerge, nmf, nmf_merge
from nmfmerge.arguments.errors import ArgumentError


@pytest.fixture
def adata():
    rng = np.random.default_rng(0)
    made = anndata.AnnData(
        rng.random((12, 9)) - 0.5,
        obs=pd.DataFrame(index=[f"c{i}" for i in range(12)]),
        var=pd.DataFrame({"high": np.arange(9) % 2 == 0}, index=[f"g{i}" for i in range(9)]),
    )
    made.layers["counts"] = rng.poisson(3.0, (12, 9)).astype(float)
    made.raw = anndata.AnnData(
        rng.random((12, 15)),
        var=pd.DataFrame({"mine": np.arange(15) < 6}, index=[f"r{i}" for i in range(15)]),
    )
    return made


@pytest.mark.parametrize("function", [nmf, nmf_merge])
@pytest.mark.parametrize(
    ("options", "matrix", "genes"),
    [
        ({"layer": "counts"}, lambda a: a.layers["counts"], [f"g{i}" for i in range(9)]),
        (
            {"layer": "counts", "mask_var": "high"},
            lambda a: a.layers["counts"][:, ::2],
            ["g0", "g2", "g4", "g6", "g8"],
        ),
        ({"layer": "raw"}, lambda a: a.raw.X, [f"r{i}" for i in range(15)]),
        (
            {"layer": "raw", "mask_var": "mine"},
            lambda a: a.raw.X[:, :6],
            [f"r{i}" for i in range(6)],
        ),
    ],
)
def test_the_part_is_fitted_and_keeps_its_names(function, adata, options, matrix, genes):
    own = function(adata, 2, tol=1e-3, **options)
    same = function(np.ascontiguousarray(matrix(adata)), 2, tol=1e-3)
    np.testing.assert_array_equal(own.W, same.W)
    np.testing.assert_array_equal(own.H, same.H)
    assert own.axes.columns.values.tolist() == genes
    assert own.axes.rows.values.tolist() == list(adata.obs_names)


def test_the_genes_of_x_are_chosen(adata):
    adata.X = np.abs(adata.X)
    own = nmf(adata, 2, mask_var="high", tol=1e-3)
    same = nmf(np.ascontiguousarray(adata.X[:, ::2]), 2, tol=1e-3)
    np.testing.assert_array_equal(own.H, same.H)


def test_the_estimator_takes_the_same_part_of_other_cells(adata):
    model = clone(NMFMerge(2, layer="counts", mask_var="high", tol=1e-3))
    W = model.fit_transform(adata)
    part = np.ascontiguousarray(adata.layers["counts"][:, ::2])
    plain = NMFMerge(2, tol=1e-3).fit(part)
    np.testing.assert_array_equal(model.components_, plain.components_)
    np.testing.assert_array_equal(W, plain.transform(part))
    np.testing.assert_array_equal(model.transform(adata[:5].copy()), plain.transform(part[:5]))
    assert model.score(adata) == plain.score(part)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": "logs"}, "layer='logs' is not there; expected one of 'counts', 'raw'"),
        ({"layer": "counts", "mask_var": "low"}, "mask_var='low' is no column of var; expected"),
        ({"layer": "counts", "mask_var": "number"}, "does not mark variables; expected a column"),
        ({"layer": 3}, "layer=3 is a int; expected a string"),
    ],
)
def test_parts_that_are_not_there_are_refused(adata, options, message):
    adata.var["number"] = 1.0
    with pytest.raises((ArgumentError, TypeError), match=message):
        nmf_merge(adata, 2, **options)


@pytest.mark.parametrize("name", ["layer", "mask_var"])
def test_other_data_have_no_parts(name):
    with pytest.raises(ArgumentError, match=f"{name}='x' is for an AnnData, and X is a ndarray"):
        nmf(np.ones((3, 3)), 1, **{name: "x"})
