"""A fit in a folder: written as a whole or not at all, and read back.

Comes in: a `Factorization`, the axes of its data, and how it was made. Goes out: W and H as npz
(one that is too large for memory as npy), ``fit.json``, the history, the path through all ranks if
it was chosen from one, tables to read, and whatever pages, figures and exports are given.
"""

import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.files import InUse, scratch_file
from nmfmerge.lazy_factors import mapped_file
from nmfmerge.records import pack_path, pack_result, read_arrays, unpack_path, unpack_result
from nmfmerge.result import Factorization
from nmfmerge.result_path import RankPath
from nmfmerge.result_tables import fit_tables
from nmfmerge.specific import table_name
from nmfmerge.swap import finish_replacing, replace_folder, scratch_folder
from nmfmerge.tables import WORKBOOK, write_tables

FIGURES = (
    "components", "maps", "convergence", "reconstruction", "merges", "singular-values", "starts",
    "rank-path",
)  # fmt: skip
_FILES = {
    "fit.json", "factors.npz", "W.npy", "H.npy", "history.npz", "axes.npz", "W.csv", "H.csv",
    "components.csv", "starts.csv", "merges.csv", "path.npz", "path.csv", "edits.py", "edits.npz",
    "report.html",
    *(f"figures/{name}.png" for name in FIGURES),
}  # fmt: skip
_TABLES = (
    "W", "H", "components", "peaks", "traces", "spectra", "starts", "merges", "path",
)  # fmt: skip
# What exports write, see `nmfmerge.export`, and tables in other formats than csv.
_EXPORTED = {
    "peaks.csv", "spectra.msp", "spectra.mgf", "spectra.csv", "traces.csv", "maps.tif",
    "result.h5ad", WORKBOOK, *(f"{name}.parquet" for name in _TABLES), "audio/rest.wav",
}  # fmt: skip
_STEM = re.compile(r"audio/component-\d+\.wav")
_FOLDERS = ("figures", "audio")
# What is in factors.npz, where it is known; all other arrays are in history.npz.
_FACTORS = ("W", "H", "spread W", "spread H", "generalized_singular_values")


class FolderError(ValueError):
    """A folder cannot be written, or holds no fit; the message says what to do."""


class RestoredWarning(UserWarning):
    """A fit was put back in its place, from where a killed process had left it."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A factorization, the data it is of (X may be None), and how it was made.

    ``path`` is the path through all ranks that it was chosen from, if there is one.
    """

    result: Factorization
    data: Dataset
    about: dict[str, Any] = field(default_factory=dict)
    path: RankPath | None = None


def check_output(path: Path, replace: bool) -> None:
    """Find out, before a fit, whether its folder can be written; make the folders above it.

    Parameters
    ----------
    path : Path
        The folder to write.
    replace : bool
        Whether a fit that is there may be replaced. Nothing else ever is.
    """
    _refuse_existing(path, replace)
    others = not_ours(path) if os.path.exists(path) else []
    if others:
        raise FolderError(
            f"{path} holds files that are not of the fit, and would be lost ({listed(others)}): "
            "move them, or name another folder with -o"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        probe = scratch_folder(path)
        probe.mkdir()
        probe.rmdir()
        if path.exists() and not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(None, "its files may not be replaced")
    except OSError as error:
        raise FolderError(
            f"{path} cannot be written ({error.strerror}): name another folder with -o"
        ) from error


def not_ours(path: Path) -> list[str]:
    """Names of what is in the folder of a fit and was not written by us."""
    ours = _FILES | _EXPORTED | _unfinished_files() | _tables_of_names(path)
    return [
        name
        for name, entry in _entries(path)
        if entry.is_symlink() or not entry.is_file() or not (name in ours or _STEM.fullmatch(name))
    ]


def _tables_of_names(path: Path) -> set[str]:
    """Files such as ``top-genes.csv``, whose names come from the axes; none if these are lost."""
    try:
        record = json.loads((path / "fit.json").read_text(encoding="utf-8"))["data"]
        rows, columns = (Axis(record[side]["name"], np.empty(0)) for side in ("rows", "columns"))
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    data = Dataset("", None, None, rows, columns)
    names = (table_name(axis, data) for axis in (rows, columns))
    return {f"{name}.{suffix}" for name in names for suffix in ("csv", "parquet")}


def listed(names: list[str], most: int = 5) -> str:
    """Names for a message, the first few of them."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(sorted(names)[:most]) + more


def write(
    path: Path,
    fit: Fit,
    pages: Mapping[str, str | bytes] | None = None,
    *,
    exports: Callable[[Path], object] | None = None,
    tables: str = "csv",
    replace: bool = False,
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
    exports : callable, optional
        Writes more files into the folder that it is called with.
    tables : str
        Format of the tables: "csv", "parquet" or "xlsx".
    replace : bool
        Whether a fit that is there is replaced. Files in it that are not ours are kept.
    """
    _refuse_existing(path, replace)
    scratch = scratch_folder(path)
    try:
        scratch.mkdir()
        _write_fit(scratch, fit, tables)
        for name, content in (pages or {}).items():
            file = scratch / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
        if exports is not None:
            exports(scratch)
        _put_in_place(scratch, path)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def is_fit(path: Path) -> bool:
    """Whether a folder holds a fit."""
    return os.path.isfile(path / "fit.json")


def read(path: Path) -> Fit:
    """Read a fit back; its data have axes, but no X."""
    fit = find(path)
    if fit is None:
        raise FolderError(f"{path} holds no fit: name a folder that `nmfmerge fit` has written")
    return fit


def find(path: Path) -> Fit | None:
    """The fit in a folder, as `read` reads it; None if it holds none."""
    if not is_fit(path):
        _warn_if_restored(path)
    return _read(path) if is_fit(path) else None


def restore(path: Path) -> str:
    """Put a fit in its place, where a process was killed that was replacing it; say so if it did.

    Returns
    -------
    text : str
        A sentence for the user; empty where nothing was amiss.
    """
    try:
        moved = finish_replacing(path, not_ours)
    except InUse as error:
        raise FolderError(f"{path} is {error}, which replaces it: try again") from None
    except OSError as error:
        if os.path.lexists(path):
            return ""  # an old folder is left beside it
        raise FolderError(
            f"{path} was being replaced when a process was killed, and cannot be put in its place "
            f"({error.strerror or error}): rename .{path.name}.….new, beside it"
        ) from error
    if moved is None:
        return ""
    which = "new fit, which is complete," if moved.suffix == ".new" else "earlier fit"
    return f"{path} was being replaced when a process was killed: the {which} is in its place now"


def _warn_if_restored(path: Path) -> None:
    if text := restore(path):
        warnings.warn(text, RestoredWarning, stacklevel=4)


def _read(path: Path) -> Fit:
    try:
        about = json.loads((path / "fit.json").read_text(encoding="utf-8"))
        factors, history, axes = (
            read_arrays(path / f"{name}.npz") for name in ("factors", "history", "axes")
        )
        factors |= _mapped_factors(path, factors)
        data = _unpack_data(about["data"], axes)
        result = unpack_result(about["result"], factors | history)
        if (len(data.rows.values), len(data.columns.values)) != (len(result.W), result.H.shape[1]):
            raise ValueError("its axes do not fit its factors")
        rank_path = _read_path(path, about, result)
    except Exception as error:  # whatever damaged files make their readers raise
        raise FolderError(f"{path} is damaged ({error}): make the fit again") from error
    return Fit(result, data, about, rank_path)


def _mapped_factors(folder: Path, factors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The factor that is in a file of its own, as it is too large for memory."""
    return {
        name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        for name in ("W", "H")
        if name not in factors
    }


def _read_path(folder: Path, about: dict[str, Any], result: Factorization) -> RankPath | None:
    if about.get("path") is None:
        return None
    path = unpack_path(about["path"], read_arrays(folder / "path.npz"))
    other = path.factorizations[0]
    if (len(other.W), other.H.shape[1]) != (len(result.W), result.H.shape[1]):
        raise ValueError("its path is of other data than its factors")
    return path


def _refuse_existing(path: Path, replace: bool) -> None:
    _warn_if_restored(path)
    if os.path.islink(path):
        raise FolderError(
            f"{path} is a link to {os.readlink(path)}: name that folder with -o, or another one"
        )
    if not os.path.exists(path) or (path.is_dir() and not any(path.iterdir())):
        return
    if not is_fit(path):
        raise FolderError(
            f"{path} holds something other than a fit, which is never overwritten: name another "
            "folder with -o"
        )
    if not replace:
        raise FolderError(
            f"{path} is there already: name another folder with -o, or overwrite it with --force"
        )


def _entries(path: Path) -> Iterator[tuple[str, Path]]:
    for entry in path.iterdir():
        if entry.name in _FOLDERS and entry.is_dir() and not entry.is_symlink():
            yield from ((f"{entry.name}/{file.name}", file) for file in entry.iterdir())
        else:
            yield entry.name, entry


def _unfinished_files() -> set[str]:
    """What `nmfmerge report` leaves in a folder when it is killed."""
    return {scratch_file(Path(name)).as_posix() for name in _FILES}


def _write_fit(folder: Path, fit: Fit, tables: str) -> None:
    result, data = fit.result, fit.data
    record, arrays = pack_result(result)
    for name in ("W", "H"):
        if (file := mapped_file(arrays[name])) is not None:
            _link(file, folder / f"{name}.npy")
            del arrays[name]
    _save(folder / "factors.npz", {name: arrays.pop(name) for name in _FACTORS if name in arrays})
    _save(folder / "history.npz", arrays)
    values = (np.asarray(axis.values) for axis in (data.rows, data.columns))
    rows, columns = (array.astype(str) if array.dtype == object else array for array in values)
    _save(folder / "axes.npz", {"rows": rows, "columns": columns})
    write_tables(folder, fit_tables(result, data, fit.path), tables)
    about = fit.about | {"data": _pack_data(data), "result": record}
    about.pop("path", None)
    if fit.path is not None:
        about["path"], arrays = pack_path(fit.path)
        _save(folder / "path.npz", arrays)
    (folder / "fit.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def _link(file: Path, place: Path) -> None:
    """Put a file into another folder without copying it, where the file system can do that."""
    try:
        os.link(file, place)
    except OSError:
        shutil.copyfile(file, place)


def _put_in_place(scratch: Path, path: Path) -> None:
    for file in scratch.rglob("*"):
        if file.is_file():
            with open(file, "rb") as opened:
                os.fsync(opened.fileno())
    if not path.exists():
        os.rename(scratch, path)
        return
    try:
        replace_folder(scratch, path, keep=not_ours)  # files that were put there while the fit ran
    except InUse as error:
        raise FolderError(f"{path} is {error}, which replaces it: name another folder") from None


def _pack_data(data: Dataset) -> dict[str, Any]:
    return {
        "name": data.name,
        "rows": {"name": data.rows.name, "unit": data.rows.unit},
        "columns": {"name": data.columns.name, "unit": data.columns.unit},
        "image_shape": list(data.image_shape) if data.image_shape else None,
        "image_order": data.image_order,
    }


def _unpack_data(record: dict[str, Any], axes: dict[str, np.ndarray]) -> Dataset:
    return Dataset(
        X=None,
        n_components=None,
        rows=Axis(values=axes["rows"], **record["rows"]),
        columns=Axis(values=axes["columns"], **record["columns"]),
        name=record["name"],
        image_shape=_unpack_image_shape(record["image_shape"]),
        image_order=record["image_order"],
    )


def _unpack_image_shape(shape: Any) -> tuple[int, int] | None:
    if shape is None:
        return None
    height, width = shape
    if type(height) is not int or type(width) is not int or min(height, width) < 1:
        raise ValueError(f"its pictures have the shape {shape!r}")
    return height, width


def _save(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    np.savez(path, **arrays)  # type: ignore[arg-type]
