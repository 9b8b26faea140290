"""The session, without a page and without a browser."""

import ast
import os
import re
import shlex
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nmfmerge import Editor, datasets, folder, nmf
from nmfmerge.cli import main
from nmfmerge.explore import saving
from nmfmerge.explore import session as session_module
from nmfmerge.explore.autosave import Autosave, AutosaveError
from nmfmerge.explore.explorer import open_matrix, open_path
from nmfmerge.explore.job import Job
from nmfmerge.explore.names import carried_names
from nmfmerge.explore.place import Place
from nmfmerge.explore.session import Session
from nmfmerge.result import SAME_COMPONENT, Factorization, Status


def done(session):
    """The note when the work in progress, and what follows it, is done."""
    session.wait()
    session.wait()
    assert session.state.job is None
    return session.state.note


@pytest.fixture
def opened(file):
    session = open_path(file)
    session.find_path(5)
    done(session)
    yield session
    session.close()


# ---- looking


def test_components_are_ordered_by_share(session):
    share = session.state.share[list(session.state.order)]
    assert np.all(np.diff(share) <= 0)
    assert session.state.selected == session.state.order[0]
    assert session.state.names == tuple(f"Component {i}" for i in range(1, 6))


def test_stepping_goes_round_in_the_order_of_shares(session):
    seen = [session.state.selected]
    for _ in range(5):
        session.step(1)
        seen.append(session.state.selected)
    assert tuple(seen[:5]) == session.state.order
    assert seen[5] == seen[0]
    session.step(-1)
    assert session.state.selected == session.state.order[-1]


@pytest.mark.parametrize("i", [-1, 5, 100])
def test_components_that_are_not_there_cannot_be_selected(session, i):
    before = session.state.selected
    session.select(i)
    assert session.state.selected == before


@pytest.mark.parametrize("pair", [(0, 0), (-1, 2), (1, 5), (7, 9)])
def test_pairs_that_are_not_there_cannot_be_chosen(session, pair):
    session.choose_pair(*pair)
    assert session.state.pair is None


def test_choosing_a_pair_twice_puts_it_away(session):
    session.choose_pair(3, 1)
    assert session.state.pair == (1, 3)
    session.choose_pair(1, 3)
    assert session.state.pair is None


# ---- editing


def test_the_cheapest_merge_costs_what_was_shown(session):
    session.choose_cheapest_pair()
    i, j = session.state.pair
    shown = session.state.extras.pairs[i, j]
    assert shown == np.nanmin(session.state.extras.pairs)
    before = session.state.result.fitting_error
    session.merge_pair()
    note = done(session)
    after = session.state.result.fitting_error
    assert after - before == pytest.approx(shown, rel=1e-6)
    assert f"{before:.4g} % → {after:.4g} %" in note.text
    assert session.state.result.n_components == 4
    assert session.state.pair is None
    assert session.state.extras.pairs.shape == (4, 4)


EDITS = [("merge", 0, 3), ("split", 1), ("remove", 2), ("hold", 0), ("rename", 4, "glucose"),
         ("add", 1), ("polish",)]  # fmt: skip


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit[0])
def test_every_edit_tells_the_error_before_and_after_and_can_be_undone(session, edit):
    before = session.state
    session.edit(*edit)
    note = done(session)
    assert note.kind == "done", note.text
    first, second = before.result.fitting_error, session.state.result.fitting_error
    if f"{first:.4g}" == f"{second:.4g}":
        assert f"fitting error {second:.4g} %, unchanged" in note.text
    else:
        assert f"fitting error {first:.4g} % → {second:.4g} %" in note.text
    assert session.state.can_undo
    assert len(session.state.edits) == 1
    session.undo()
    done(session)
    np.testing.assert_array_equal(session.state.result.W, before.result.W)
    np.testing.assert_array_equal(session.state.result.H, before.result.H)
    assert session.state.names == before.names
    assert session.state.held == before.held
    assert session.state.can_redo
    session.redo()
    done(session)
    assert session.state.result.fitting_error == second


def test_edits_are_told_with_the_names_they_had(session):
    for edit in (("rename", 0, "glucose"), ("merge", 0, 1), ("undo",), ("hold", 1)):
        session.edit(*edit)
        done(session)
    assert session.state.edits == ("Renamed Component 1 to glucose", "Held Component 2")
    session.undo()
    done(session)
    session.redo()
    done(session)
    assert session.state.edits[-1] == "Held Component 2"


def test_adding_says_what_to_do_next_whether_or_not_the_error_changes(session, page_of):
    session.edit("add", 1)
    text = done(session).text
    assert re.match(r"Added a missing feature: fitting error .* %.*\. Polish \(P\) to fit it", text)
    assert session.state.edits == ("Added a missing feature",)
    assert "Polish (P) after adding" in page_of(session).shown.missing


def test_a_feature_that_the_fit_lacks_entirely_is_told_in_words(session, page_of):
    session._update(extras=replace(session.state.extras, values=np.array([np.inf, np.inf, 1.0])))
    text = page_of(session).shown.missing
    assert "The fit has <b>nothing</b> of it." in text
    assert "after it come ∞, 1." in text
    assert "inf" not in text


def test_holding_twice_releases(session):
    for held in (True, False):
        session.toggle_hold(2)
        done(session)
        assert session.state.held == (False, False, held, False, False)


def test_the_selected_component_stays_selected_when_another_goes(session):
    session.select(4)
    w = session.state.result.W[:, 4]
    session.edit("remove", 1)
    done(session)
    np.testing.assert_array_equal(session.state.result.W[:, session.state.selected], w)


def test_an_edit_that_fails_changes_nothing_and_says_why(session):
    before = session.state
    session.edit("merge", 0, 99)
    note = done(session)
    assert note.kind == "error"
    assert "failed" in note.text
    np.testing.assert_array_equal(session.state.result.W, before.result.W)


def test_undo_and_redo_with_nothing_to_do_do_nothing(session):
    before = session.state
    session.undo()
    session.redo()
    assert session.state is before


def test_recovered_features_are_shown_as_they_would_be_added(session):
    missing = session.state.extras.missing
    session.edit("add", 1)
    done(session)
    w = session.state.result.W[:, -1]
    shown = missing.W[:, 0]
    cosine = w @ shown / (np.linalg.norm(w) * np.linalg.norm(shown))
    assert cosine == pytest.approx(1, abs=1e-6)


# ---- all ranks


def test_edits_of_a_rank_are_there_when_one_comes_back(opened):
    opened.go(4)
    done(opened)
    opened.edit("rename", 0, "glucose")
    done(opened)
    opened.go(3)
    done(opened)
    assert opened.state.edits == ()
    opened.go(4)
    done(opened)
    assert opened.state.names[0] == "glucose"
    assert opened.state.can_undo


def cosine(first, i, second, j):
    """w·w' h·h' of two components, over their norms."""
    parts = [(first.W[:, i], second.W[:, j]), (first.H[i], second.H[j])]
    return np.prod([a @ b / (np.linalg.norm(a) * np.linalg.norm(b)) for a, b in parts])


def test_names_go_to_the_matching_component_of_another_rank_and_stay(opened):
    opened.go(4)
    for i in range(4):
        opened.edit("rename", i, f"compound {i}")
        done(opened)
    named = opened.state
    opened.go(5)
    matched = {
        i: j
        for i in range(4)
        for j in range(5)
        if cosine(named.result, i, opened.state.result, j) >= SAME_COMPONENT
    }
    assert matched  # else this test shows nothing
    for j, name in enumerate(opened.state.names):
        names = [f"compound {i}" for i, k in matched.items() if k == j]
        assert name == (names[0] if names else f"Component {j + 1}")
    assert opened.state.edits == ()  # that is no edit
    assert not opened.state.can_undo
    assert opened.result.names[matched[0]] == "compound 0" or 0 not in matched
    opened.go(3)
    opened.go(4)
    assert opened.state.names == named.names
    assert opened.state.edits == named.edits


def test_a_name_that_is_undone_is_gone_at_other_ranks_too(opened):
    opened.go(5)
    i = opened.state.order[0]
    opened.edit("rename", i, "glucose")
    done(opened)
    opened.edit("undo")
    done(opened)
    for rank in (4, 3, 5):
        opened.go(rank)
        assert "glucose" not in opened.state.names


def with_a_carried_name(session):
    """Go from 5, where a component is named, to 4; its number there."""
    session.go(4)
    target = session.state.result
    session.go(5)
    best = max(
        ((i, j) for i in range(5) for j in range(4)),
        key=lambda pair: cosine(session.state.result, pair[0], target, pair[1]),
    )
    session.edit("rename", best[0], "glucose")
    done(session)
    session.go(4)
    assert session.state.names[best[1]] == "glucose"
    return best[1]


def test_a_carried_name_is_part_of_what_is_edited_and_saved(opened, file, monkeypatch):
    j = with_a_carried_name(opened)
    opened.edit("hold", j)
    done(opened)
    assert opened.state.edits == ("Held glucose",)
    assert opened.state.result.names[j] == "glucose"
    opened.save("mine.nmf")
    done(opened)
    assert folder.read(file.parent / "mine.nmf").result.names[j] == "glucose"


def test_a_name_that_comes_after_the_edits_is_saved_too(opened, file, monkeypatch):
    opened.go(4)
    opened.edit("polish")
    done(opened)
    j = with_a_carried_name(opened)
    assert opened.state.edits == ("Polished",)
    opened.save("mine.nmf")
    done(opened)
    assert folder.read(file.parent / "mine.nmf").result.names[j] == "glucose"
    assert opened.state.edits == ("Polished",)  # saving is no edit
    assert len(opened.editors[4].edits) == 1
    monkeypatch.chdir(file.parent / "mine.nmf")
    namespace = {}
    exec(compile(Path("edits.py").read_text(), "edits.py", "exec"), namespace)
    assert namespace["result"].names[j] == "glucose"


def test_a_component_that_does_not_match_gets_no_name(rng):
    W, H = rng.random((30, 3)) ** 8, rng.random((3, 20)) ** 8
    first = Factorization(W, H, 0.0, 0.0, (), Status.DONE, 0.0, names=("a", "b", "3"))
    other = Factorization(W[:, ::-1], H, 0.0, 0.0, (), Status.DONE, 0.0)
    found = carried_names(other, [(3, first)])
    assert {i: one.name for i, one in found.items()} == {1: "b"}
    same = carried_names(Factorization(W, H, 0.0, 0.0, (), Status.DONE, 0.0), [(3, first)])
    assert [same[i].cosine for i in (0, 1)] == [pytest.approx(1), pytest.approx(1)]


def test_no_name_is_given_twice_and_the_first_source_wins(rng):
    W, H = rng.random((30, 2)), rng.random((2, 20))
    plain = Factorization(W, H, 0.0, 0.0, (), Status.DONE, 0.0)
    near, far = replace(plain, names=("a", "2")), replace(plain, names=("b", "a"))
    found = carried_names(plain, [(3, near), (7, far)])
    assert {i: (one.name, one.start) for i, one in found.items()} == {0: ("a", 3)}
    assert carried_names(replace(plain, names=("own", "a")), [(3, near)]) == {}


def test_a_rank_is_shown_as_it_is_on_the_path(opened):
    for rank in opened.state.path.ranks:
        opened.go(int(rank))
        assert opened.state.result is opened.state.path[rank]


@pytest.mark.parametrize("rank", [0, 6, -3])
def test_ranks_that_were_not_fitted_are_not_shown(opened, rank):
    before = opened.state.start
    opened.go(rank)
    assert opened.state.start == before


@pytest.mark.parametrize("n_max", [0, -1, 61])
def test_a_highest_rank_out_of_range_is_refused(session, n_max):
    session.find_path(n_max)
    assert session.state.note.text == "The highest rank must be from 1 to 60."


def test_fitting_ranks_again_keeps_edits(opened):
    opened.go(4)
    opened.edit("rename", 0, "glucose")
    done(opened)
    opened.find_path(6)
    done(opened)
    opened.go(3)
    opened.go(4)
    assert opened.state.names[0] == "glucose"


# ---- long work


def test_work_can_be_cancelled_and_a_second_one_waits(data, monkeypatch):
    began, go_on = threading.Event(), threading.Event()

    def slow(X, n_max, *, callback):
        began.set()
        assert go_on.wait(10)
        assert callback(
            type("Progress", (), {"iteration": 3, "stage": "down to 4"})()
        )  # the user has cancelled
        raise ValueError("stopped in the middle")

    monkeypatch.setattr(session_module, "rank_path", slow)
    session = Session(data, nmf(data.X, 3, tol=1e-2))
    session.find_path(5)
    assert began.wait(10)
    assert session.state.job.title == "Fitting ranks 1 to 5"
    session.edit("polish")
    assert session.state.note.text == "Fitting ranks 1 to 5: wait until it is done, or cancel it."
    session.select(1)  # looking goes on
    assert session.state.selected == 1
    session.cancel()
    assert session.state.job.cancelled
    go_on.set()
    done(session)
    assert session.state.result.n_components == 3
    session.edit("polish")
    assert done(session).text.startswith("Polished")
    session.close()


def test_a_polish_that_is_cancelled_keeps_what_it_has_reached(data, monkeypatch):
    session = Session(data, nmf(data.X, 5, init="random", tol=0.5))
    before = session.state.result.fitting_error
    monkeypatch.setattr(Job, "cancelled", True)
    session.edit("polish")
    note = done(session)
    assert note.text.startswith("Polished (stopped early)")
    assert session.state.result.fitting_error <= before
    session.close()


def test_all_listeners_hear_of_a_change_until_they_leave(session):
    heard = []
    leave = [session.subscribe(lambda k=k: heard.append(k)) for k in range(2)]
    session.select(1)
    leave[0]()
    session.select(2)
    assert heard == [0, 1, 1]


# ---- files


def test_what_is_saved_opens_again_with_its_names(opened, file):
    opened.go(4)
    opened.edit("rename", 1, "glucose")
    done(opened)
    opened.save("mine.nmf")
    note = done(opened)
    path = file.parent / "mine.nmf"
    assert note.text == f"Saved as mine.nmf in {file.parent}."
    fit = folder.read(path)
    np.testing.assert_array_equal(fit.result.W, opened.state.result.W)
    assert fit.result.names[1] == "glucose"
    assert "rename" in (path / "edits.py").read_text()
    again = open_path(path)
    assert again.state.names == opened.state.names
    assert again.state.result.fitting_error == pytest.approx(opened.state.result.fitting_error)
    again.close()


def test_a_saved_folder_has_what_fit_writes_and_its_edits(opened, file):
    opened.go(4)
    opened.edit("rename", 1, "glucose <b>")
    done(opened)
    opened.save("mine.nmf")
    assert done(opened).kind == "done"
    assert main(["fit", str(file), "-r", "4", "-o", str(file.parent / "fit.nmf")]) == 0
    fit, mine = (
        {f.relative_to(path).as_posix() for f in path.rglob("*") if f.is_file()}
        for path in (file.parent / "fit.nmf", file.parent / "mine.nmf")
    )
    of_a_run = {f"figures/{name}.png" for name in ("merges", "singular-values", "starts")}
    of_a_run |= {"merges.csv", "starts.csv"}
    assert fit - of_a_run <= mine
    assert mine - fit == {
        "edits.py", "edits.npz", "path.npz", "path.csv", "figures/rank-path.png",
    }  # fmt: skip
    assert "Glucose &lt;b&gt;" in (file.parent / "mine.nmf" / "report.html").read_text("utf-8")
    assert folder.not_ours(file.parent / "mine.nmf") == []


def test_a_report_that_cannot_be_drawn_does_not_keep_the_fit_from_disk(opened, file, monkeypatch):
    def fails(*_):
        raise ArithmeticError("no such colour")

    monkeypatch.setattr(saving, "pages", fails)
    opened.save("mine.nmf")
    note = done(opened)
    assert "Drawing the report failed (no such colour)" in note.text
    assert folder.is_fit(file.parent / "mine.nmf")


def test_cancelling_a_save_leaves_the_report_out(opened, file, monkeypatch):
    monkeypatch.setattr(Job, "cancelled", True)
    opened.save("mine.nmf")
    note = done(opened)
    assert "Drawing the report was cancelled" in note.text
    assert folder.is_fit(file.parent / "mine.nmf")
    assert not (file.parent / "mine.nmf" / "report.html").exists()


def test_what_is_saved_can_be_exported(opened, file):
    opened.go(4)
    opened.edit("rename", 1, "glucose")
    done(opened)
    opened.save("mine.nmf")
    done(opened)
    path = file.parent / "mine.nmf"
    assert main(["export", str(path), "--tables", "xlsx"]) == 0
    assert (path / "tables.xlsx").exists()
    assert "glucose" in (path / "components.csv").read_text("utf-8")
    assert folder.not_ours(path) == []


def test_the_saved_script_repeats_the_edits(opened, file, monkeypatch):
    opened.go(4)
    for edit in (("merge", 0, 2), ("polish",), ("rename", 0, "glucose")):
        opened.edit(*edit)
        done(opened)
    opened.save("mine.nmf")
    assert done(opened).kind == "done"
    monkeypatch.chdir(file.parent / "mine.nmf")
    script = Path("edits.py").read_text()
    assert str(file) in script
    namespace = {}
    exec(compile(script, "edits.py", "exec"), namespace)
    np.testing.assert_array_equal(namespace["result"].W, opened.state.result.W)
    assert namespace["result"].names == opened.state.result.names


def test_a_shared_fit_cannot_put_code_into_the_script(tmp_path):
    data = datasets.lcms_like()
    evil = "x=open('pwned', 'w'),y"
    about = {"file": "run.csv", "reading": {evil: 1}}
    session = Session(data, nmf(data.X, 3, tol=0.1), about=about, place=Place(tmp_path))
    session.save("mine.nmf")
    done(session)
    session.close()
    script = (tmp_path / "mine.nmf" / "edits.py").read_text("utf-8")
    read = next(node for node in ast.parse(script).body if isinstance(node, ast.Assign)).value
    assert ast.unparse(read) == f"nmfmerge.io.read('run.csv', **{ {evil: 1}!r}).X"
    command = folder.read(tmp_path / "mine.nmf").about["command"]
    assert shlex.split(command) == ["nmfmerge", "explore", "run.csv"]
    subprocess.run([sys.executable, "edits.py"], cwd=tmp_path / "mine.nmf", capture_output=True)
    assert not (tmp_path / "mine.nmf" / "pwned").exists()


def test_the_script_for_the_generated_example_runs(tmp_path, monkeypatch):
    data = datasets.lcms_like()
    about = {"file": "nmfmerge.datasets.lcms_like()", "generated": True}
    session = Session(data, nmf(data.X, 3, tol=0.1), about=about, place=Place(tmp_path))
    session.save("mine.nmf")
    done(session)
    monkeypatch.chdir(tmp_path / "mine.nmf")
    namespace = {}
    exec(compile(Path("edits.py").read_text("utf-8"), "edits.py", "exec"), namespace)
    np.testing.assert_array_equal(namespace["result"].W, session.state.result.W)
    session.close()


def test_saving_without_a_name_saves_and_says_where(opened, file):
    opened.save()
    assert done(opened).text == f"Saved as run.nmf in {file.parent}."
    first = folder.read(file.parent / "run.nmf").result
    np.testing.assert_array_equal(first.W, opened.state.result.W)
    opened.edit("rename", 0, "glucose")
    done(opened)
    opened.save()
    assert done(opened).text == f"Saved as run.nmf in {file.parent}."
    assert folder.read(file.parent / "run.nmf").result.names[0] == "glucose"
    assert opened.folders.proposed == "run.nmf"


def test_an_edit_that_replaces_an_undone_one_is_saved_to_the_same_folder(opened, file):
    opened.edit("rename", 0, "glucose")
    done(opened)
    opened.save()
    done(opened)
    opened.undo()
    done(opened)
    opened.edit("rename", 0, "fructose")
    done(opened)
    opened.save()
    assert done(opened).text.startswith("Saved as run.nmf in")
    assert folder.read(file.parent / "run.nmf").result.names[0] == "fructose"


def test_another_rank_is_saved_to_a_folder_of_its_own(opened, file):
    for rank, name in ((4, "run.nmf"), (3, "run-v2.nmf"), (4, "run.nmf")):
        opened.go(rank)
        opened.save()
        assert done(opened).text == f"Saved as {name} in {file.parent}."
        assert folder.read(file.parent / name).result.n_components == rank


def test_a_later_session_goes_on_saving_to_the_folder_that_it_continues(opened, file):
    opened.go(4)
    opened.edit("rename", 0, "glucose")
    done(opened)
    opened.save()
    done(opened)
    opened.close()
    later = open_path(file)
    later.edit("rename", 1, "fructose")
    done(later)
    later.save()
    assert done(later).text.startswith("Saved as run.nmf in")
    assert folder.read(file.parent / "run.nmf").result.names[:2] == ("glucose", "fructose")
    later.undo()
    done(later)
    later.close()
    other = open_path(file)  # what was undone can be done again
    other.save()
    assert done(other).text.startswith("Saved as run.nmf in")
    other.undo()
    done(other)
    other.edit("rename", 0, "other")
    done(other)
    other.close()
    last = open_path(file)  # and now the saved edits are gone, but for the folder
    last.save()
    assert done(last).text.startswith("Saved as run-v2.nmf in")
    assert folder.read(file.parent / "run.nmf").result.names[0] == "glucose"
    last.close()


def test_whatever_else_has_the_name_is_left_alone(opened, file):
    here = file.parent
    (here / "run.nmf").mkdir()
    (here / "run.nmf" / "notes.txt").write_text("years of work")
    (here / "run-v2.nmf").write_text("a file")
    folder.write(here / "run-v3.nmf", folder.Fit(opened.state.result, opened.data))
    opened.save()
    assert done(opened).text == f"Saved as run-v4.nmf in {here}."
    assert (here / "run.nmf" / "notes.txt").read_text() == "years of work"
    assert (here / "run-v2.nmf").read_text() == "a file"


def test_the_opened_fit_is_never_replaced_unasked(opened, file):
    opened.save("mine.nmf")
    done(opened)
    opened.close()
    again = open_path(file.parent / "mine.nmf")
    before = (file.parent / "mine.nmf" / "factors.npz").read_bytes()
    again.save()
    assert done(again).text.startswith("Saved as mine-v2.nmf in")
    again.save("mine.nmf")
    assert done(again).kind == "error"
    assert again.state.note.replacing == "mine.nmf"
    assert (file.parent / "mine.nmf" / "factors.npz").read_bytes() == before
    again.close()


def test_before_another_fit_is_replaced_the_page_asks(opened, file):
    folder.write(file.parent / "mine.nmf", folder.Fit(opened.state.path[2], opened.data))
    opened.go(3)
    opened.save("mine.nmf")
    note = done(opened)
    assert note.text == "mine.nmf holds another fit: replace it, or choose another name."
    assert opened.state.note.replacing == "mine.nmf"
    opened.keep()
    assert opened.state.note.text == "mine.nmf stays as it is."
    assert folder.read(file.parent / "mine.nmf").result.n_components == 2
    opened.save("mine.nmf")
    done(opened)
    opened.save("mine.nmf", overwrite=True)
    assert done(opened).text.startswith("Saved as mine.nmf in")
    assert folder.read(file.parent / "mine.nmf").result.n_components == 3


@pytest.mark.parametrize(
    ("title", "first", "second"),
    [
        ("run", "run.nmf", "run-v2.nmf"),
        ("run.nmf", "run.nmf", "run-v2.nmf"),
        ("run-v2.nmf", "run.nmf", "run-v2.nmf"),
        ("2026-05-12", "2026-05-12.nmf", "2026-05-12-v2.nmf"),
        ("a/b: c", "a-b- c.nmf", "a-b- c-v2.nmf"),
        ("...", "solution.nmf", "solution-v2.nmf"),
    ],
)
def test_names_to_save_as_can_be_used(tmp_path, title, first, second):
    names = saving.names_for(title)
    assert (next(names), next(names)) == (first, second)
    assert Place(tmp_path).file(first).name == first


@pytest.mark.parametrize("name", ["../mine.nmf", "/tmp/mine.nmf", "", ".mine", "a/b"])
def test_nothing_is_saved_outside_the_opened_folder(opened, file, name):
    before = {path: path.stat().st_mtime_ns for path in file.parent.parent.rglob("*")}
    opened.save(name)
    assert done(opened).kind == "error"
    assert {p: p.stat().st_mtime_ns for p in file.parent.parent.rglob("*")} == before


def test_other_files_are_never_replaced(opened, file):
    (file.parent / "thesis").mkdir()
    (file.parent / "thesis" / "chapter.tex").write_text("years of work")
    for name in ("thesis", "run.npy"):
        for overwrite in (False, True):
            opened.save(name, overwrite)
            note = done(opened)
            assert note.kind == "error"
            assert " -o" not in note.text  # which is for the command line
    assert (file.parent / "thesis" / "chapter.tex").read_text() == "years of work"
    assert np.load(file).shape == (60, 90)


# ---- nothing lost


def test_edits_are_found_again_after_a_kill(file):
    first = open_path(file)
    first.find_path(4)
    done(first)
    first.go(3)
    first.edit("merge", 0, 1)
    done(first)
    first.edit("rename", 0, "glucose")
    done(first)
    first._autosave.close()  # a process that was killed has lost its lock, and nothing else
    second = open_path(file)
    assert "earlier session" in second.state.note.text
    np.testing.assert_array_equal(second.state.result.W, first.state.result.W)
    assert second.state.names == first.state.names
    assert second.state.edits == first.state.edits
    second.undo()
    done(second)
    second.undo()
    done(second)
    np.testing.assert_array_equal(second.state.result.W, first.state.path[3].W)
    second.close()
    first.close()


class Killed(BaseException):
    pass


@pytest.mark.parametrize("n", range(3))
def test_a_kill_in_the_first_autosave_is_no_change_of_the_data(file, monkeypatch, n):
    session = open_path(file)
    editor = Editor(session.matrix, nmf(session.matrix, 3))
    editor.rename(0, "glucose")
    replace, left = os.replace, [n]  # files that are complete before the kill

    def dying(*places):
        if left[0] == 0:
            raise Killed
        left[0] -= 1
        replace(*places)

    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr(os, "replace", dying)
        session._autosave.keep(3, editor, ["Rename 1"])
    session.close()
    again = open_path(file)
    assert not file.with_name(f"{file.name}.edits-1").exists()
    assert list(again.editors) == ([3] if n == 2 else [])
    assert again.state.note is None or "are here again" in again.state.note.text
    again.close()


@pytest.mark.parametrize("about", [None, "{", "[]", '{"words": [1]}', '{"words": {"x": 1}}'])
def test_edits_are_shown_where_nothing_says_which_data_they_are_of(file, about):
    session = open_path(file)
    session.find_path(4)
    done(session)
    session.go(3)
    session.edit("rename", 0, "glucose")
    done(session)
    session.close()
    place = file.with_name(f"{file.name}.edits") / "about.json"
    place.unlink() if about is None else place.write_text(about)
    again = open_path(file)
    assert list(again.editors) == [3]
    assert again.state.names[0] == "glucose"
    assert "are here again" in again.state.note.text
    assert "check that they still fit" in again.state.note.text
    again.close()


def test_edits_of_data_that_have_changed_are_set_aside(file, data):
    first = open_path(file)
    first.find_path(3)
    done(first)
    first.edit("rename", 0, "glucose")
    done(first)
    first.close()
    np.save(file, 2 * data.X)
    second = open_path(file)
    assert second.state.result is None
    assert "run.npy.edits-1" in second.state.note.text
    assert list((file.parent / "run.npy.edits-1").glob("start-*"))
    second.close()


def test_a_file_that_is_open_elsewhere_is_refused(file):
    first = open_path(file)
    with pytest.raises(AutosaveError, match="in use by another run"):
        open_path(file)
    first.close()
    open_path(file).close()


def test_a_damaged_file_of_edits_is_set_aside(file):
    first = open_path(file)
    first.find_path(3)
    done(first)
    first.edit("rename", 0, "glucose")
    done(first)
    first.close()
    kept = next((file.parent / "run.npy.edits").glob("start-*"))
    kept.write_bytes(b"half a file")
    second = open_path(file)
    assert second.state.result is None
    assert "cannot be read" in second.state.note.text
    assert kept.exists() or list(file.parent.glob("run.npy.edits*/start-*"))
    second.close()


def test_a_disk_that_is_full_does_not_lose_the_edit(opened, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Autosave, "keep", full)
    opened.edit("rename", 0, "glucose")
    note = done(opened)
    assert opened.state.names[0] == "glucose"
    assert "No space left on device" in note.text
    assert note.kind == "error"


def test_a_folder_that_cannot_be_written_is_told(file, monkeypatch):
    def denied(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("nmfmerge.files.Lock.acquire", denied)
    session = open_path(file)
    assert "Edits are not kept" in session.state.note.text
    session.find_path(3)
    done(session)
    session.close()


# ---- what can be opened


def test_a_wrong_file_is_not_kept_locked(file):
    np.save(file, -np.ones((4, 3)))
    for _ in range(2):
        with pytest.raises(ValueError, match="Negative values"):
            open_path(file)
    assert sorted(path.name for path in file.parent.iterdir()) == ["run.npy"]


def test_a_matrix_in_memory_has_numbered_axes(rng):
    session = open_matrix(rng.random((8, 6)).tolist())
    assert session.data.rows.name == "row"
    assert session.data.X.shape == (8, 6)
    session.close()


def test_something_that_is_no_matrix_is_refused(rng):
    with pytest.raises(ValueError, match="X has 1 dimensions"):
        open_matrix(rng.random(5))


def test_a_fit_without_its_data_is_refused(opened, file):
    opened.save("mine.nmf")
    done(opened)
    opened.close()
    file.unlink()
    with pytest.raises(folder.FolderError, match="not there unchanged"):
        open_path(file.parent / "mine.nmf")


def test_saving_goes_to_the_folder_of_the_data(opened, file):
    assert opened.place.folder == Place(file.parent).folder
