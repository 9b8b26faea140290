import ast
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from nmfmerge import (
    Editor,
    datasets,
    merge_components,
    metrics,
    nmf,
    nmf_merge,
    plot,
    recover_components,
    report,
)
from nmfmerge.editor import Edit
from nmfmerge.editor.code import call
from nmfmerge.matrices.dense import DenseData
from nmfmerge.storage import folder


@pytest.fixture(scope="module")
def data():
    return datasets.lcms_like()


@pytest.fixture(scope="module")
def solution(data):
    return nmf(data.X, 8, tol=1e-3)


@pytest.fixture
def editor(data, solution):
    return Editor(data.X, solution)


def busy(editor):
    """Every kind of edit once."""
    editor.merge(1, 4)
    editor.rename(0, "glucose")
    editor.hold(0)
    editor.add(2)
    editor.split(3)
    editor.remove(2)
    editor.merge_to(6)
    editor.polish(tol=1e-2)
    editor.release(0)
    return editor


def test_a_merge_is_that_of_merge_components(data, editor, solution):
    i, j = merge_components(solution.W, solution.H, 7)[2].pairs[0]
    W, H, _ = merge_components(solution.W, solution.H, 7)
    merged = editor.merge_to(7)
    assert merged.fitting_error == pytest.approx(metrics.fitting_error(data.X, W, H), rel=1e-10)
    editor.undo()
    pair = editor.merge(j, i)
    assert np.array_equal(pair.W, merged.W)
    np.testing.assert_allclose(pair.W[:, i], W[:, -1], rtol=1e-12)
    assert pair.names[i] == f"{i + 1}+{j + 1}"


def test_what_is_added_is_what_was_missing(data, editor, solution):
    missing = editor.missing(2)
    added = editor.add(2)
    assert np.array_equal(added.W[:, -2:], missing.W)
    assert np.array_equal(added.H[-2:], missing.H)
    W, _, values = recover_components(data.X, solution.W, solution.H, 2)
    assert np.array_equal(added.W[:, :-2], W[:, :-2])
    assert np.array_equal(values, missing.generalized_singular_values)
    assert added.names[-2:] == ("9", "10")


def test_a_split_undoes_a_merge(data, solution):
    true = Editor(data.X, data.W, data.H)
    close = int(np.nanargmin(true.pair_changes()))
    i, j = sorted(divmod(close, len(data.H)))
    merged = true.merge(i, j)
    split = true.split(i)
    assert split.fitting_error < merged.fitting_error
    assert split.names[i : i + 2] == (f"({merged.names[i]})a", f"({merged.names[i]})b")
    _, similarity = metrics.match_components(data.W[:, [i, j]], split.W[:, i : i + 2])
    assert similarity.min() > 0.9


def test_previews_of_merges_and_removals_cost_no_pass_over_X(editor, monkeypatch):
    editor.pair_changes()
    passes = []
    for name in ("WtX", "HXt", "residual_norm2"):
        monkeypatch.setattr(DenseData, name, lambda *_, name=name, **__: passes.append(name))
    told = [editor.preview("merge", 0, 1), editor.preview("remove", 3)]
    assert passes == []
    monkeypatch.undo()
    for preview in told:
        result = getattr(editor, preview.edit.name)(*preview.edit.arguments)
        assert preview.after == pytest.approx(result.fitting_error, rel=1e-10)
        editor.undo()


def test_the_table_of_pairs_is_the_previews(editor):
    table = editor.pair_changes()
    assert np.isnan(np.diag(table)).all()
    assert np.array_equal(table, table.T, equal_nan=True)
    for i, j in ((0, 1), (2, 7), (5, 3)):
        preview = editor.preview("merge", i, j)
        assert table[i, j] == pytest.approx(preview.change, rel=1e-9)


def test_a_preview_near_an_exact_fit_is_exact_too(data):
    editor = Editor(data.W @ data.H, data.W, data.H)
    for edit in (("merge", 0, 1), ("remove", 2)):
        preview = editor.preview(*edit)
        after = getattr(editor, edit[0])(*edit[1:]).fitting_error
        assert preview.after == pytest.approx(after, rel=1e-10)
        editor.undo()


def test_a_polish_that_is_stopped_is_repeated_to_the_bit(data, editor, solution):
    editor.merge(0, 1)
    stopped = editor.polish(callback=lambda progress: progress.iteration == 9)
    assert editor.edits[-1].settings["max_iter"] == 9
    again = Editor(data.X, solution)
    again.replay(editor.edits)
    assert np.array_equal(again.result().W, stopped.W)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        timed = editor.polish(max_time=1e-9)
    assert timed.fitting_error == stopped.fitting_error
    assert editor.edits[-1].settings["max_iter"] == 0
    again.replay(editor.edits[-1:])
    assert np.array_equal(again.result().W, stopped.W)


def test_a_polish_that_does_not_converge_says_so(editor):
    with pytest.warns(ConvergenceWarning):
        editor.polish(tol=1e-9, max_iter=3)


def test_stages_tell_what_was_done(editor):
    result = busy(editor).result()
    names = [stage.name for stage in result.stages]
    assert names[-6:] == ["merge", "add", "split", "remove", "merge", "polish"]
    assert np.all(
        np.diff(np.concatenate([s.history.seconds for s in result.stages if s.history])) > 0
    )
    assert result.seconds > 0


def test_an_edit_after_undo_forgets_what_was_undone(editor):
    editor.merge(0, 1)
    editor.undo()
    editor.remove(0)
    assert not editor.can_redo
    assert [edit.name for edit in editor.edits] == ["remove"]


def test_saved_edits_are_read_back_to_the_bit(data, editor, tmp_path):
    busy(editor)
    editor.undo()
    editor.undo()
    file = tmp_path / "edits.npz"
    editor.save(file)
    read = Editor.load(file, data.X)
    assert read.edits == editor.edits
    assert np.array_equal(read.result().W, editor.result().W)
    assert np.array_equal(read.result().H, editor.result().H)
    assert (read.names, read.held) == (editor.names, editor.held)
    assert read.can_redo
    assert np.array_equal(read.redo().W, editor.redo().W)


def test_edits_are_repeated_on_other_data_of_the_same_shape(data, editor, solution, tmp_path):
    busy(editor)
    editor.save(tmp_path / "edits.npz")
    other = data.X[:, ::-1].copy()
    read = Editor.load(tmp_path / "edits.npz", other)
    assert [edit.name for edit in read.edits] == [edit.name for edit in editor.edits]
    assert read.names[0] == "glucose"
    by_hand = Editor(other, solution)
    busy(by_hand)
    assert np.array_equal(read.result().W, by_hand.result().W)
    with pytest.raises(ValueError, match=r"expected \(5, 8\)"):
        Editor.load(tmp_path / "edits.npz", other[:5])


def test_the_script_gives_the_same_result(data, editor, tmp_path):
    busy(editor)
    editor.polish(callback=lambda progress: True)
    with pytest.warns(ConvergenceWarning):
        editor.polish(max_time=1e-9)
    editor.save(tmp_path / "edits.npz")
    np.save(tmp_path / "X.npy", data.X)
    text = (
        editor.script(start=Path("edits.npz"))
        + 'np.savez("out.npz", W=result.W, names=result.names)\n'
    )
    (tmp_path / "again.py").write_text(text, "utf-8")
    subprocess.run([sys.executable, "again.py"], cwd=tmp_path, check=True, capture_output=True)
    with np.load(tmp_path / "out.npz") as out:
        assert np.array_equal(out["W"], editor.result().W)
        assert tuple(out["names"]) == editor.names


def test_all_that_the_script_is_made_of_is_quoted(editor):
    strange = "a'b\"); __import__('os').abort() # 🎼"
    editor.rename(0, strange)
    code = call("f", strange, **{"plain": strange, strange: 1, "lambda": [strange]})
    made = ast.parse(editor.script(X=code, start=strange))
    assert "abort" not in {node.attr for node in ast.walk(made) if isinstance(node, ast.Attribute)}
    texts = [node.value for node in ast.walk(made) if isinstance(node, ast.Constant)]
    assert texts.count(strange) == 6
    assert eval(code, {"f": lambda *given, **named: (given, named)}) == (
        (strange,), {"plain": strange, strange: 1, "lambda": [strange]},
    )  # fmt: skip


def test_a_polish_that_is_worse_by_rounding_leaves_no_merges_behind(monkeypatch):
    X = np.random.default_rng(0).random((6, 5))
    start = nmf_merge(X, 2)

    def slightly_worse(*arguments, **options):
        result = nmf(*arguments, **options)
        return replace(result, fitting_error=start.fitting_error * (1 + 1e-15))

    monkeypatch.setattr("nmfmerge.editor.state.nmf", slightly_worse)
    result = Editor(X, start).polish()
    np.testing.assert_array_equal(result.W, start.W)
    assert (result.merges, result.merge_ids) == (None, ())


@given(where=st.floats(0, 1), change=st.integers(1, 255), cut=st.booleans())
@settings(max_examples=60, deadline=None)
def test_damaged_edits_are_refused_or_read(tmp_path_factory, where, change, cut):
    folder = tmp_path_factory.mktemp("edits")
    X = np.random.default_rng(0).random((6, 5))
    editor = Editor(X, nmf_merge(X, 2))
    editor.split(0)
    editor.rename(1, "x")
    editor.save(folder / "e.npz")
    content = bytearray((folder / "e.npz").read_bytes())
    place = int(where * (len(content) - 1))
    if cut:
        content = content[:place]
    else:
        content[place] ^= change
    (folder / "e.npz").write_bytes(content)
    with suppress(ValueError):  # and nothing else
        assert Editor.load(folder / "e.npz", X).n_components == 3


@pytest.mark.parametrize(
    ("edit", "kind", "message"),
    [
        (("merge", 0, 8), ValueError, "j=8 is out of range.*0 to 7"),
        (("merge", 0, -1), ValueError, "j=-1"),
        (("merge", 2, 2), ValueError, "itself"),
        (("remove", 1.5), TypeError, "i=1.5 is a float"),
        (("add", 0), ValueError, "k=0"),
        (("add", 10_000), ValueError, "too large"),
        (("merge_to", 9), ValueError, "exceeds the 8 components"),
        (("rename", 0, "a\nb"), ValueError, "name="),
        (("rename", 0, 3), TypeError, "name=3 is a int"),
    ],
    ids=str,
)
def test_wrong_edits_are_refused_and_change_nothing(editor, edit, kind, message):
    before = editor.result()
    for do in (editor.preview, lambda name, *a: getattr(editor, name)(*a)):
        with pytest.raises(kind, match=message):
            do(*edit)
    assert editor.result() is before
    assert editor.edits == ()


def test_held_components_are_not_merged_split_or_removed(editor):
    editor.hold(2)
    for edit in (("merge", 2, 3), ("split", 2), ("remove", 2)):
        for do in (editor.preview, lambda name, *a: getattr(editor, name)(*a)):
            with pytest.raises(ValueError, match=r"component 2 .*held: release it first"):
                do(*edit)
    editor.hold(5)
    with pytest.raises(ValueError, match="merge to 3"):
        editor.merge_to(2)
    assert editor.merge_to(3).names[0] != "3"
    assert {"3", "6"} <= set(editor.names)


def test_the_only_component_stays(data):
    editor = Editor(data.X, nmf(data.X, 1))
    with pytest.raises(ValueError, match="only component"):
        editor.remove(0)
    with pytest.raises(ValueError, match="no edit to undo"):
        editor.undo()
    with pytest.raises(ValueError, match="no edit to redo"):
        editor.redo()


def test_wrong_starts(data, solution):
    with pytest.raises(TypeError, match="W and H, or one Factorization"):
        Editor(data.X, solution.W)
    with pytest.raises(ValueError, match="7 names for 8"):
        Editor(data.X, solution, names="abcdefg")
    with pytest.raises(ValueError, match="shapes"):
        Editor(data.X[:5], solution)
    with pytest.raises(ValueError, match="held"):
        Editor(data.X, solution, held=[8])


def test_an_edit_reads_as_python():
    assert str(Edit("rename", (0, "glucose"))) == "rename(0, 'glucose')"
    assert str(Edit("polish", (), {"tol": 1e-4})) == "polish(tol=0.0001)"


def test_no_edit_keeps_the_record_of_the_run(data):
    result = nmf_merge(data.X, 6, tol=1e-2)
    kept = Editor(data.X, result).result()
    assert kept.merges is result.merges
    assert kept.stages == result.stages
    assert kept.names == ("1", "2", "3", "4", "5", "6")


def test_the_record_of_the_run_is_saved_too(data, tmp_path):
    result = nmf_merge(data.X, 6, tol=1e-2)
    Editor(data.X, result).save(tmp_path / "edits.npz")
    read = Editor.load(tmp_path / "edits.npz", data.X).result()
    assert [stage.name for stage in read.stages] == [stage.name for stage in result.stages]
    assert np.array_equal(read.merges.pairs, result.merges.pairs)
    assert read.status == result.status


def test_a_fit_of_other_data_is_measured_on_these(data, solution):
    noisy = data.X + np.random.default_rng(0).random(data.X.shape) * data.X.max() / 100
    editor = Editor(noisy, solution)
    true = metrics.fitting_error(noisy, solution.W, solution.H)
    assert editor.fitting_error == pytest.approx(true, rel=1e-12)
    assert editor.polish().fitting_error < 0.99 * true


def test_what_comes_in_and_goes_out_is_not_what_is_kept(data, solution):
    W, H = solution.W.copy(), solution.H.copy()
    editor = Editor(data.X, W, H)
    editor.merge(0, 1)
    W[:], H[:] = 0, 0
    assert np.array_equal(editor.undo().W, solution.W)
    for F in (editor.result().W, editor.result().H, editor.redo().W):
        with pytest.raises(ValueError, match="read-only"):
            F[:] = 1


def test_factors_of_another_precision_become_those_of_X(data, solution):
    editor = Editor(data.X.astype(np.float32), solution, held=[1])
    assert editor.result().W.dtype == np.float32
    editor.polish(tol=1e-2)
    editor.add()
    assert np.array_equal(editor.result().W[:, 1], solution.W[:, 1].astype(np.float32))


def test_factors_that_must_be_balanced_can_be_edited(data, solution):
    W, H = np.ldexp(solution.W, 300), np.ldexp(solution.H, -300)
    editor = Editor(data.X, W, H)
    for edit in (editor.polish, editor.add, lambda: editor.split(0), lambda: editor.merge(0, 1)):
        assert edit().fitting_error < 10


def test_names_that_are_no_numbers_are_left_alone(editor):
    editor.rename(0, "m/z 1203.5")
    editor.rename(1, "13C-glucose")
    assert editor.result().label(1) == "13C-glucose"
    editor.remove(7)
    added = editor.add()
    assert added.names[-1] == "9"
    assert added.label(7) == "component 9"
    assert editor.merge(2, 3).label(2) == "component 3+4"
    assert editor.split(2).label(3) == "component (3+4)b"


def test_previews_take_the_arguments_of_their_edits(editor):
    assert editor.preview("add").edit == Edit("add", (1,))
    assert editor.preview("merge", i=0, j=1) == editor.preview("merge", 0, 1)
    with pytest.raises(TypeError, match=r"preview\('polish'\).*tole"):
        editor.preview("polish", tole=3)
    with pytest.raises(TypeError, match=r"preview\('merge'\).*'j'"):
        editor.preview("merge", 0)


def test_an_edit_that_was_previewed_is_not_computed_again(editor, monkeypatch):
    preview = editor.preview("split", 2)
    monkeypatch.setattr("nmfmerge.editor.editor.apply", None)
    assert editor.split(2).fitting_error == preview.after
    with pytest.raises(TypeError):
        editor.split(2)


def test_edits_made_by_hand_can_be_replayed(editor):
    edits = [Edit("merge", (np.int64(0), np.int64(1))), Edit("polish", (), {"tol": 1e-2})]
    assert editor.replay(edits).n_components == 7
    assert len(set(editor.edits)) == 2
    with pytest.raises(ValueError, match="edit='melt'"):
        editor.replay([Edit("melt", (0,))])


def test_stages_count_the_time_of_their_edits(editor, monkeypatch):
    ticks = iter(range(100))
    monkeypatch.setattr("nmfmerge.editor.state.perf_counter", lambda: float(next(ticks)))
    assert editor.add().stages[-1].seconds == 1.0


def test_names_go_to_folders_figures_and_reports(data, editor, tmp_path):
    editor.rename(0, "glucose <b>")
    editor.merge(1, 2)
    fit = folder.Fit(editor.result(), data)
    folder.write(tmp_path / "out", fit)
    head = (tmp_path / "out" / "W.csv").read_text("utf-8").splitlines()[0]
    assert head.split(",")[1:4] == ["glucose <b>", "component 2+3", "component 4"]
    assert folder.read(tmp_path / "out").result.names == editor.names
    page = report.page(editor.result(), data)
    assert "glucose &lt;b&gt;" in page
    names = plot.components(editor.result(), data).axes[0].texts
    labels = [text.get_text() for text in names if text.get_gid() == "name"]
    assert any(label.startswith("glucose") for label in labels)
    assert any(label.startswith("component 2+3") for label in labels)


@pytest.mark.parametrize("r", [6, 8, 9])
def test_a_component_that_is_added_has_weight(real, r):
    """At these ranks of this run, recovery alone gives components of no weight."""
    X = real("lcms_ko15")
    editor = Editor(X, nmf_merge(X, r, n_init=1))
    missing = editor.missing(3)
    assert (missing.W.any(axis=0) & missing.H.any(axis=1)).all()
    before = editor.fitting_error
    editor.add()
    assert editor.fitting_error < 0.995 * before
    assert metrics.shares(editor.result().W, editor.result().H)[-1] > 0.1


def test_new_components_are_fitted_while_the_others_stay(rng):
    W, H = rng.gamma(0.5, 1, (40, 5)), rng.gamma(0.5, 1, (5, 30))
    editor = Editor(W @ H, W[:, :4], H[:4], held=range(4))
    result = editor.add()
    np.testing.assert_array_equal(result.W[:, :4], W[:, :4])
    np.testing.assert_array_equal(result.H[:4], H[:4])
    assert editor.fitting_error < 1e-3
