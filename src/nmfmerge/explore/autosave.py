"""Save every edit at once in ``FILE.edits`` beside the data, and restore edits later."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nmfmerge.editor import Editor
from nmfmerge.storage.files import InUse, Lock, replacing

_ABOUT = "about.json"


class AutosaveError(ValueError):
    """Edits cannot be kept; the message says why."""


class Autosave:
    """A folder with one file of edits for each start that was edited.

    Parameters
    ----------
    folder : Path
        The folder; it is made with the first edit.
    data_sha256 : str
        Hash of the data file. Edits of other data are moved aside, never deleted.
    """

    def __init__(self, folder: Path, data_sha256: str) -> None:
        self.folder = folder
        self._about = {"data_sha256": data_sha256}
        self.last: int | None = None  # the start that was edited last
        self.words: dict[int, list[str]] = {}  # the edits of each start
        self.moved_to: Path | None = None
        self.unsure = False  # whether edits are of these data
        self.damaged: list[str] = []
        self._lock = Lock(folder)
        try:
            self._lock.acquire()
        except InUse as error:
            raise AutosaveError(
                f"{folder.name} is {error}: use the page that is open, or close that explorer"
            ) from None
        if os.path.islink(folder):
            self.close()
            raise AutosaveError(f"{folder} is a link: move it, so that edits can be kept there")
        self._set_others_aside()

    def keep(self, start: int, editor: Editor, words: list[str]) -> None:
        """Write the edits of one start; the earlier file stays until the new one is complete.

        Which data they are of is written before them: a process may be killed in between.
        """
        self.folder.mkdir(exist_ok=True)
        self.words[start], self.last = words, start
        with replacing(self.folder / _ABOUT) as opened:
            opened.write(json.dumps(self._about | {"last": start, "words": self.words}).encode())
        editor.save(self._file(start))

    def found(self, X: Any) -> dict[int, Editor]:
        """Editors with the edits of an earlier session, by start; damaged files are set aside."""
        about = self._read()
        self.last, self.words = about.get("last"), _words(about.get("words"))
        editors = {}
        for start, file in self._files():
            try:
                editors[start] = Editor.load(file, X)
            except Exception as error:  # whatever a damaged file makes its reader raise
                aside = file.with_name(f"{file.name}.damaged")
                os.replace(file, aside)
                self.damaged.append(f"{aside} cannot be read ({' '.join(str(error).split())})")
        return editors

    def close(self) -> None:
        """Let another session have the folder."""
        self._lock.release()

    def _file(self, start: int) -> Path:
        return self.folder / f"start-{start}.npz"

    def _files(self) -> Iterator[tuple[int, Path]]:
        for file in sorted(self.folder.glob("start-*.npz")):
            number = file.stem.removeprefix("start-")
            if number.isdigit() and file.is_file() and not file.is_symlink():
                yield int(number), file

    def _read(self) -> dict[str, Any]:
        try:
            about = json.loads((self.folder / _ABOUT).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return about if isinstance(about, dict) else {}

    def _set_others_aside(self) -> None:
        data = self._read().get("data_sha256")
        self.unsure = data is None and any(self._files())
        if data in (None, self._about["data_sha256"]) or not any(self._files()):
            return
        numbers = range(1, 10_000)
        names = (self.folder.with_name(f"{self.folder.name}-{number}") for number in numbers)
        self.moved_to = next(path for path in names if not os.path.lexists(path))
        os.rename(self.folder, self.moved_to)


def _words(record: Any) -> dict[int, list[str]]:
    """The edits of each start in words, those that can be read."""
    found = record.items() if isinstance(record, dict) else ()
    return {
        int(start): [str(text) for text in texts]
        for start, texts in found
        if start.isdecimal() and isinstance(texts, list)
    }
