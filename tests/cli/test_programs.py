"""`nmfmerge programs`: from a file of cells to programmes under the names of cNMF."""

import json

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from nmfmerge.cli import programs as command_file
from nmfmerge.jobs import programs
from nmfmerge.results.consensus import Consensus
from nmfmerge.storage import folder

QUICK = ("--ranks", "2-3", "--fits", 3, "--genes", 60)


def cells(n_cells=60, n_genes=90):
    rng = np.random.default_rng(0)
    spectra = rng.gamma(0.4, size=(3, n_genes))
    usages = rng.dirichlet(np.full(3, 0.3), n_cells)
    counts = rng.poisson(1000 * usages @ spectra / spectra.sum(axis=1).mean())
    adata = anndata.AnnData(
        sp.csr_matrix(counts.astype(np.float32)),
        obs=pd.DataFrame({"donor": ["A", "B"] * 30}, index=[f"cell{i}" for i in range(n_cells)]),
        var=pd.DataFrame(index=[f"G{i}" for i in range(n_genes)]),
    )
    adata.obsm["X_umap"] = rng.normal(size=(n_cells, 2))
    return adata


@pytest.fixture
def adata():
    return cells()


@pytest.fixture
def file(adata, tmp_path):
    path = tmp_path / "cells.h5ad"
    adata.write_h5ad(path)
    return path


def test_the_files_are_those_of_the_function(command, file, adata, tmp_path):
    out = tmp_path / "out"
    words = (*QUICK, "-r", 3, "--sample-key", "donor", "--name", "mine", "-o", out)
    code, text, err = command("programs", file, *words)
    assert (code, err) == (0, "")
    found = programs(adata, (2, 3), n_fits=3, n_top_genes=60, sample_key="donor").at(3)
    usages = pd.read_csv(out / "mine.usages.k_3.dt_0_5.consensus.txt", sep="\t", index_col=0)
    np.testing.assert_allclose(usages, found.usages, rtol=1e-8)
    assert repr(found) in text
    names = {path.name for path in out.iterdir()}
    assert names >= {
        "mine.k_selection.png", "mine.clustering.k_3.dt_0_5.png", "mine.umap.k_3.dt_0_5.png",
        "mine.gene_spectra_score.k_3.dt_0_5.txt", "mine.gene_spectra_tpm.k_3.dt_0_5.txt",
        "mine.sample_usages.k_3.dt_0_5.txt", "mine.sample_usages.k_3.dt_0_5.png", "report.html",
    }  # fmt: skip
    result = anndata.read_h5ad(out / "result.h5ad")
    np.testing.assert_array_equal(result.obsm["usages"], found.usages)
    np.testing.assert_array_equal(result.obsm["X_umap"], adata.obsm["X_umap"])
    fit = folder.read(out)
    np.testing.assert_array_equal(fit.result.H, found.rank_consensus.H)
    assert fit.about.settings["n_top_genes"] == 60


def test_json_is_complete(command, file, tmp_path):
    code, text, _ = command("programs", file, *QUICK, "--no-report", "--json", "-o",
                            tmp_path / "out")  # fmt: skip
    said = json.loads(text)
    assert code == 0
    assert [row["rank"] for row in said["ranks"]] == [2, 3]
    assert len(said["top_genes"]["1"]) == 20
    assert said["dropped_cells"] == []


def test_a_folder_of_10x_is_read(command, adata, tmp_path, monkeypatch):
    from scipy.io import mmwrite

    place = tmp_path / "tenx"
    place.mkdir()
    mmwrite(place / "matrix.mtx", adata.X.T.astype(int))
    (place / "barcodes.tsv").write_text("\n".join(adata.obs_names))
    (place / "genes.tsv").write_text("\n".join(f"E{i}\t{g}" for i, g in enumerate(adata.var_names)))
    out = tmp_path / "out"
    assert command("programs", place, *QUICK, "--no-report", "-o", out)[0] == 0
    result = anndata.read_h5ad(out / "result.h5ad")
    assert list(result.obs_names) == list(adata.obs_names)
    assert (result.X != adata.X).nnz == 0


def test_a_table_without_cells_and_genes_is_refused_until_its_axes_are_named(
    command, adata, tmp_path
):
    file, out = tmp_path / "table.npy", tmp_path / "out"
    np.save(file, adata.X.T.toarray())
    code, _, err = command("programs", file, *QUICK, "-o", out)
    assert code == 1
    assert "the file has 'row' and 'column'; expected 'cell' and 'gene'" in err
    assert "--rows gene and --columns cell" in err.replace("'", "")
    words = ("--rows", "gene", "--columns", "cell", "--no-report", "-o", out)
    assert command("programs", file, *QUICK, *words)[0] == 0
    assert anndata.read_h5ad(out / "result.h5ad").shape == adata.shape


def test_scaled_values_are_refused_with_the_layer_to_type(command, adata, tmp_path):
    adata.layers["counts"] = adata.X.copy()
    adata.X = np.asarray(adata.X.todense()) - 1
    adata.write_h5ad(tmp_path / "scaled.h5ad")
    code, _, err = command("programs", tmp_path / "scaled.h5ad", *QUICK, "-o", tmp_path / "out")
    assert code == 1
    assert "the file has negative values in X" in err
    assert "choose --layer 'counts'" in err
    words = ("--layer", "counts", *QUICK, "--no-report", "-o", tmp_path / "out")
    assert command("programs", tmp_path / "scaled.h5ad", *words)[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-r", 9], "--rank 9 is not fitted; expected one of 2, 3"),
        (["--sample-key", "batch"], "--sample-key 'batch' is no column of adata.obs; expected"),
        (["--genes", 1], "--genes 1 is out of range"),
        (["--name", "in/it"], "--name 'in/it' is not the beginning of a file name"),
        (["--transpose"], "--transpose is not for .h5ad files"),
    ],
)
def test_wrong_options_are_named_as_typed(command, file, tmp_path, words, message):
    code, _, err = command("programs", file, *QUICK, *words, "-o", tmp_path / "out")
    assert code == 1
    assert message in err
    assert not (tmp_path / "out").exists()


def test_files_that_are_missing_or_no_anndata_are_refused(command, tmp_path):
    code, _, err = command("programs", tmp_path / "no.h5ad", "-o", tmp_path / "out")
    assert code == 1
    assert "no.h5ad was not found" in err
    (tmp_path / "odd.h5ad").write_bytes(b"odd")
    code, _, err = command("programs", tmp_path / "odd.h5ad", "-o", tmp_path / "out")
    assert code == 1
    assert "cannot be read as an AnnData" in err


def test_an_interrupted_run_is_continued(command, file, adata, tmp_path, monkeypatch):
    out = tmp_path / "out"

    def interrupted(data, ranks, **given):
        given["callback"] = lambda progress: progress.n_done >= 3
        programs(data, ranks, **given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(command_file, "programs", lambda data, **given: interrupted(
            data, given.pop("ranks"), **given))  # fmt: skip
        code, _, err = command("programs", file, *QUICK, "--no-report", "-o", out)
        assert code == 130
        assert "continue with the same command and --resume" in err
    assert (tmp_path / "out.unfinished").exists()
    code, _, err = command("programs", file, *QUICK, "--no-report", "-o", out)
    assert code == 1
    assert "continue it with --resume" in err
    assert command("programs", file, *QUICK, "--no-report", "--resume", "-o", out)[0] == 0
    assert not (tmp_path / "out.unfinished").exists()
    whole = programs(adata, (2, 3), n_fits=3, n_top_genes=60)
    assert isinstance(whole.consensus, Consensus)
    np.testing.assert_array_equal(
        anndata.read_h5ad(out / "result.h5ad").obsm["usages"], whole.usages
    )


def test_an_existing_folder_is_kept_unless_forced(command, file, tmp_path):
    words = (*QUICK, "--no-report", "-o", tmp_path / "out")
    assert command("programs", file, *words)[0] == 0
    assert command("programs", file, *words)[0] == 1
    assert command("programs", file, *words, "--force")[0] == 0
