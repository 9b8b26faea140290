"""A fit in a folder: written as a whole or not at all, and read back.

Comes in: a `Factorization`, the axes of its data, and what is to be told of it. Goes out: W and H
as npz and csv, ``fit.json``, the merges, the history, and whatever pages and figures are given.
"""

import csv
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.merge import MergeTree
from nmfmerge.result import Factorization, History, Stage, Status

_DIGITS = ".9g"  # of a number in a csv file; factors.npz has all


class FolderError(ValueError):
    """A folder cannot be written, or holds no fit; the message says what to do."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A factorization, the data it is of (X may be None), and what is to be told of it."""

    result: Factorization
    data: Dataset
    about: dict[str, Any] = field(default_factory=dict)


def refuse_existing(path: Path, force: bool) -> None:
    """Refuse to write where something is already, unless ``force``."""
    if path.exists() and not force:
        raise FolderError(
            f"{path} is there already: name another folder with -o, or overwrite it with --force"
        )
    if path.exists() and not (path / "fit.json").is_file():
        raise FolderError(
            f"{path} holds something other than a fit, which --force does not overwrite: name "
            "another folder with -o"
        )
    if not path.resolve().parent.is_dir():
        raise FolderError(f"there is no folder {path.parent} to write {path.name} into: make it")


def write(
    path: Path, fit: Fit, pages: Mapping[str, str | bytes] | None = None, *, force: bool = False
) -> None:
    """Write a fit beside its place, then put it there in one move.

    Parameters
    ----------
    path : Path
        The folder to make.
    fit : Fit
        What to write.
    pages : mapping, optional
        More files by name, such as ``report.html`` and ``figures/components.png``.
    force : bool
        Whether a folder that is there is replaced.
    """
    refuse_existing(path, force)
    scratch = path.with_name(f".{path.name}.{os.getpid()}.new")
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        scratch.mkdir()
        _write_fit(scratch, fit)
        for name, content in (pages or {}).items():
            file = scratch / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
        _put_in_place(scratch, path)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def read(path: Path) -> Fit:
    """Read a fit back; its data have axes, but no X."""
    if not (path / "fit.json").is_file():
        raise FolderError(f"{path} holds no fit: name a folder that `nmfmerge fit` has written")
    try:
        about = json.loads((path / "fit.json").read_text(encoding="utf-8"))
        factors, history, axes = (
            _arrays(path / f"{name}.npz") for name in ("factors", "history", "axes")
        )
        data = Dataset(
            X=None,
            n_components=None,
            rows=Axis(values=axes["rows"], **about["data"]["rows"]),
            columns=Axis(values=axes["columns"], **about["data"]["columns"]),
            name=about["data"]["name"],
            image_shape=_shape(about["data"]["image_shape"]),
            image_order=about["data"]["image_order"],
        )
        result = _result(about["result"], factors, history, _read_merges(path, about["result"]))
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        raise FolderError(f"{path} is damaged ({error}): make the fit again") from error
    return Fit(result, data, about)


def _write_fit(folder: Path, fit: Fit) -> None:
    result, data = fit.result, fit.data
    np.savez(folder / "factors.npz", W=result.W, H=result.H,
             generalized_singular_values=result.generalized_singular_values)  # fmt: skip
    histories: dict[str, Any] = {
        f"{i}": np.stack([stage.history.step, stage.history.seconds, stage.history.fitting_error])
        for i, stage in enumerate(result.stages)
        if stage.history is not None
    }
    np.savez(folder / "history.npz", **histories)
    values = (np.asarray(axis.values) for axis in (data.rows, data.columns))
    rows, columns = (array.astype(str) if array.dtype == object else array for array in values)
    np.savez(folder / "axes.npz", rows=rows, columns=columns)
    _write_table(folder / "W.csv", data.rows, result.W)
    _write_table(folder / "H.csv", data.columns, result.H.T)
    if result.merges is not None:
        lines = zip(result.merges.pairs.tolist(), result.merges.penalties.tolist(), strict=True)
        table = ([first + 1, second + 1, repr(penalty)] for (first, second), penalty in lines)
        _write_csv(folder / "merges.csv", ["first", "second", "penalty"], table)
    about = fit.about | {"data": _known(data), "result": _told(result)}
    (folder / "fit.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def _put_in_place(scratch: Path, path: Path) -> None:
    for file in scratch.rglob("*"):
        if file.is_file():
            with open(file, "rb") as opened:
                os.fsync(opened.fileno())
    if not path.exists():
        os.rename(scratch, path)
        return
    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    os.rename(path, old)
    try:
        os.rename(scratch, path)
    except BaseException:
        os.rename(old, path)
        raise
    shutil.rmtree(old)


def _write_table(path: Path, axis: Axis, columns: np.ndarray) -> None:
    """One line for each entry of the axis, one column for each component."""
    head = [axis.label, *(f"component {t + 1}" for t in range(columns.shape[1]))]
    lines = (
        [name, *(format(value, _DIGITS) for value in values)]
        for name, values in zip(axis.values.tolist(), columns.tolist(), strict=True)
    )
    _write_csv(path, head, lines)


def _write_csv(path: Path, head: list[str], lines: Any) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(lines)


def _known(data: Dataset) -> dict[str, Any]:
    return {
        "name": data.name,
        "rows": {"name": data.rows.name, "unit": data.rows.unit},
        "columns": {"name": data.columns.name, "unit": data.columns.unit},
        "image_shape": list(data.image_shape) if data.image_shape else None,
        "image_order": data.image_order,
    }


def _told(result: Factorization) -> dict[str, Any]:
    names = ("name", "n_components", "n_iter", "seconds", "fitting_error", "status")
    return {
        "n_components": result.n_components,
        "fitting_error": result.fitting_error,
        "objective": result.objective,
        "status": result.status,
        "converged": result.converged,
        "n_iter": result.n_iter,
        "seconds": result.seconds,
        "stages": [{name: getattr(stage, name) for name in names} for stage in result.stages],
        "n_leaves": result.merges.n_leaves if result.merges else None,
    }


def _result(
    told: dict[str, Any],
    factors: dict[str, np.ndarray],
    history: dict[str, np.ndarray],
    merges: MergeTree | None,
) -> Factorization:
    stages = [
        Stage(**known | {"status": Status(known["status"])},
              history=History(*history[f"{i}"]) if f"{i}" in history else None)
        for i, known in enumerate(told["stages"])
    ]  # fmt: skip
    return Factorization(
        W=factors["W"],
        H=factors["H"],
        objective=told["objective"],
        fitting_error=told["fitting_error"],
        stages=stages,
        status=Status(told["status"]),
        seconds=told["seconds"],
        merges=merges,
        generalized_singular_values=factors["generalized_singular_values"],
    )


def _read_merges(path: Path, told: dict[str, Any]) -> MergeTree | None:
    if told["n_leaves"] is None:
        return None
    with open(path / "merges.csv", newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    pairs = np.array([[int(line["first"]), int(line["second"])] for line in lines]) - 1
    penalties = np.array([float(line["penalty"]) for line in lines])
    return MergeTree(told["n_leaves"], pairs, penalties)


def _arrays(path: Path) -> dict[str, np.ndarray]:
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _shape(known: list[int] | None) -> tuple[int, int] | None:
    return (known[0], known[1]) if known else None
