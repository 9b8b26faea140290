import warnings

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import nmfmerge
from nmfmerge import datasets, export, metrics
from nmfmerge.io import read

CELLS = [f"cell-{i}" for i in range(60)]
GENES = [f"G{i}" for i in range(40)]


@pytest.fixture
def adata(rng):
    counts = rng.poisson(8 * rng.random((60, 4)) ** 3 @ rng.random((4, 40)) ** 2)
    counts[:, :2] += 1  # no cell without counts
    made = anndata.AnnData(
        sp.csr_matrix(counts, dtype=np.float32),
        obs=pd.DataFrame({"batch": pd.Categorical(["a", "b"] * 30)}, index=CELLS),
        var=pd.DataFrame({"id": np.arange(40)}, index=GENES),
        uns={"note": "mine"},
    )
    made.layers["logs"] = np.log1p(counts)
    made.obsm["X_umap"] = rng.random((60, 2))
    return made


@pytest.fixture
def written(tmp_path, adata):
    adata.write_h5ad(tmp_path / "a.h5ad")
    return tmp_path / "a.h5ad"


@pytest.fixture
def fitted(
    command,
    written,
    tmp_path,
):
    """The folder that `nmfmerge fit` writes for it, with options."""

    def fit(*options):
        code, _, err = command(
            "fit", written, "-r", 3, "--loss", "frobenius", "--no-report", "-o", tmp_path / "f",
            *options,
        )  # fmt: skip
        assert (code, err) == (0, "")
        return tmp_path / "f"

    return fit


@pytest.fixture
def quiet_scanpy(monkeypatch):
    """Scanpy without a screen, and without the warnings that it raises by itself."""
    import matplotlib as mpl

    mpl.use("Agg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import scanpy

        yield scanpy
    mpl.pyplot.close("all")


@pytest.mark.parametrize("options", [(), ("--transpose",), ("--layer", "logs")])
def test_a_fit_of_h5ad_comes_back_as_h5ad(adata, fitted, options):
    folder = fitted(*options)
    back = anndata.read_h5ad(folder / "result.h5ad")
    factors = np.load(folder / "factors.npz")
    W, H = factors["W"], factors["H"]
    cells, genes = (H.T, W) if "--transpose" in options else (W, H.T)
    np.testing.assert_array_equal(back.obsm["X_nmf"], cells)
    np.testing.assert_array_equal(back.varm["NMF"], genes)
    np.testing.assert_array_equal(back.X.toarray(), adata.X.toarray())
    np.testing.assert_array_equal(back.layers["logs"], adata.layers["logs"])
    np.testing.assert_array_equal(back.obsm["X_umap"], adata.obsm["X_umap"])
    assert back.uns["note"] == "mine"
    pd.testing.assert_frame_equal(back.obs[["batch"]], adata.obs)
    pd.testing.assert_frame_equal(back.var, adata.var)
    facts = back.uns["nmf"]
    assert facts.get("layer") == ("logs" if "--layer" in options else None)
    fit = adata.layers["logs"] if "--layer" in options else adata.X.toarray()
    assert facts["fitting_error"] == pytest.approx(metrics.fitting_error(fit, cells, genes.T))
    assert facts["n_components"] == 3
    assert list(facts["names"]) == ["1", "2", "3"]
    np.testing.assert_allclose(facts["shares"], metrics.shares(W, H))
    assert facts["settings"]["n_components"] == 3
    assert facts["version"] == nmfmerge.__version__
    most = (cells * genes.sum(axis=0)).argmax(axis=1) + 1
    assert back.obs["nmf"].tolist() == [str(k) for k in most]


def test_scanpy_draws_and_computes_with_the_components(fitted, quiet_scanpy):
    sc = quiet_scanpy
    back = anndata.read_h5ad(fitted() / "result.h5ad")
    axes = sc.pl.embedding(back, basis="X_nmf", color="nmf", components="2,3", show=False)
    drawn = np.concatenate([c.get_offsets() for c in axes.collections if len(c.get_offsets())])
    np.testing.assert_allclose(drawn, back.obsm["X_nmf"][:, 1:])
    sc.pp.neighbors(back, use_rep="X_nmf", n_neighbors=5, method="gauss")  # UMAP's compiles
    far = back.obsp["distances"].toarray()
    i, j = np.argwhere(far)[7]
    assert far[i, j] == pytest.approx(
        np.linalg.norm(back.obsm["X_nmf"][i] - back.obsm["X_nmf"][j]), rel=1e-4
    )
    sc.pl.ranking(back, attr="varm", keys="NMF", indices=[0, 2], n_points=5, show=False)
    figure = sc.plotting._utils.plt.gcf()
    for axes, k in zip(figure.axes, (0, 2), strict=True):
        heaviest = np.argsort(-back.varm["NMF"][:, k])[: len(axes.texts)]
        assert len(heaviest) >= 5
        assert [text.get_text() for text in axes.texts] == [GENES[i] for i in heaviest]
        heights = [text.get_position()[1] for text in axes.texts]
        np.testing.assert_allclose(heights, back.varm["NMF"][heaviest, k])


def test_scanpy_ranks_the_genes_of_components_by_specificity(fitted, quiet_scanpy):
    sc = quiet_scanpy
    folder = fitted()
    back = anndata.read_h5ad(folder / "result.h5ad")
    top = pd.read_csv(folder / "top-genes.csv")
    scores = metrics.specificity(back.varm["NMF"])
    for k in range(3):
        ranked = sc.get.rank_genes_groups_df(back, group=str(k + 1), key="rank_genes_nmf")
        expected = top[top["component"] == k + 1]
        n = min(len(ranked), len(expected))
        assert n > 5
        assert ranked["names"].tolist()[:n] == expected["gene"].tolist()[:n]
        places = [GENES.index(name) for name in ranked["names"]]
        np.testing.assert_allclose(ranked["scores"], scores[places, k], rtol=1e-6)
        assert ranked["pvals"].isna().all()
    sc.pl.rank_genes_groups(back, key="rank_genes_nmf", n_genes=4, show=False)
    figure = sc.plotting._utils.plt.gcf()
    drawn = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert drawn == [name for _, part in top.groupby("component") for name in part["gene"][:4]]
    sc.pl.rank_genes_groups_dotplot(
        back, key="rank_genes_nmf", n_genes=3, dendrogram=False, show=False
    )
    pd.testing.assert_frame_equal(
        back.uns["nmf"]["top_genes"].reset_index(drop=True),
        top,
        check_dtype=False,
    )


def test_genes_without_counts_that_were_dropped_are_zero(adata, written, tmp_path):
    adata.X = adata.X.toarray()
    adata.X[:, [3, 11]] = 0
    adata.X[7] = 0
    adata.write_h5ad(written)
    data = read(written, drop_zero_columns=True, drop_zero_rows=True)
    assert data.X.shape == (59, 38)
    result = nmfmerge.nmf(data.X, 3)
    assert export.write(result, data, tmp_path / "out") == {}
    back = anndata.read_h5ad(tmp_path / "out" / "result.h5ad")
    assert back.shape == (60, 40)
    kept = np.setdiff1d(np.arange(40), [3, 11])
    np.testing.assert_array_equal(back.varm["NMF"][kept], result.H.T)
    assert not back.varm["NMF"][[3, 11]].any()
    assert not back.obsm["X_nmf"][7].any()
    assert pd.isna(back.obs["nmf"].iloc[7])


def test_other_data_of_cells_and_genes_become_a_new_anndata(rng):
    X = sp.random(9, 6, 0.7, format="csr", rng=rng)
    axes = datasets.Axis("gene", np.array(list("abcdefghi"))), datasets.Axis("cell", np.arange(6))
    data = datasets.Dataset("x", X, None, *axes)
    result = nmfmerge.nmf(X, 2)
    made = export.to_anndata(result, data)
    assert made.shape == (6, 9)
    np.testing.assert_array_equal(made.X.toarray(), X.T.toarray())
    assert made.var_names.tolist() == list("abcdefghi")
    assert made.obs_names.tolist() == list("012345")
    np.testing.assert_array_equal(made.obsm["X_nmf"] @ made.varm["NMF"].T, (result.W @ result.H).T)


def test_an_anndata_is_updated_in_place_and_must_have_the_genes(adata, written):
    data = read(written)
    result = nmfmerge.nmf(data.X, 2)
    assert export.to_anndata(result, data, adata) is adata
    np.testing.assert_array_equal(adata.obsm["X_nmf"], result.W)
    with pytest.raises(ValueError, match="adata has 30 genes and the fit has 40"):
        export.to_anndata(result, data, adata[:, :30].copy())
    other = datasets.Dataset("x", data.X, None, datasets.Axis("row", np.arange(60)), data.columns)
    with pytest.raises(ValueError, match="expected 'cell' and 'gene'"):
        export.to_anndata(result, other)


def test_cells_and_genes_are_matched_by_name(adata, written):
    data = read(written)
    result = nmfmerge.nmf(data.X, 2)
    order = np.random.default_rng(1).permutation(60)
    shuffled = export.to_anndata(result, data, adata[order].copy())
    np.testing.assert_array_equal(shuffled.obsm["X_nmf"], result.W[order])


@pytest.mark.parametrize(
    "change",
    [
        lambda names: [f"other {name}" for name in names],
        lambda names: [*names[1:], names[1]],  # one is there twice, one is not
        lambda names: names[: len(names) // 2] * 2,
    ],
    ids=["other", "one", "half"],
)
@pytest.mark.parametrize("side", ["obs_names", "var_names"])
def test_an_anndata_of_other_cells_or_genes_is_refused(adata, written, change, side):
    """Also where there are as many of them."""
    data = read(written)
    result = nmfmerge.nmf(data.X, 2)
    setattr(adata, side, change(CELLS if side == "obs_names" else GENES))
    with pytest.raises(ValueError, match="not all among them by a name of their own"):
        export.to_anndata(result, data, adata)


def repeat_names(adata, rng, n_names):
    """Give the genes of an AnnData so few names that some of them are the same."""
    adata.var_names = [f"G{i}" for i in rng.integers(0, n_names, adata.n_vars)]
    assert not adata.var_names.is_unique


@pytest.mark.filterwarnings("ignore:Variable names are not unique")
@pytest.mark.parametrize("n_names", [1, 5, 30])
def test_repeated_names_go_by_order_and_another_order_is_refused(adata, tmp_path, rng, n_names):
    repeat_names(adata, rng, n_names)
    adata.write_h5ad(tmp_path / "b.h5ad")
    data = read(tmp_path / "b.h5ad")
    result = nmfmerge.nmf(data.X, 2)
    made = export.to_anndata(result, data, adata.copy())
    np.testing.assert_array_equal(made.varm["NMF"], result.H.T)
    if n_names > 1:
        with pytest.raises(ValueError, match="adata has 40 genes and the fit has 40"):
            export.to_anndata(result, data, adata[:, ::-1].copy())


@pytest.mark.filterwarnings("ignore:Variable names are not unique")
@pytest.mark.filterwarnings("ignore:Observation names are not unique")
@pytest.mark.parametrize("options", [(), ("--layer", "logs"), ("--transpose",)])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("named", [False, True])
def test_repeated_names_with_zeros_dropped_find_their_places(
    adata, written, fitted, rng, tmp_path, options, dense, named
):
    zero = np.sort(rng.choice(40, 7, replace=False))
    X = adata.X.toarray()
    X[:, zero] = 0
    X[[4, 9]] = 0
    adata.X = X if dense else sp.csr_matrix(X)
    adata.layers["logs"] = np.log1p(X)
    if "logs" in options:
        adata.X = np.ones_like(X)  # only the layer tells
    repeat_names(adata, rng, 12)
    adata.obs_names = ["same"] * 60
    adata.write_h5ad(written)
    if named:
        side = "--row-names" if "--transpose" in options else "--column-names"
        (tmp_path / "mine.txt").write_text("\n".join(f"mine{i}" for i in range(40)))
        options = (*options, side, str(tmp_path / "mine.txt"))
    folder = fitted("--drop-zero-columns", "--drop-zero-rows", *options)
    back = anndata.read_h5ad(folder / "result.h5ad")
    factors = np.load(folder / "factors.npz")
    W, H = factors["W"], factors["H"].T
    cells, genes = (H, W) if "--transpose" in options else (W, H)
    kept = np.setdiff1d(np.arange(40), zero)
    np.testing.assert_array_equal(back.varm["NMF"][kept], genes)
    assert not back.varm["NMF"][zero].any()
    np.testing.assert_array_equal(back.obsm["X_nmf"][np.setdiff1d(np.arange(60), [4, 9])], cells)


@pytest.mark.parametrize("few", [0, 1, 3])
def test_a_component_with_few_genes_takes_none_from_the_others(
    adata, written, few, quiet_scanpy, tmp_path
):
    from dataclasses import replace

    sc, data = quiet_scanpy, read(written)
    result = nmfmerge.nmf(data.X, 3)
    H = result.H + 0.01
    H[1, few:] = 0
    made = export.to_anndata(replace(result, H=H), data, adata)
    made.write_h5ad(tmp_path / "b.h5ad")
    back = anndata.read_h5ad(tmp_path / "b.h5ad")
    for k in range(3):
        ranked = sc.get.rank_genes_groups_df(back, group=str(k + 1), key="rank_genes_nmf")
        assert sorted(ranked["names"]) == sorted(GENES)
        weights = back.varm["NMF"][[GENES.index(name) for name in ranked["names"]], k]
        n = few if k == 1 else 40
        assert (weights[:n] > 0).all()
        assert (np.diff(ranked["scores"][:n]) <= 0).all()
        assert not weights[n:].any()
        assert (ranked["scores"][n:] == 0).all()
    sc.pl.rank_genes_groups(back, key="rank_genes_nmf", n_genes=4, show=False)
    axes = sc.plotting._utils.plt.gcf().axes
    assert [len(one.texts) for one in axes] == [4, 4, 4]


def test_a_file_of_which_a_part_cannot_be_read_gives_a_new_anndata(adata, written, fitted):
    import h5py

    with h5py.File(written, "a") as file:
        file["uns"].attrs["encoding-version"] = "99.0.0"
    back = anndata.read_h5ad(fitted() / "result.h5ad")
    np.testing.assert_array_equal(back.X.toarray(), adata.X.toarray())
    assert back.obsm["X_nmf"].shape == (60, 3)
    assert "note" not in back.uns


def test_a_fit_is_not_lost_for_an_export_that_fails(
    fitted, command, written, tmp_path, monkeypatch
):
    def fail(*_, **__):
        raise KeyError("what")

    monkeypatch.setattr("nmfmerge.export.single_cell._put", fail)
    code, out, _ = command("fit", written, "-r", 3, "--no-report", "-o", tmp_path / "f")
    assert code == 0
    assert "not written: the export 'anndata' failed ('what')" in out
    assert (tmp_path / "f" / "top-genes.csv").exists()
    assert not (tmp_path / "f" / "result.h5ad").exists()
    with pytest.raises(KeyError):
        export.write(nmfmerge.nmf(read(written).X, 2), read(written), tmp_path / "g")


def test_names_of_components_are_kept(adata, written, tmp_path):
    from dataclasses import replace

    data = read(written)
    result = replace(nmfmerge.nmf(data.X, 3), names=("B/T cells", "same", "same"))
    made = export.to_anndata(result, data, adata)
    made.write_h5ad(tmp_path / "b.h5ad")
    back = anndata.read_h5ad(tmp_path / "b.h5ad")
    assert list(back.uns["nmf"]["names"]) == ["B/T cells", "same", "same"]
    assert back.uns["rank_genes_nmf"]["names"].dtype.names == ("1: B/T cells", "2: same", "3: same")


@pytest.mark.parametrize("n_genes", [40, 25])
def test_a_fit_of_raw_is_written_with_the_genes_of_raw(tmp_path, adata, command, n_genes):
    scaled = adata[:, :n_genes].copy()
    scaled.raw = adata
    scaled.X = scaled.X.toarray() - scaled.X.toarray().mean(axis=0)
    scaled.write_h5ad(tmp_path / "a.h5ad")
    options = ["-r", 3, "--loss", "frobenius", "--no-report", "-o", tmp_path / "f"]
    options += ["--layer", "raw"]
    code, _, err = command("fit", tmp_path / "a.h5ad", *options)
    assert (code, err) == (0, "")
    back = anndata.read_h5ad(tmp_path / "f" / "result.h5ad")
    assert back.var_names.tolist() == GENES
    assert back.varm["NMF"].shape == (40, 3)
    assert back.uns["nmf"]["layer"] == "raw"
    assert back.obs["batch"].tolist() == adata.obs["batch"].tolist()
    fit = metrics.fitting_error(adata.X, back.obsm["X_nmf"], back.varm["NMF"].T)
    assert back.uns["nmf"]["fitting_error"] == pytest.approx(fit, rel=1e-4)


def test_the_command_says_where_the_counts_of_scaled_cells_are(tmp_path, adata, command):
    adata.layers["counts"] = adata.X.copy()
    adata.X = adata.X.toarray() - adata.X.toarray().mean(axis=0)
    adata.write_h5ad(tmp_path / "a.h5ad")
    code, _, err = command("fit", tmp_path / "a.h5ad", "-r", 3)
    assert code == 1
    assert "read the counts, or their logarithms, with --layer 'counts' or 'logs'" in err
