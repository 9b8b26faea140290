"""The file of an editor: its start and its edits, written as a whole and read back, checked."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.editor.edits import Edit
from nmfmerge.results.factorization import Factorization
from nmfmerge.storage.files import replacing
from nmfmerge.storage.records import pack_result, read_arrays, unpack_result

_FORMAT = 1


@dataclass(frozen=True, eq=False)
class Saved:
    """A start, which of its components are held, the edits, and how many of these are done."""

    start: Factorization
    held: list[int]
    settings: dict[str, Any]
    edits: list[Edit]
    n_done: int


def write(path: Path, saved: Saved) -> None:
    """Write a file that `read` reads."""
    result, arrays = pack_result(saved.start)
    record = {
        "format": _FORMAT,
        "start": result,
        "held": saved.held,
        "settings": saved.settings,
        "edits": [edit.as_json() for edit in saved.edits],
        "n_done": saved.n_done,
    }
    with replacing(path) as opened:
        np.savez(opened, **arrays, edits=np.array(json.dumps(record)))  # type: ignore[arg-type]


def read(path: Path) -> Saved:
    """Read a file; raise ValueError for anything that `write` could not have written."""
    try:
        arrays = read_arrays(path)
        record = json.loads(str(arrays.pop("edits")))
        if record["format"] != _FORMAT:
            raise ValueError(f"its format is {record['format']!r}, expected {_FORMAT}")
        saved = Saved(
            start=unpack_result(record["start"], arrays),
            held=list(record["held"]),
            settings=dict(record["settings"]),
            edits=[Edit.from_json(edit) for edit in record["edits"]],
            n_done=int(record["n_done"]),
        )
        if not 0 <= saved.n_done <= len(saved.edits):
            raise ValueError(f"{saved.n_done} of its {len(saved.edits)} edits are done")
    except FileNotFoundError:
        raise
    except Exception as error:  # whatever damaged files make their readers raise
        raise ValueError(
            f"{path} holds no edits that can be read ({error}): name a file that Editor.save has "
            "written"
        ) from error
    return saved
