"""Cells: how much of a component their groups have, never their barcodes."""

import re

import numpy as np
import pytest

from nmfmerge import nmf
from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.explore.cells import groupings
from nmfmerge.explore.explorer import open_path
from nmfmerge.explore.session import Session

anndata = pytest.importorskip("anndata", reason="the extra [single-cell] is not installed")
pandas = pytest.importorskip("pandas")

TYPES = np.array(["B cells", "NK cells", "T cells"])


def barcodes(n):
    rng = np.random.default_rng(5)
    return ["".join(rng.choice(list("ACGT"), 12)) + "-1" for _ in range(n)]


@pytest.fixture
def adata(rng):
    n = 60
    obs = pandas.DataFrame(
        {
            "n_counts": rng.random(n),
            "sample": pandas.Categorical(rng.choice(["one", "two"], n)),
            "cell_type": pandas.Categorical(TYPES[np.arange(n) % 3]),
            "barcode": [f"cell number {i}" for i in range(n)],  # as many as there are cells
            "kit": pandas.Categorical(n * ["v3"]),  # the same for all
        },
        index=barcodes(n),
    )
    genes = pandas.DataFrame(index=[f"gene{i}" for i in range(25)])
    return anndata.AnnData((1.0 + rng.random((n, 25))).astype(np.float32), obs=obs, var=genes)


@pytest.fixture
def open_file(tmp_path):
    """Writes an AnnData and opens it with all ranks up to 3."""
    opened = []

    def open_it(adata):
        adata.write_h5ad(tmp_path / "cells.h5ad")
        session = open_path(tmp_path / "cells.h5ad")
        session.find_path(3)
        session.wait()
        session.go(3)
        session.wait()
        opened.append(session)
        return session

    yield open_it
    for session in opened:
        session.close()


def test_columns_with_a_few_groups_are_found_and_types_come_first(open_file, adata):
    session = open_file(adata)
    assert list(session.groupings) == ["cell_type", "sample"]
    assert session.state.group == "cell_type"
    assert session.groupings["cell_type"].names == tuple(TYPES)


def test_bars_are_the_mean_usage_of_each_group(open_file, page_of, adata):
    session = open_file(adata)
    page = page_of(session)
    W, k = session.state.result.W, session.state.selected
    drawn = page.profiles[0].source.data
    assert drawn["name"] == list(TYPES)
    np.testing.assert_allclose(drawn["y"], [W[i::3, k].mean() for i in range(3)], rtol=1e-5)
    assert page.profiles[0].plot.xaxis.axis_label == "mean usage by cell_type"
    session.group_by("sample")
    page.draw()
    means = [W[adata.obs["sample"] == name, k].mean() for name in ("one", "two")]
    np.testing.assert_allclose(page.profiles[0].source.data["y"], means, rtol=1e-5)
    assert "one" in page.shown.cards
    session.group_by("no such column")
    assert session.state.group == "sample"


@pytest.mark.parametrize("columns", [["cell_type", "sample"], ["sample"], []])
def test_barcodes_are_nowhere_on_the_page(open_file, page_of, adata, columns):
    adata.obs = adata.obs[columns]
    session = open_file(adata)
    session.choose_pair(0, 1)
    page = page_of(session)
    shown = page.shown.cards + page.shown.pairs + page.shown.missing + str(
        page.profiles[0].source.data
    )  # fmt: skip
    assert not re.search("[ACGT]{6}", shown)
    assert "gene" in shown


def test_without_groups_usages_are_sorted(open_file, page_of, adata):
    adata.obs = adata.obs[[]]
    session = open_file(adata)
    page = page_of(session)
    usages = session.state.result.W[:, session.state.selected]
    drawn = page.profiles[0].source.data
    np.testing.assert_allclose(drawn["y"], np.sort(usages)[::-1], rtol=1e-6)
    assert page.profiles[0].plot.xaxis.axis_label == "cells, sorted by usage (%)"
    assert 0 < drawn["x"][0] < drawn["x"][-1] < 100


def test_cells_without_counts_are_left_out_of_their_groups(open_file, adata):
    adata.X[3] = 0
    session = open_file(adata)
    cells = session.data.rows.values
    codes = session.groupings["cell_type"].codes
    assert len(cells) == len(codes)
    expected = adata.obs["cell_type"][cells].cat.codes
    np.testing.assert_array_equal(codes, expected)


def test_cells_of_no_group_do_not_count(open_file, page_of, adata):
    kinds = adata.obs["cell_type"].astype(object)
    kinds.iloc[0] = np.nan
    adata.obs["cell_type"] = kinds.astype("category")
    session = open_file(adata)
    page = page_of(session)
    W, k = session.state.result.W, session.state.selected
    assert page.profiles[0].source.data["y"][0] == pytest.approx(W[3::3, k].mean())


def test_names_that_are_repeated_have_no_groups(adata, tmp_path):
    names = adata.obs_names.to_numpy().copy()
    names[1] = names[0]
    adata.obs.index = names
    adata.write_h5ad(tmp_path / "cells.h5ad")
    axes = Axis("cell", names[::-1]), Axis("gene", adata.var_names.to_numpy())
    data = Dataset("c", adata.X, None, *axes, source=str(tmp_path / "cells.h5ad"))
    assert groupings(data) == {}


def test_other_data_have_no_groups(session):
    assert session.groupings == {}


def test_cells_in_memory_are_sorted(rng, page_of):
    X = rng.random((20, 15))
    axes = (
        Axis("gene", np.array([f"g{i}" for i in range(20)])),
        Axis("cell", np.array(barcodes(15))),
    )
    session = Session(Dataset("m", X, None, *axes), nmf(X, 2, tol=0.1))
    session.wait()
    drawn = page_of(session).profiles[1].source.data
    assert np.all(np.diff(drawn["y"]) <= 0)
    session.close()
