"""Saving from the page: names of folders, which folders may be replaced, and the report."""

import os
import re
from collections.abc import Iterator
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from nmfmerge.editor import Editor
from nmfmerge.editor.file import read
from nmfmerge.explore.job import Job
from nmfmerge.explore.place import Place
from nmfmerge.io.errors import one_line
from nmfmerge.report.pages import pages
from nmfmerge.storage.folder import Fit, is_fit
from nmfmerge.storage.manifest import not_ours

SUFFIX = ".nmf"


def names_for(title: str) -> Iterator[str]:
    """Names of folders to save as, one after the other: run.nmf, run-v2.nmf, run-v3.nmf, …."""
    stem = re.sub(r'[\\/:*?"<>|\x00-\x1f]+', "-", title.removesuffix(SUFFIX)).strip(" .")
    stem = re.sub(r"-v\d+$", "", stem) or "solution"
    yield stem + SUFFIX
    for number in count(2):
        yield f"{stem}-v{number}{SUFFIX}"


def continues(editor: Editor, folder: Path) -> bool:
    """True if the edits in a folder are the first of an editor's, so that replacing it loses none.

    Parameters
    ----------
    editor : Editor
        The edits that are to be saved, also those undone.
    folder : Path
        What was saved earlier.
    """
    try:
        old = read(folder / "edits.npz")
    except (OSError, ValueError):
        return False
    with TemporaryDirectory() as scratch:
        file = Path(scratch) / "edits.npz"
        editor.save(file)
        new = read(file)
    same = all(np.array_equal(getattr(old.start, F), getattr(new.start, F)) for F in ("W", "H"))
    same = same and old.held == new.held and old.start.names == new.start.names
    return same and old.edits[: old.n_done] == new.edits[: old.n_done]


class Folders:
    """The folders that a session saves to.

    Parameters
    ----------
    place : Place
        Where they are.
    opened : str
        What was opened: it is never replaced unasked.
    name : str
        Name of the data.
    """

    def __init__(self, place: Place, opened: str, name: str) -> None:
        self._place, self._opened = place, opened
        self._name = opened if opened.endswith(SUFFIX) else name
        self._last: str | None = None
        self._starts: dict[str, int] = {}  # by the folders that were saved from them

    def saved(self, name: str, start: int) -> None:
        """Take note of a folder that was saved."""
        self._last, self._starts[name] = name, start

    @property
    def proposed(self) -> str:
        """A name to save as: the last one, or one that is not there yet."""
        return self._last or next(name for name in names_for(self._name) if not self._has(name))

    def free(self, editor: Editor, start: int) -> str:
        """The first name that is not there, or that the editor may replace."""
        names = names_for(self._last or self._name)
        names = names if self._last is None else chain([self._last], names)
        return next(n for n in names if not self._has(n) or self.is_ours(n, editor, start))

    def is_ours(self, name: str, editor: Editor, start: int) -> bool:
        """True if a folder was saved by this session from the same start, or by one before it."""
        path = self._place.folder / name
        if name == self._opened or not is_fit(path) or not_ours(path):
            return False
        return self._starts.get(name) == start or continues(editor, path)

    def _has(self, name: str) -> bool:
        return os.path.lexists(self._place.folder / name)


class _Cancelled(Exception):
    """The user does not want to wait for the report."""


def report_or_nothing(fit: Fit, job: Job) -> tuple[dict[str, str | bytes], str]:
    """The report and its figures; nothing, and why, if drawing fails or is cancelled."""

    def tick(name: str) -> None:
        job.report(f"drawing the report ({name})")
        if job.cancelled:
            raise _Cancelled

    try:
        return pages(fit, tick), ""
    except _Cancelled:
        why = "was cancelled"
    except Exception as error:  # whatever odd data make the drawing library raise
        why = f"failed ({one_line(error)})"
    return {}, f" Drawing the report {why}: `nmfmerge report` draws it from the folder."
