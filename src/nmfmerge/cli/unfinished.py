"""The folder ``OUTPUT.unfinished``, which keeps the state of a run until it is done.

Only files that we wrote are deleted; a folder that holds anything else is refused.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nmfmerge.cli.messages import ANOTHER_FOLDER
from nmfmerge.storage.files import InUse, Lock, scratch_file
from nmfmerge.storage.folder import FolderError, listed

_ATTEMPTS = 20  # to make the folder, while other runs delete it


class Unfinished:
    """The folder of an unfinished run."""

    def __init__(self, output: Path) -> None:
        self.folder = output.with_name(output.name + ".unfinished")
        self.checkpoint = self.folder / "checkpoint.npz"
        self._lock = Lock(self.folder / "run")
        self._ours = {
            self.checkpoint, scratch_file(self.checkpoint), Lock(self.checkpoint).path,
            self._lock.path,
        }  # fmt: skip
        self._factors = {self.folder / f"{name}.npy" for name in "WH"}  # too large for memory
        self._ours |= self._factors

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder and keep other runs out of it; at the end, delete it if it is empty."""
        self._acquire()
        try:
            self._refuse_others()
            yield
        finally:
            for file in self._factors:
                file.unlink(missing_ok=True)
            if not self.checkpoint.exists():
                self.clear()
            self._lock.release()
            with suppress(OSError):  # if there is something to resume
                self.folder.rmdir()

    def exists(self) -> bool:
        """True if this folder, or any other file in its place, exists."""
        return os.path.lexists(self.folder)

    def clear(self) -> None:
        """Delete what we wrote."""
        for file in self._ours - {self._lock.path}:
            file.unlink(missing_ok=True)

    def _acquire(self) -> None:
        """Make the folder and lock it; where a run that ends deletes it meanwhile, try again."""
        for attempt in range(_ATTEMPTS):
            if os.path.islink(self.folder):
                raise FolderError(f"{self.folder} is a link: move it, or {ANOTHER_FOLDER}")
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._lock.acquire()
                return
            except InUse as error:
                raise FolderError(
                    f"{self.folder} is {error}: wait until it ends, or {ANOTHER_FOLDER}"
                ) from None
            except OSError as error:
                deleted = isinstance(error, FileNotFoundError | FileExistsError)
                if not deleted or attempt == _ATTEMPTS - 1:
                    raise FolderError(
                        f"{self.folder} cannot be written ({error.strerror}): {ANOTHER_FOLDER}"
                    ) from error

    def _refuse_others(self) -> None:
        others = [
            entry.name
            for entry in self.folder.iterdir()
            if entry not in self._ours or not entry.is_file() or entry.is_symlink()
        ]
        if others:
            raise FolderError(
                f"{self.folder} holds files that are not of a run ({listed(others)}): move them, "
                f"or {ANOTHER_FOLDER}"
            )
