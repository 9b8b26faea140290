"""Edits are not lost: not by a kill, not by a disk that is full."""

import os
from contextlib import suppress

import numpy as np
import pytest

from nmfmerge import Editor, nmf
from nmfmerge.explore.autosave import Autosave, AutosaveError
from nmfmerge.explore.explorer import open_path
from tests.explore.conftest import done


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

    monkeypatch.setattr("nmfmerge.storage.files.Lock.acquire", denied)
    session = open_path(file)
    assert "Edits are not kept" in session.state.note.text
    session.find_path(3)
    done(session)
    session.close()
