"""The list of the files of a fit, stored in its ``fit.json``.

Only these are replaced when the fit is. The list is checked when it is read: a name that leads out
of the folder is ignored.
"""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from nmfmerge.storage.files import replacing, scratch_file

RECORD = "fit.json"
_KEY = "files"


def written_files(folder: Path) -> list[str]:
    """Names of all files in a folder, with that of the record, which is written last."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return sorted({RECORD, *(file.relative_to(folder).as_posix() for file in files)})


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Write ``fit.json`` into a new folder whose other files are complete."""
    record = record | {_KEY: written_files(folder)}
    (folder / RECORD).write_text(_text(record), encoding="utf-8")


def add_files(folder: Path, names: Iterable[str]) -> None:
    """Add names to the list of a fit, before these files are written into its folder."""
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    record[_KEY] = sorted(_names(record) | set(names))
    with replacing(folder / RECORD) as opened:
        opened.write(_text(record).encode())


def not_ours(folder: Path) -> list[str]:
    """Names of what is in the folder of a fit and was not written with it."""
    try:
        listed = _names(json.loads((folder / RECORD).read_text(encoding="utf-8")))
    except (OSError, ValueError):  # damaged: it is not known what was written
        listed = set()
    listed.add(RECORD)
    ours = listed | {scratch_file(Path(name)).as_posix() for name in listed}
    return [
        name
        for name, entry in _entries(folder, {str(PurePosixPath(name).parent) for name in listed})
        if entry.is_symlink() or not entry.is_file() or name not in ours
    ]


def _text(record: dict[str, Any]) -> str:
    return json.dumps(record, indent=1) + "\n"


def _names(record: Any) -> set[str]:
    names = record.get(_KEY) if isinstance(record, dict) else None
    if not isinstance(names, list):
        return set()
    return {name for name in names if isinstance(name, str) and _is_inside(name)}


def _is_inside(name: str) -> bool:
    """True if a name is that of a file in the folder, or in a folder in it."""
    parts = name.split("/")
    plain = all(part and not part.startswith(".") and os.path.basename(part) == part
                for part in parts)  # fmt: skip
    return len(parts) <= 2 and plain and name.isprintable()


def _entries(folder: Path, opened: set[str]) -> Iterator[tuple[str, Path]]:
    """The contents of a folder, and of its subfolders that hold files of the fit."""
    for entry in folder.iterdir():
        if entry.name in opened and entry.is_dir() and not entry.is_symlink():
            yield from ((f"{entry.name}/{file.name}", file) for file in entry.iterdir())
        else:
            yield entry.name, entry
