"""A solution as a folder like that of ``nmfmerge fit``, with its edits as a script."""

import shlex
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nmfmerge.datasets.base import Dataset
from nmfmerge.editor import Editor
from nmfmerge.editor.code import call
from nmfmerge.explore.job import Job
from nmfmerge.explore.saving import report_or_nothing
from nmfmerge.explore.state import OPENED
from nmfmerge.export.of_fit import Exports
from nmfmerge.io.weights import weights_options
from nmfmerge.results.about import About
from nmfmerge.results.rank_path import RankPath
from nmfmerge.storage.folder import Fit, check_output, write
from nmfmerge.storage.provenance import now, versions

_OF_DATA = ("missing",)  # settings that the edits have, too


def fit_of(
    editor: Editor,
    start: int,
    data: Dataset,
    about: About,
    path: RankPath | None,
    weights: Any = None,
) -> Fit:
    """The result of the edits of a start, with its provenance.

    Parameters
    ----------
    editor : Editor
        The edits.
    start : int
        The rank they began with, or `OPENED`.
    data, about : Dataset, About
        What is factorized, and how it was read.
    path : RankPath or None
        Solutions of all ranks, if they are known.
    weights : array or sparse matrix, optional
        Weights of the entries of X.
    """
    opened = ["nmfmerge", "explore", about.file or data.name]
    opened += [] if about.weights is None else ["--weights", about.weights["file"]]
    opened += [] if about.missing == "nan" else ["--missing", about.missing]
    began = "the opened fit" if start == OPENED else f"rank {start}"
    notes = [f"Made in the explorer from {began} by {len(editor.edits)} edits; see edits.py."]
    made = about.without_measured().updated(
        command=about.command or shlex.join(opened),
        settings={
            "n_components": editor.n_components,
            "start": began,
            "edits": len(editor.edits),
            **{name: about.settings[name] for name in _OF_DATA if name in about.settings},
        },
        versions=versions(),
        date=now(),
        notes=notes,
    )
    return Fit(editor.result(), data, made, path, weights=weights)


def write_fit(path: Path, fit: Fit, editor: Editor, job: Job) -> str:
    """Write a fit with its report, its exports and its edits; returns what could not be made."""
    check_output(path, replace=True)
    drawn, why_not = report_or_nothing(fit, job)
    exports = Exports(fit)
    write(path, fit, drawn | _edits(editor, fit.about, fit.weights), exports=exports, replace=True)
    return f"{why_not}{exports.remarks}"


def _edits(editor: Editor, about: About, weights: Any) -> dict[str, str | bytes]:
    """The edits as files of the folder: a script, and the start that it begins with."""
    X, file = 'np.load("X.npy")', about.file
    if about.generated:
        X = "nmfmerge.datasets.lcms_like().X"
    elif file is not None:
        X = call("nmfmerge.io.read", file, **about.reading) + ".X"
    known = None
    if about.weights is not None and file is not None:
        path = Path(about.weights["file"])
        options = weights_options(path, Path(file), about.reading)
        line = ".ravel()" if weights.ndim == 1 else ""
        known = call("nmfmerge.io.read", str(path), **options) + f".X{line}"
    elif weights is not None:
        known = 'np.load("weights.npy")'
    with TemporaryDirectory() as folder:
        saved = Path(folder) / "edits.npz"
        editor.save(saved)
        code = editor.script(X=X, weights=known, missing=about.missing)
        return {"edits.py": code, "edits.npz": saved.read_bytes()}
