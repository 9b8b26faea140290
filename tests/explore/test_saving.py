"""What a session saves, and where."""

import ast
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nmfmerge import datasets, nmf
from nmfmerge.cli import main
from nmfmerge.explore import saving
from nmfmerge.explore.explorer import open_path
from nmfmerge.explore.job import Job
from nmfmerge.explore.place import Place
from nmfmerge.explore.session import Session
from nmfmerge.results.about import About
from nmfmerge.storage import folder, manifest
from tests.explore.conftest import done


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
    assert manifest.not_ours(file.parent / "mine.nmf") == []


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
    assert manifest.not_ours(path) == []


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
    about = About(file="run.csv", reading={evil: 1})
    session = Session(data, nmf(data.X, 3, tol=0.1), about=about, place=Place(tmp_path))
    session.save("mine.nmf")
    done(session)
    session.close()
    script = (tmp_path / "mine.nmf" / "edits.py").read_text("utf-8")
    read = next(node for node in ast.parse(script).body if isinstance(node, ast.Assign)).value
    assert ast.unparse(read) == f"nmfmerge.io.read('run.csv', **{ {evil: 1}!r}).X"
    command = folder.read(tmp_path / "mine.nmf").about.command
    assert shlex.split(command) == ["nmfmerge", "explore", "run.csv"]
    subprocess.run([sys.executable, "edits.py"], cwd=tmp_path / "mine.nmf", capture_output=True)
    assert not (tmp_path / "mine.nmf" / "pwned").exists()


def test_the_script_for_the_generated_example_runs(tmp_path, monkeypatch):
    data = datasets.lcms_like()
    about = About(file="nmfmerge.datasets.lcms_like()", generated=True)
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
    assert opened.state.note.text == "mine.nmf was not replaced."
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
