"""A folder takes the place of another one, and the process dies at any moment."""

import os
import shutil
import warnings
from contextlib import suppress

import numpy as np
import pytest

from nmfmerge import datasets, nmf
from nmfmerge.cli import main
from nmfmerge.explore.explorer import open_path
from nmfmerge.results.about import About
from nmfmerge.storage import folder
from nmfmerge.storage.files import Lock
from nmfmerge.storage.folder import Fit, FolderError, RestoredWarning

DATA = datasets.lcms_like()  # the data of a fit that says it was generated
ABOUT = About(generated=True)
OLD, NEW = (Fit(nmf(DATA.X, r, tol=0.1), DATA, ABOUT) for r in (2, 3))


class Killed(BaseException):
    pass


@pytest.fixture
def killed(tmp_path, monkeypatch):
    """A fit with a file of the user that was being replaced when the process was killed.

    It was killed after so many moves and deletions.
    """

    def after(n):
        path, left = tmp_path / "a.nmf", [n]
        folder.write(path, OLD)
        (path / "notes.txt").write_text("years")

        def guarded(function):
            def call(*arguments, **options):
                if left[0] == 0:
                    raise Killed
                left[0] -= 1
                return function(*arguments, **options)

            return call

        with monkeypatch.context() as patch, suppress(Killed):
            patch.setattr(os, "rename", guarded(os.rename))
            patch.setattr(shutil, "rmtree", guarded(shutil.rmtree))
            folder.write(path, NEW, replace=True)
        return path

    return after


def restored(path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = folder.read(path)
    return fit, [str(warning.message) for warning in caught]


@pytest.mark.parametrize("n", range(5))
def test_a_fit_is_found_again_whenever_the_process_was_killed(tmp_path, killed, n):
    path = killed(n)
    missing = not path.exists()
    assert missing == (n == 1)  # between the two renames
    fit, told = restored(path)
    expected = OLD if n == 0 else NEW
    np.testing.assert_array_equal(fit.result.W, expected.result.W)
    sentence = f"{path} was being replaced when a process was killed: the new fit, which is " \
        "complete, is in its place now"  # fmt: skip
    assert told == ([sentence] if missing else [])
    folder.write(path, NEW, replace=True)
    assert (path / "notes.txt").read_text() == "years"
    left = [entry for entry in os.listdir(tmp_path) if entry.endswith((".old", "-lock"))]
    assert left == []


def test_the_earlier_fit_comes_back_where_the_new_one_is_gone(tmp_path, killed):
    path = killed(1)
    shutil.rmtree(next(tmp_path.glob(".a.nmf.*.new")))
    fit, told = restored(path)
    np.testing.assert_array_equal(fit.result.W, OLD.result.W)
    assert told[0].endswith("the earlier fit is in its place now")


def test_what_stands_in_the_place_by_now_is_not_touched(tmp_path, killed):
    path = killed(1)
    path.mkdir()
    (path / "notes.txt").write_text("years")
    with pytest.raises(FolderError, match="holds no fit"):
        folder.read(path)
    assert os.listdir(path) == ["notes.txt"]
    assert len(list(tmp_path.glob(".a.nmf.*"))) == 2


def test_a_fit_that_another_process_replaces_now_is_left_to_it(killed):
    path = killed(1)
    in_use = r"in use by another run \(process \d+\), which replaces it"
    with Lock(path).held(), pytest.raises(FolderError, match=in_use):
        folder.read(path)
    with pytest.warns(RestoredWarning):
        folder.read(path)


def test_a_place_that_cannot_be_written_is_named(killed, monkeypatch):
    path = killed(1)

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(FolderError, match=r"Permission denied\): rename \.a\.nmf\.….new"):
        folder.read(path)


def test_the_explorer_opens_it_and_says_so(killed):
    path = killed(1)
    session = open_path(path)
    assert "the new fit, which is complete, is in its place now" in session.state.note.text
    np.testing.assert_array_equal(session.state.result.W, NEW.result.W)
    session.close()


def test_a_command_opens_it_and_says_so(killed, capsys):
    path = killed(1)
    assert main(["compare", str(path), str(path)]) == 0
    told = capsys.readouterr().err
    assert told.startswith(f"nmfmerge: {path} was being replaced")
    assert told.count("\n") == 1
