"""Gene programmes of generated cells are found, and read back by pandas, anndata and scanpy."""

from dataclasses import replace

import anndata
import numpy as np
import pandas as pd
import pytest

from nmfmerge import metrics
from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.jobs import programs
from nmfmerge.jobs.programs.files import write_table
from nmfmerge.jobs.programs.result import rank_to_take

sc = pytest.importorskip("scanpy")
RANKS = range(2, 7)


@pytest.fixture(scope="module")
def found(made):
    return programs(made[0], RANKS, n_fits=8, n_top_genes=150, random_state=0)


def matched(usages, true_usages):
    return metrics.match_components(true_usages, usages.to_numpy())


def test_the_programmes_and_their_number_are_found(found, made):
    _, usages, spectra = made
    assert found.n_components == 4
    order, cosines = matched(found.usages, usages)
    assert cosines.min() > 0.97
    tpm = found.gene_spectra_tpm.to_numpy()[order]
    for own, true in zip(tpm, spectra[:, :290], strict=True):
        assert own @ true / np.linalg.norm(own) / np.linalg.norm(true) > 0.97
    assert np.abs(found.usages.to_numpy()[:, order] - usages).mean() < 0.05


def test_usages_and_spectra_add_up_to_one(found):
    np.testing.assert_allclose(found.usages.sum(axis=1), 1)
    np.testing.assert_allclose(found.spectra.sum(axis=1), 1, rtol=1e-6)
    assert found.spectra.shape == (4, 150)
    assert found.gene_spectra_tpm.shape == found.gene_spectra_score.shape == (4, 290)


def test_top_genes_are_those_of_the_programme(found, made):
    order, _ = matched(found.usages, made[1])
    top = found.top_genes(10)
    for k, place in enumerate(order):
        numbers = [int(name.removeprefix("GENE")) for name in top[place + 1]]
        assert all(25 * k <= number < 25 * k + 25 for number in numbers)
    assert top.shape == (10, 4)
    scores = found.gene_spectra_score.loc[1]
    assert list(scores.sort_values(ascending=False).index[:10]) == list(top[1])


def test_another_rank_is_another_choice_of_the_same_fits(found):
    other = found.at(3)
    assert other.usages.shape[1] == 3
    assert other.consensus is found.consensus
    with pytest.raises(ArgumentError, match="rank=9 was not fitted"):
        found.at(9)


def test_where_no_rank_stands_out_the_highest_stable_one_is_taken(found, monkeypatch):
    fits = found.consensus
    assert rank_to_take(fits) == fits.assess().rank == 4
    none = replace(fits.assess(), low=None, high=None, rank=2)
    monkeypatch.setattr(type(fits), "assess", lambda self: none)
    stable = [rank for rank in fits if fits[rank].silhouette > fits[4].silhouette - 0.05]
    assert rank_to_take(fits) == max(stable)


def test_the_same_call_gives_the_same_programmes(found, made):
    again = programs(made[0], RANKS, n_fits=8, n_top_genes=150, random_state=0)
    pd.testing.assert_frame_equal(again.usages, found.usages)


def test_other_seeds_give_nearly_the_same_programmes(found, made):
    other = programs(made[0], 4, n_fits=8, n_top_genes=150, random_state=1)
    assert matched(other.usages, found.usages.to_numpy())[1].min() > 0.999


def test_under_kullback_leibler_counts_are_fitted(made):
    found = programs(
        made[0], 4, n_fits=4, n_top_genes=150, beta_loss="kullback-leibler", random_state=0
    )
    assert found.prepared.X.max() == made[0][:, found.spectra.columns].X.max()
    assert matched(found.usages, made[1])[1].min() > 0.97


def test_fits_of_too_many_programmes_under_kullback_leibler_converge(made):
    found = programs(
        made[0], 5, n_fits=2, n_top_genes=150, beta_loss="kullback-leibler", max_iter=2000
    )
    assert found.consensus.converged


def test_genes_are_scaled_under_the_squared_error(found):
    dense = np.asarray(found.prepared.X.todense())
    np.testing.assert_allclose(dense.var(axis=0, ddof=1), 1, rtol=1e-4)


def test_cells_without_counts_of_the_genes_have_no_usages(adata):
    X = adata.X.tolil()
    X[5] = 0  # nothing at all
    X[9] = 0
    X[9, 200] = 50  # only a gene that is not fitted
    adata.X = X.tocsr()
    adata.var["first"] = np.arange(adata.n_vars) < 100
    with pytest.warns(UserWarning, match="2 cells have no counts.*: cell5, cell9"):
        found = programs(adata, 3, n_fits=2, mask_var="first")
    assert list(found.spectra.columns) == list(adata.var_names[:100])
    assert "cell9" not in found.usages.index
    usages = found.add_to(adata).obsm["usages"]
    sums = usages.sum(axis=1)
    assert sums[[5, 9]].tolist() == [0, 0]
    np.testing.assert_allclose(np.delete(sums, [5, 9]), 1)
    assert adata.obs["program"].isna().sum() == 2


def test_genes_may_have_the_same_name(adata):
    X = adata.X.tolil()
    X[9] = 0
    X[9, 200] = 50  # a gene that is not fitted, but has the name of one that is
    adata.X = X.tocsr()
    adata.var["first"] = np.arange(adata.n_vars) < 100
    names = adata.var_names.to_numpy(dtype=object, copy=True)
    names[200] = names[0]
    adata.var_names = names
    with pytest.warns(UserWarning, match="1 cell has no counts"):
        found = programs(adata, 3, n_fits=2, mask_var="first")
    assert list(found.spectra.columns) == list(names[:100])
    found.add_to(adata)
    assert adata.var["program_genes"].tolist() == adata.var["first"].tolist()


def test_values_that_are_no_counts_are_warned_of(adata):
    adata.layers["counts"] = adata.X.copy()
    adata.X = adata.X.log1p()
    with pytest.warns(UserWarning, match="not whole numbers.*layer='counts'"):
        programs(adata, 3, n_fits=2, n_top_genes=100)


@pytest.fixture
def sampled(made):
    adata, usages, _ = made
    adata = adata.copy()
    last = usages.argmax(axis=1) == 3
    adata.obs["donor"] = np.where(last, "C", np.where(np.arange(len(last)) % 2, "A", "B"))
    return adata[last | (usages[:, 3] < 0.02)].copy()


def test_a_programme_of_one_sample_is_warned_of(sampled):
    with pytest.warns(UserWarning, match="nearly all use of programme . is in sample 'C'"):
        found = programs(sampled, 4, n_fits=4, n_top_genes=150, sample_key="donor")
    table = found.sample_usages()
    assert list(table.index) == ["A", "B", "C"]
    expected = found.usages[(sampled.obs["donor"] == "A").to_numpy()].mean()
    np.testing.assert_allclose(table.loc["A"], expected)
    assert list(found.of_one_sample().values()) == ["C"]


def test_samples_must_be_there(adata):
    with pytest.raises(ArgumentError, match=r"sample_key='batch' is no column of adata.obs"):
        programs(adata, 3, sample_key="batch")


def test_scanpy_finds_them_in_the_anndata(found, adata, tmp_path):
    before = list(adata.obs)
    assert found.add_to(adata) is adata
    adata.write_h5ad(tmp_path / "result.h5ad")
    read = sc.read_h5ad(tmp_path / "result.h5ad")
    np.testing.assert_array_equal(read.obsm["usages"], found.usages)
    assert list(read.obs)[len(before) :] == [f"usage_{k}" for k in range(1, 5)] + ["program"]
    np.testing.assert_array_equal(read.obs["usage_2"], found.usages[2])
    largest = found.usages.idxmax(axis=1).astype(str)
    assert read.obs["program"].astype(str).tolist() == largest.tolist()
    for name in ("gene_spectra_score", "gene_spectra_tpm"):
        np.testing.assert_array_equal(read.varm[name][:290], getattr(found, name).T)
        assert not read.varm[name][290:].any()
    assert set(read.var_names[read.var["program_genes"]]) == set(found.spectra.columns)
    facts = read.uns["programs"]
    assert facts["n_components"] == 4
    assert list(facts["ranks"]["rank"]) == list(RANKS)
    assert list(facts["top_genes"]["1"]) == list(found.top_genes()[1])
    frame = sc.get.obs_df(read, keys=["usage_1", "program"])
    assert frame["usage_1"].between(0, 1).all()


def test_another_anndata_is_refused(found, adata):
    with pytest.raises(ArgumentError, match="adata has 10 cells, and the programmes are of 240"):
        found.add_to(adata[:10].copy())
    with pytest.raises(TypeError, match="adata=3 is a int; expected the AnnData that was analysed"):
        found.add_to(3)


@pytest.mark.parametrize("coordinates", [np.ones((5, 2)), np.ones(240), np.ones((240, 1))])
def test_coordinates_of_other_cells_are_refused(found, tmp_path, coordinates):
    with pytest.raises(ArgumentError, match=r"coordinates has shape .*expected \(240, 2\)"):
        found.write(tmp_path, coordinates=coordinates)


def test_names_of_files_and_numbers_of_genes_are_checked(found, tmp_path):
    with pytest.raises(ArgumentError, match="name='a/b' is not the beginning of a file name"):
        found.write(tmp_path, "a/b")
    with pytest.raises(ArgumentError, match="n=0 is out of range"):
        found.top_genes(0)


def test_raw_takes_the_place_of_an_anndata_with_fewer_genes(adata):
    adata.raw = adata.copy()
    small = adata[:, 50:90].copy()
    found = programs(small, 3, layer="raw", n_fits=2, n_top_genes=100)
    assert found.add_to(small).n_vars == 300


def test_files_have_the_names_and_the_layout_of_cnmf(found, tmp_path):
    found.write(tmp_path, "cells", np.random.default_rng(0).normal(size=(240, 2)))
    names = {path.name for path in tmp_path.iterdir()}
    assert names >= {
        "cells.usages.k_4.dt_0_5.consensus.txt",
        "cells.spectra.k_4.dt_0_5.consensus.txt",
        "cells.gene_spectra_score.k_4.dt_0_5.txt",
        "cells.gene_spectra_tpm.k_4.dt_0_5.txt",
        "cells.overdispersed_genes.txt",
        "cells.k_selection.png",
        "cells.clustering.k_4.dt_0_5.png",
        "cells.umap.k_4.dt_0_5.png",
    }

    def read(kind):
        return pd.read_csv(tmp_path / f"cells.{kind}.txt", sep="\t", index_col=0)

    for kind, table in {
        "usages.k_4.dt_0_5.consensus": found.usages,
        "spectra.k_4.dt_0_5.consensus": found.spectra,
        "gene_spectra_score.k_4.dt_0_5": found.gene_spectra_score,
        "gene_spectra_tpm.k_4.dt_0_5": found.gene_spectra_tpm,
    }.items():
        own = read(kind)
        assert list(own.index) == list(table.index)
        assert list(map(str, own.columns)) == list(map(str, table.columns))
        np.testing.assert_allclose(own, table, rtol=1e-8)
    assert list(read("top_genes.k_4.dt_0_5")["3"]) == list(found.top_genes()[3])
    assert list(read("k_selection_stats").index) == list(RANKS)
    genes = (tmp_path / "cells.overdispersed_genes.txt").read_text().split("\n")
    assert genes == list(found.spectra.columns)


def test_it_prints_the_top_genes(found):
    text = repr(found)
    assert text.startswith("4 gene programmes in 240 cells")
    assert ", ".join(found.top_genes(8)[1]) in text


def test_an_anndata_of_one_sample_has_no_programme_of_one_sample(adata):
    adata.obs["donor"] = "A"
    found = programs(adata, 3, n_fits=2, n_top_genes=100, sample_key="donor")
    assert found.of_one_sample() == {}
    assert isinstance(adata, anndata.AnnData)


def test_tables_are_written_as_pandas_writes_them(tmp_path):
    values = np.random.default_rng(0).random((4, 3)) * 10.0 ** np.arange(-12, 12, 2).reshape(4, 3)
    names = ["plain", 'with "quotes"', "with\ttab", ""]
    table = pd.DataFrame(values, index=names, columns=["a", "b, c", "d"])
    tables = [table, table.astype(np.float32), table.rename_axis("gene"), table.assign(e="text")]
    tables.append(table.where(table > 1e-6))
    for each in tables:
        write_table(each, tmp_path / "ours.txt")
        each.to_csv(tmp_path / "pandas.txt", sep="\t", float_format="%.9g")
        assert (tmp_path / "ours.txt").read_bytes() == (tmp_path / "pandas.txt").read_bytes()
