"""The folder ``OUTPUT.unfinished``, which keeps the state of a run until it is done.

Only files that we wrote are deleted; a folder that holds anything else is refused.
"""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from nmfmerge.cli.messages import ANOTHER_FOLDER
from nmfmerge.settings import SETTINGS
from nmfmerge.solvers.progress import ProgressBar
from nmfmerge.storage.checkpoint import CheckpointError, OtherRun
from nmfmerge.storage.files import InUse, Lock, scratch_file
from nmfmerge.storage.folder import FolderError, check_output, listed

_ATTEMPTS = 20  # to make the folder, while other runs delete it


def add_resume(parser: argparse.ArgumentParser) -> None:
    """Add the option to continue."""
    parser.add_argument(
        "--resume", action="store_true", help="continue an interrupted run, if there is one"
    )


class Unfinished:
    """The folder of an unfinished run."""

    def __init__(self, output: Path) -> None:
        self.output = output
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

    def refuse_to_lose(self, given: argparse.Namespace) -> None:
        """Refuse a run that neither continues an interrupted one nor replaces it."""
        if self.checkpoint.exists() and not (given.resume or given.force):
            raise FolderError(
                f"{self.folder} holds an interrupted run: continue it with --resume, or start over "
                "with --force"
            )

    def begin(self, given: argparse.Namespace) -> bool:
        """Check that a run may begin or go on; return whether it may replace its output folder.

        An interrupted run leaves there what it had finished, which the run that continues replaces.
        """
        self.refuse_to_lose(given)
        replace = given.force or (given.resume and self.checkpoint.exists())
        check_output(self.output, replace, ANOTHER_FOLDER)
        if not given.resume:
            self.clear()
        return bool(replace)

    @contextmanager
    def continued(self) -> Iterator[None]:
        """Say in words of the command why a saved state cannot be continued."""
        try:
            yield
        except OtherRun as error:
            raise FolderError(
                f"{self.folder} holds the run of another command "
                f"({differences_in_words(error.differences)}): repeat that command to continue it, "
                "or start over with --force"
            ) from error
        except CheckpointError as error:
            raise FolderError(
                f"{self.checkpoint} {error.fault}: start over with --force"
            ) from error

    def advise(self, bar: ProgressBar, how: str = "the same command") -> None:
        """Say how to continue, where that is possible."""
        if self.checkpoint.exists():
            bar.write(f"nmfmerge: continue with {how} and --resume")

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


def differences_in_words(found: dict[str, tuple[Any, Any]]) -> str:
    """Differences of two runs in options."""
    if "format" in found:
        return "by another version of nmfmerge"
    settings = {name: pair for name, pair in found.items() if name in SETTINGS}
    words = ["other data or weights, or read otherwise"] if len(settings) < len(found) else []
    for name, (saved, present) in settings.items():
        flag = next(iter(SETTINGS[name].flags[-1:]), f"--{name}")
        words.append(f"{flag} {saved}, now {present}")
    return "; ".join(words)
