"""Adjusting fits of data with missing values and weights: every number is of the weighted loss."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge import Editor, metrics, nmf
from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.losses.weighted_squares import WeightedSquares

rng = np.random.default_rng(0)
FULL = rng.gamma(0.5, size=(40, 5)) @ rng.gamma(0.5, size=(5, 50)) + 0.2 * rng.random((40, 50))
HIDDEN = rng.random(FULL.shape) < 0.15
WEIGHTS = np.where(HIDDEN, 0, 0.2 + rng.random(FULL.shape))
RATED = np.where(rng.random(FULL.shape) < 0.35, FULL, 0)
DATA = {
    "holes": (np.where(HIDDEN, np.nan, FULL), {}),
    "weights": (FULL, {"weights": WEIGHTS}),
    "row weights": (FULL, {"weights": 0.5 + rng.random((40, 1))}),
    "ratings": (sp.csr_array(RATED), {"missing": "zeros"}),
    "sparse, NaN stored": (sp.csr_array(np.where(HIDDEN & (RATED > 0), np.nan, RATED)), {}),
}
LOSSES = ["frobenius", "kullback-leibler"]
EDITS = (
    ("merge", (0, 3)), ("split", (1,)), ("add", (1,)), ("remove", (2,)), ("merge_to", (4,)),
    ("hold", (0,)), ("polish", ()),
)  # fmt: skip


@pytest.fixture(params=DATA)
def given(request):
    return DATA[request.param]


@pytest.fixture(params=LOSSES)
def loss(request):
    return request.param


@pytest.fixture
def editor(given, loss):
    X, entries = given
    fit = nmf(X, 6, init="random", tol=1e-3, beta_loss=loss, alpha_W=1e-3, **entries)
    return Editor(X, fit, **entries)


def error(given, result):
    X, entries = given
    return metrics.fitting_error(X, result.W, result.H, beta_loss=result.loss, **entries)


def test_every_edit_is_measured_over_the_observed_entries(editor, given):
    n_missing = editor.result().n_missing
    for name, arguments in EDITS:
        preview = editor.preview(name, *arguments)
        before = editor.result()
        result = getattr(editor, name)(*arguments)
        assert result.fitting_error == pytest.approx(error(given, result), rel=1e-10)
        assert result.fitting_error == pytest.approx(preview.after, rel=1e-9)
        assert result.n_missing == n_missing
        editor.undo()
        assert editor.result() is before
        editor.redo()
    np.testing.assert_array_equal(before.W[:, 0], result.W[:, 0])  # it is held


def test_the_table_of_pairs_is_that_of_done_merges(editor):
    table = editor.pair_changes()
    before = editor.fitting_error
    for i, j in ((0, 1), (2, 5), (4, 3)):
        assert table[i, j] == table[j, i]
        change = editor.merge(i, j).fitting_error - before
        assert table[i, j] == pytest.approx(change, rel=1e-7, abs=1e-11 * before)
        editor.undo()


def test_edits_that_add_improve_the_fit(editor):
    before = editor.fitting_error
    for edit in (("split", 0), ("split", 3), ("add", 1), ("add", 2)):
        assert editor.preview(*edit).after <= before * (1 + 1e-6)


def test_merges_and_removals_are_previewed_without_doing_them(monkeypatch):
    editor = Editor(FULL, nmf(FULL, 5, weights=WEIGHTS, tol=1e-2), weights=WEIGHTS)
    editor.pair_changes()
    monkeypatch.setattr(WeightedSquares, "exact_values", None)
    editor.preview("merge", 0, 1)
    editor.preview("remove", 3)


def test_a_preview_near_an_exact_fit_is_exact_too():
    W, H = rng.random((20, 3)), rng.random((3, 25))
    X = np.where(rng.random((20, 25)) < 0.2, np.nan, W @ H)
    editor = Editor(X, np.hstack([W, W[:, :1]]), np.vstack([H, H[:1]]) / [[2], [1], [1], [2]])
    preview = editor.preview("merge", 0, 3)
    assert 0 <= preview.after < 1e-25
    assert editor.merge(0, 3).fitting_error == preview.after


def test_missing_entries_may_hold_anything(loss):
    fit = nmf(FULL, 5, weights=WEIGHTS, beta_loss=loss, tol=1e-2)
    results = []
    for X in (FULL, np.where(HIDDEN, 1e9, FULL), np.where(HIDDEN, np.nan, FULL)):
        editor = Editor(X, fit, weights=WEIGHTS)
        for name, arguments in EDITS:
            getattr(editor, name)(*arguments)
        results.append(editor.result())
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].W, other.W)
        np.testing.assert_array_equal(results[0].H, other.H)
        assert results[0].fitting_error == other.fitting_error


@pytest.mark.parametrize("form", ["weights", "ratings"])
def test_saved_edits_are_read_back_and_the_script_does_them(form, tmp_path):
    X, entries = DATA[form]
    editor = Editor(X, nmf(X, 5, tol=1e-2, **entries), **entries)
    for name, arguments in EDITS:
        getattr(editor, name)(*arguments)
    editor.save(tmp_path / "edits.npz")
    again = Editor.load(tmp_path / "edits.npz", X, **entries)
    np.testing.assert_array_equal(again.result().W, editor.result().W)
    np.save(tmp_path / "weights.npy", WEIGHTS)
    np.save(tmp_path / "X.npy", X.toarray() if sp.issparse(X) else X)
    read = 'np.load("X.npy")' if form == "weights" else 'sp.csr_array(np.load("X.npy"))'
    program = "import scipy.sparse as sp\n" + editor.script(X=read)
    (tmp_path / "edits.py").write_text(program + "\nprint(result.fitting_error)\n", "utf-8")
    said = subprocess.run(
        [sys.executable, "edits.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.split()
    assert float(said[-1]) == pytest.approx(editor.fitting_error, rel=1e-6)


def test_lines_without_observations_are_refused():
    empty = FULL.copy()
    empty[3] = np.nan
    with pytest.raises(ArgumentError, match="no observed entry in row 3"):
        Editor(empty, nmf(FULL, 2, tol=1e-1))
