import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import nmfmerge
from nmfmerge import datasets, export, metrics
from nmfmerge.datasets import Axis, Dataset
from nmfmerge.storage.result_tables import fit_tables

FACTORS = arrays(
    np.float64, st.tuples(st.integers(1, 8), st.integers(1, 5)), elements=st.floats(0, 1e300)
)


def test_a_gene_that_is_high_everywhere_stands_for_no_component(rng):
    """A housekeeping gene leads by weight in every component, and by specificity in none."""
    programs = np.kron(np.eye(5), np.ones((20, 1))) * rng.uniform(0.5, 2, (100, 5))
    programs[0] = 30 + rng.random(5)
    data = Dataset(
        "x",
        programs @ rng.gamma(0.5, size=(5, 200)),
        5,
        Axis("gene", np.array(["ACTB", *(f"G{i}" for i in range(1, 100))])),
        Axis("cell", np.arange(200)),
    )
    result = nmfmerge.nmf_merge(data.X, 5, tol=1e-6)
    assert result.fitting_error < 0.01
    by_weight = [data.rows.values[np.argmax(w)] for w in result.W.T]
    assert by_weight == ["ACTB"] * 5
    top = pd.DataFrame(export.top_names(result, data, "gene", 10))
    assert "ACTB" not in top["name"].tolist()
    assert top["name"].is_unique


def test_the_specificity_is_the_divergence_of_the_components(rng):
    from scipy.stats import entropy

    F = rng.random((30, 4)) * (rng.random((30, 4)) < 0.7)
    parts = F / F.sum(axis=0)
    mixture = parts.mean(axis=1)
    divergences = [entropy(p, mixture, base=2) for p in parts.T]
    np.testing.assert_allclose(metrics.specificity(F).sum(axis=0), divergences)


@given(FACTORS)
def test_the_specificity_is_finite_and_knows_no_scale(F):
    scores = metrics.specificity(F)
    assert np.isfinite(scores).all()
    assert (scores[F == 0] == 0).all()
    if F.shape[1] == 1:
        assert not scores.any()
    factors = 2.0 ** np.arange(-F.shape[1], 0)
    if F.size and F[F > 0].min(initial=1.0) > 1e-280:
        np.testing.assert_array_equal(metrics.specificity(F * factors), scores)


def test_entries_without_weight_are_not_named():
    F = np.array([[1.0, 0], [2, 0], [0, 5]])
    data = Dataset("x", None, 2, Axis("word", np.array(["a", "b", "c"])), Axis("x", np.arange(4)))
    result = nmfmerge.nmf(F @ np.ones((2, 4)) + 0.0, 2)
    from dataclasses import replace

    result = replace(result, W=F, H=np.ones((2, 4)))
    assert [(t.component, t.rank, t.name) for t in export.top_names(result, data, "word")] == [
        (1, 1, "b"), (1, 2, "a"), (2, 1, "c"),
    ]  # fmt: skip
    with pytest.raises(ValueError, match="axis='gene' is not an axis of 'x': expected 'word' or"):
        export.top_names(result, data, "gene")


def test_each_axis_with_names_gets_its_table(tmp_path, rng):
    X = rng.random((50, 6))
    words, documents = np.array([f"w{i}" for i in range(50)]), np.array(list("uvwxyz"))
    result = nmfmerge.nmf(X, 2)
    for rows, columns, files in (
        (Axis("word", words), Axis("document", documents), ["top-documents.csv", "top-words.csv"]),
        (Axis("word", words), Axis("time", np.arange(6)), ["top-words.csv"]),
        (Axis("a/b c", words), Axis("column", documents), ["top-a-b-cs.csv", "top-columns.csv"]),
        (Axis("x", words), Axis("x", documents), ["top-xs-of-columns.csv", "top-xs.csv"]),
        (
            Axis("a long title A", words),
            Axis("a long title a and more", documents),
            ["top-a-long-title-As.csv", "top-a-long-title-as-of-columns.csv"],
        ),
        (Axis("x", np.arange(50)), Axis("y", np.arange(6)), []),
    ):
        folder = tmp_path / rows.name.replace("/", "") / columns.name
        export.write(result, Dataset("x", X, None, rows, columns), folder)
        assert sorted(file.name for file in folder.glob("top-*")) == files
    table = pd.read_csv(tmp_path / "word" / "time" / "top-words.csv")
    assert table.columns.tolist() == [
        "component", "component name", "rank", "word", "weight", "specificity",
    ]  # fmt: skip
    assert table["component name"].tolist() == [f"component {k}" for k in table["component"]]
    assert table["rank"].tolist() == [*range(1, 31)] * 2
    places = [int(name[1:]) for name in table["word"]]
    components = table["component"].to_numpy() - 1
    np.testing.assert_allclose(table["weight"], result.W[places, components])
    scores = metrics.specificity(result.W)
    np.testing.assert_allclose(table["specificity"], scores[places, components])
    for k in range(2):
        part = table["specificity"][components == k].to_numpy()
        assert part.tolist() == sorted(part, reverse=True)
        assert part[0] == pytest.approx(scores[:, k].max())


@pytest.mark.parametrize("kind", ["parquet", "xlsx"])
def test_tables_of_names_have_the_format_of_the_others(tmp_path, rng, kind):
    X = rng.random((50, 6))
    axes = (
        Axis("word", np.array([f"w{i}" for i in range(50)])),
        Axis("document", np.array(list("abcdef"))),
    )
    data, result = Dataset("x", X, None, *axes), nmfmerge.nmf(X, 2)
    export.write(result, data, tmp_path, tables=kind)
    table = (
        pd.read_parquet(tmp_path / "top-words.parquet")
        if kind == "parquet"
        else pd.read_excel(tmp_path / "tables.xlsx", "top-words")
    )
    assert not list(tmp_path.glob("*.csv"))
    expected = pd.DataFrame(export.top_names(result, data, "word"))
    expected = expected.rename(columns={"component_name": "component name", "name": "word"})
    pd.testing.assert_frame_equal(table, expected)


@pytest.mark.parametrize("name", ["component", "component name", "rank", "name", "weight"])
@pytest.mark.parametrize("kind", ["csv", "parquet", "xlsx"])
def test_an_axis_called_as_a_column_of_the_table_gives_no_column_twice(tmp_path, name, kind, rng):
    X = rng.random((5, 6))
    axes = Axis(name, np.array(list("abcde"))), Axis("x", np.arange(6))
    data = Dataset("x", X, None, *axes)
    export.write(nmfmerge.nmf(X, 2), data, tmp_path, tables=kind)
    (table,) = (t for t in fit_tables(nmfmerge.nmf(X, 2), data) if t.name.startswith("top-"))
    assert table.heads == ["component", "component name", "rank", "name", "weight", "specificity"]


def test_names_of_components_stand_beside_their_numbers(rng):
    from dataclasses import replace

    X = rng.random((5, 6))
    data = Dataset("x", X, None, Axis("gene", np.array(list("abcde"))), Axis("x", np.arange(6)))
    result = replace(nmfmerge.nmf(X, 2), names=("B cells", "B cells"))
    top = export.top_names(result, data, "gene", 2)
    assert [(t.component, t.component_name) for t in top] == [
        (1, "B cells"), (1, "B cells"), (2, "B cells"), (2, "B cells"),
    ]  # fmt: skip


def test_genes_of_real_cells_do_not_repeat_by_specificity(real):
    """Of the ten first genes, how many are those of more than half of the components."""
    import scipy.sparse as sp

    folder = Path(os.environ["NMFMERGE_DATA"])
    X = sp.load_npz(folder / "pbmc3k_sparse.npz").astype(np.float64)  # genes × cells
    result = nmfmerge.nmf_merge(X, 10, n_init=1)
    named = Axis("gene", np.arange(X.shape[0]))
    data = datasets.Dataset("pbmc3k", X, 10, named, Axis("cell", np.arange(X.shape[1])))
    by_weight = np.argsort(-result.W, axis=0)[:10].ravel()
    top = pd.DataFrame(export.top_names(result, data, "gene", 10))
    by_specificity = top["name"].astype(int).to_numpy()
    weight, specific = (
        np.bincount(genes, minlength=X.shape[0]) for genes in (by_weight, by_specificity)
    )
    assert (weight > 5).sum() > 0
    assert (specific > 5).sum() == 0
    assert (specific > 0).sum() > 1.3 * (weight > 0).sum()
