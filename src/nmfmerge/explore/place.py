"""The opened folder: what may be opened from it and written into it, and nothing outside."""

import os
from pathlib import Path

from nmfmerge.io.registry import FORMATS
from nmfmerge.storage.folder import is_fit

_SUFFIXES = tuple(suffix for fmt in FORMATS.values() for suffix in fmt.suffixes)


class PlaceError(ValueError):
    """A name that is not that of a file or folder here; the message says what to do."""


class Place:
    """A folder whose files can be opened and saved by name, never by path.

    Parameters
    ----------
    folder : path
        The folder. Links that lead out of it are not followed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    def file(self, name: str) -> Path:
        """The path of a file or folder that lies directly in the opened folder.

        Raises
        ------
        PlaceError
            If the name is a path, is hidden, or is a link that leads out of the folder.
        """
        plain = name and name == name.strip() and name.isprintable() and not name.startswith(".")
        if not plain or name != os.path.basename(name) or any(c in name for c in '/\\:*?"<>|'):
            raise PlaceError(
                f"{name!r} cannot be used: expected a plain name such as run.nmf, without folders "
                "and not hidden"
            )
        path = self.folder / name
        if path.resolve().parent != self.folder:
            raise PlaceError(
                f"{name!r} is a link that leads out of {self.folder}: name a file in it"
            )
        return path

    def openable(self) -> list[str]:
        """Names of the data files and fits in the folder."""
        found = []
        for entry in sorted(self.folder.iterdir()):
            known = entry.is_file() and entry.name.lower().endswith(_SUFFIXES)
            if not known and not (entry.is_dir() and (is_fit(entry) or _is_store(entry))):
                continue
            try:
                self.file(entry.name)
            except PlaceError:
                continue
            found.append(entry.name)
        return found


def _is_store(path: Path) -> bool:
    return path.name.lower().endswith(".zarr")
