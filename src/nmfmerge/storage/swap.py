"""Replace one folder by another, safely even if the process is killed halfway.

The new folder is complete, and beside the old one as ``.NAME.TOKEN.new``, before anything moves.
Then the old one becomes ``.NAME.TOKEN.old``, the new one takes its place, and the old one is
deleted. If a process is killed in between, the next one finishes its work.
"""

import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from nmfmerge.storage.files import Lock

Keep = Callable[[Path], list[str]]  # names of the files in an old folder that are kept


def scratch_folder(path: Path) -> Path:
    """A new name beside a folder, for what is moved into its place when it is complete."""
    return path.with_name(f".{path.name}.{token_hex(4)}.new")


def replace_folder(new: Path, path: Path, keep: Keep) -> None:
    """Put ``new``, which `scratch_folder` has named, in the place of the folder ``path``.

    Raises
    ------
    InUse
        If another process replaces the same folder at this moment.
    """
    old = new.with_suffix(".old")
    with Lock(path).held():
        os.rename(path, old)
        try:
            os.rename(new, path)
        except BaseException:
            os.rename(old, path)
            raise
        _delete(old, path, keep)


def finish_replacing(path: Path, keep: Keep) -> Path | None:
    """Finish what a killed process began, and return the folder that took the place of ``path``.

    None where the folder is in its place.
    """
    if not _left_behind(path):
        return None
    moved = None
    with Lock(path).held():
        for old in _left_behind(path):
            new = old.with_suffix(".new")
            if not os.path.lexists(path):
                moved = new if new.is_dir() else old  # a new one is complete once there is an old
                os.rename(moved, path)
            if old.exists() and not new.exists():
                _delete(old, path, keep)
    return moved


def _delete(old: Path, path: Path, keep: Keep) -> None:
    """Delete an old folder; files that are kept go to the same place in the new one."""
    for name in keep(old):
        if not os.path.lexists(path / name):
            (path / name).parent.mkdir(exist_ok=True)
            os.rename(old / name, path / name)
    shutil.rmtree(old)


def _left_behind(path: Path) -> list[Path]:
    """Old folders that a killed process has not deleted."""
    name = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}\.old")
    found: list[Path] = []
    with suppress(OSError):  # there is no such place, or it may not be looked at
        found = [entry for entry in path.parent.iterdir() if name.fullmatch(entry.name)]
    return sorted(found)
