"""Adjusting a fit by the Kullback–Leibler loss."""

import runpy

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge import Editor, merge_components, metrics, nmf
from nmfmerge.losses.kl_divergence import Divergence

KL = {"beta_loss": "kullback-leibler"}


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    W, H = rng.gamma(0.3, size=(40, 5)), rng.gamma(0.3, size=(5, 50))
    return rng.poisson(20 * W @ H / (W @ H).mean()).astype(float)


@pytest.fixture(scope="module")
def solution(X):
    return nmf(X, 6, tol=1e-3, **KL)


@pytest.fixture(params=["dense", "sparse"])
def editor(request, X, solution):
    return Editor(X if request.param == "dense" else sp.csr_array(X), solution)


def error(X, result):
    return metrics.fitting_error(X, result.W, result.H, **KL)


def test_every_edit_is_measured_by_the_loss(editor, X, solution):
    assert editor.fitting_error == pytest.approx(solution.fitting_error)
    for name, arguments in (
        ("merge", (0, 3)), ("split", (1,)), ("add", (1,)), ("remove", (2,)),
        ("merge_to", (4,)), ("hold", (0,)), ("polish", ()),
    ):  # fmt: skip
        result = getattr(editor, name)(*arguments)
        assert result.loss == "kullback-leibler"
        assert result.fitting_error == pytest.approx(error(X, result))


def test_previews_are_the_errors_after_the_edits(editor):
    for name, arguments in (("merge", (1, 4)), ("remove", (0,)), ("split", (2,)), ("add", (1,))):
        preview = editor.preview(name, *arguments)
        assert getattr(editor, name)(*arguments).fitting_error == pytest.approx(
            preview.after, rel=1e-9
        )
        editor.undo()


def test_a_merge_is_previewed_without_doing_it(editor, monkeypatch):
    editor.preview("merge", 0, 1)
    monkeypatch.setattr(Divergence, "exact_values", None)
    assert editor.preview("merge", 2, 3).change > 0


def test_the_table_of_pairs_is_the_previews(editor):
    table = editor.pair_changes()
    assert np.isnan(np.diag(table)).all()
    for i, j in ((0, 1), (4, 2)):
        assert table[i, j] == pytest.approx(editor.preview("merge", i, j).change, rel=1e-6)


def test_a_preview_near_an_exact_fit_is_exact_too():
    rng = np.random.default_rng(1)
    W, H = rng.random((20, 3)), rng.random((3, 25))
    W, H = np.hstack([W, W[:, :1]]), np.vstack([H, H[:1]])
    editor = Editor(W @ H, W, H, **KL)
    preview = editor.preview("merge", 0, 3)
    assert abs(preview.after) < 1e-10
    assert editor.merge(0, 3).fitting_error == pytest.approx(preview.after, abs=1e-12)


def test_a_merge_is_that_of_merge_components(editor, solution):
    merged = editor.merge(1, 3)
    W, H, _ = merge_components(solution.W[:, [1, 3]], solution.H[[1, 3]], 1, **KL)
    np.testing.assert_allclose(np.outer(merged.W[:, 1], merged.H[1]), np.outer(W[:, 0], H[0]))


def test_edits_that_add_improve_the_fit(editor):
    before = editor.fitting_error
    for name, arguments in (("split", (0,)), ("split", (3,)), ("add", (1,)), ("add", (2,))):
        assert editor.preview(name, *arguments).after <= before * (1 + 1e-6)


def test_a_polish_lowers_the_divergence(editor):
    editor.merge_to(4)
    before = editor.fitting_error
    assert editor.polish().fitting_error < before
    with pytest.raises(ValueError, match="solver='hals' does not minimise"):
        editor.polish(solver="hals")


def test_saved_edits_are_read_back_and_the_script_does_them(
    editor, X, tmp_path, monkeypatch, capsys
):
    editor.merge(0, 1)
    editor.polish(tol=1e-2)
    editor.save(tmp_path / "edits.npz")
    again = Editor.load(tmp_path / "edits.npz", X)
    assert again.result().loss == "kullback-leibler"
    assert again.fitting_error == pytest.approx(editor.fitting_error, rel=1e-6)
    np.save(tmp_path / "X.npy", X)
    program = editor.script() + "\nprint(result.loss, result.fitting_error)\n"
    (tmp_path / "edits.py").write_text(program, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    runpy.run_path("edits.py")
    said = capsys.readouterr().out.split()
    assert said[-2] == "kullback-leibler"
    assert float(said[-1]) == pytest.approx(editor.fitting_error, rel=1e-6)


def test_the_loss_can_be_chosen(X, solution):
    squared = Editor(X, solution, beta_loss="frobenius")
    assert squared.fitting_error == pytest.approx(metrics.fitting_error(X, solution.W, solution.H))
    of_arrays = Editor(X, solution.W, solution.H, **KL)
    assert of_arrays.fitting_error == pytest.approx(solution.fitting_error)
    with pytest.raises(ValueError, match="solver='gcd' does not minimise"):
        Editor(X, solution, solver="gcd")
    with pytest.raises(ValueError, match="beta_loss='poisson' is not known"):
        Editor(X, solution, beta_loss="poisson")
