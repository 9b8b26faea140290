"""Variable genes, beside the same formulas written with dense arrays and pandas."""

import numpy as np
import pandas as pd
import pytest

from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.jobs.programs.counts import counts_of
from nmfmerge.jobs.programs.genes import chosen_genes, moments, per_million, variation

sc = pytest.importorskip("scanpy")


@pytest.fixture
def counts(adata):
    return counts_of(adata)


def test_per_million_is_that_of_scanpy(adata, counts):
    sc.pp.normalize_total(adata, target_sum=1e6)
    own = per_million(counts.X)
    np.testing.assert_allclose(
        own.todense(), adata.X[:, np.flatnonzero(counts.of_genes)].todense(), rtol=1e-5
    )


@pytest.mark.parametrize("ddof", [0, 1])
def test_moments_are_those_of_the_dense_matrix(counts, ddof):
    dense = np.asarray(counts.X.todense(), dtype=np.float64)
    mean, variance = moments(counts.X, ddof)
    np.testing.assert_allclose(mean, dense.mean(axis=0))
    np.testing.assert_allclose(variance, dense.var(axis=0, ddof=ddof), rtol=1e-10)


def test_ratios_follow_the_line_through_ordinary_genes(counts):
    dense = pd.DataFrame(per_million(counts.X).todense())
    mean, fano = dense.mean(), dense.var(ddof=0) / dense.mean()
    a2 = (dense.var(ddof=0) / mean**2)[mean.sort_values(ascending=False)[:20].index].min()
    ordinary = (
        mean.between(*mean.quantile([0.1, 0.9]), inclusive="neither")
        & fano.between(*fano.quantile([0.1, 0.9]), inclusive="neither")
    )  # fmt: skip
    expected = fano / (a2 * mean + fano[ordinary].median())
    found = variation(per_million(counts.X))
    np.testing.assert_allclose(found.ratio, expected, rtol=1e-10)
    best = expected.sort_values(ascending=False).index[:60]
    assert found.most_variable(60).tolist() == sorted(best)


def test_genes_of_programmes_are_the_variable_ones(counts):
    found = variation(per_million(counts.X)).most_variable(60)
    assert np.mean(found < 100) > 0.95  # the genes of the four programmes come first


def test_a_column_can_mark_the_genes(adata, counts):
    adata.var["mine"] = np.arange(adata.n_vars) % 3 == 0
    found = variation(per_million(counts.X))
    genes = chosen_genes(adata, counts.of_genes, found, 2000, "mine")
    assert set(counts.genes[genes]) == set(adata.var_names[adata.var["mine"]]) & set(counts.genes)
    with pytest.raises(
        ArgumentError, match=r"mask_var='yours' is no column of var; expected one of 'mine'"
    ):
        chosen_genes(adata, counts.of_genes, found, 2000, "yours")
    adata.var["mine"] = 1.0
    with pytest.raises(ArgumentError, match="a column of True and False"):
        chosen_genes(adata, counts.of_genes, found, 2000, "mine")
    adata.var["mine"] = adata.var_names == "GENE299"
    with pytest.raises(ArgumentError, match="marks 0 genes with counts"):
        chosen_genes(adata, counts.of_genes, found, 2000, "mine")
