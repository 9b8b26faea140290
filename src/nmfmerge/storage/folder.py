"""A fit in a folder: written as a whole or not at all, and read back.

Input: a `Factorization`, the axes of its data, and how it was made. Output: W and H as npz
(one that is too large for memory as npy), ``fit.json``, the history, the path through all ranks if
it was chosen from one, tables to read, and whatever pages, figures and exports are given.
"""

import json
import os
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.arguments.errors import Given, Message
from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.results.about import About
from nmfmerge.results.consensus import Consensus
from nmfmerge.results.factorization import Factorization
from nmfmerge.results.lazy_factors import mapped_file
from nmfmerge.results.rank_path import RankPath
from nmfmerge.storage.consensus_record import pack_consensus, unpack_consensus
from nmfmerge.storage.files import InUse
from nmfmerge.storage.manifest import RECORD, not_ours, write_record
from nmfmerge.storage.records import pack_path, pack_result, read_arrays, unpack_path, unpack_result
from nmfmerge.storage.result_tables import fit_tables
from nmfmerge.storage.swap import finish_replacing, replace_folder, scratch_folder
from nmfmerge.storage.tables import write_tables

# What is in factors.npz, where it is known; all other arrays are in history.npz.
_FACTORS = ("W", "H", "spread W", "spread H", "generalized_singular_values")


ANOTHER = "name another folder"


class FolderError(ValueError):
    """A folder cannot be written, or holds no fit; the message says what to do."""


class RestoredWarning(UserWarning):
    """A fit was put back in its place, from where a killed process had left it."""


@dataclass(frozen=True, eq=False)
class Fit:
    """A factorization, the data it is of (X may be None), and how it was made.

    ``path`` is the path through all ranks that it was chosen from, if there is one, and
    ``consensus`` the consensus that it is of. ``weights`` of the entries of X are at hand if X is.
    """

    result: Factorization
    data: Dataset
    about: About = field(default_factory=About)
    path: RankPath | None = None
    consensus: Consensus | None = None
    weights: Any = None


def check_output(path: Path, replace: bool, another: str = ANOTHER) -> None:
    """Check, before a fit, that its folder can be written; make the folders above it.

    Parameters
    ----------
    path : Path
        The folder to write.
    replace : bool
        Whether an existing fit may be replaced. Nothing else is ever replaced.
    another : str
        The advice for a folder that cannot be used, in the words of the interface.
    """
    _refuse_existing(path, replace, another)
    others = not_ours(path) if os.path.exists(path) else []
    if others:
        raise FolderError(
            f"{path} holds files that are not of the fit, and would be lost ({listed(others)}): "
            f"move them, or {another}"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        probe = scratch_folder(path)
        probe.mkdir()
        probe.rmdir()
        if path.exists() and not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(None, "its files may not be replaced")
    except OSError as error:
        raise FolderError(f"{path} cannot be written ({error.strerror}): {another}") from error


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
    _refuse_existing(path, replace, ANOTHER)
    scratch = scratch_folder(path)
    try:
        scratch.mkdir()
        record = _write_fit(scratch, fit, tables)
        for name, content in (pages or {}).items():
            file = scratch / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
        if exports is not None:
            exports(scratch)
        write_record(scratch, record)
        _put_in_place(scratch, path)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def is_fit(path: Path) -> bool:
    """True if a folder holds a fit."""
    return os.path.isfile(path / RECORD)


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
    """Restore a fit if a process was killed while replacing it.

    Returns
    -------
    text : str
        A sentence for the user; empty if there was nothing to restore.
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
        record = json.loads((path / RECORD).read_text(encoding="utf-8"))
        factors, history, axes = (
            read_arrays(path / f"{name}.npz") for name in ("factors", "history", "axes")
        )
        factors |= _mapped_factors(path, factors)
        data = _unpack_data(record["data"], axes)
        result = unpack_result(record["result"], factors | history)
        if (len(data.rows.values), len(data.columns.values)) != (len(result.W), result.H.shape[1]):
            raise ValueError("its axes do not fit its factors")
        rank_path = _read_path(path, record, result)
        consensus = _read_consensus(path, record, result)
        about = About.of(record)
    except Exception as error:  # whatever damaged files make their readers raise
        raise FolderError(f"{path} is damaged ({error}): make the fit again") from error
    return Fit(result, data, about, rank_path, consensus)


def _mapped_factors(folder: Path, factors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The factor that has its own file because it is too large for memory."""
    return {
        name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        for name in ("W", "H")
        if name not in factors
    }


def _read_path(folder: Path, record: dict[str, Any], result: Factorization) -> RankPath | None:
    if record.get("path") is None:
        return None
    path = unpack_path(record["path"], read_arrays(folder / "path.npz"))
    other = path.factorizations[0]
    if (len(other.W), other.H.shape[1]) != (len(result.W), result.H.shape[1]):
        raise ValueError("its path is of other data than its factors")
    return path


def _read_consensus(
    folder: Path, record: dict[str, Any], result: Factorization
) -> Consensus | None:
    if record.get("consensus") is None:
        return None
    consensus = unpack_consensus(record["consensus"], read_arrays(folder / "consensus.npz"))
    other = consensus.results[0]
    if (len(other.W), other.H.shape[1]) != (len(result.W), result.H.shape[1]):
        raise ValueError("its consensus is of other data than its factors")
    return consensus


def _refuse_existing(path: Path, replace: bool, another: str) -> None:
    _warn_if_restored(path)
    if os.path.islink(path):
        raise FolderError(
            f"{path} is a link to {os.readlink(path)}, which is not replaced: {another}"
        )
    if not os.path.exists(path) or (path.is_dir() and not any(path.iterdir())):
        return
    if not is_fit(path):
        raise FolderError(
            f"{path} holds something other than a fit, which is never overwritten: {another}"
        )
    if not replace:
        raise FolderError(
            Message(
                "{path} already exists: {another}, or overwrite it with {overwrite}",
                path=path,
                another=another,
                overwrite=Given("replace", True),
            )
        )


def _write_fit(folder: Path, fit: Fit, tables: str) -> dict[str, Any]:
    """Write the arrays and tables of a fit; return its record for ``fit.json``."""
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
    write_tables(folder, fit_tables(result, data, fit.path, fit.consensus), tables)
    whole = fit.about.as_record() | {"data": _pack_data(data), "result": record}
    if fit.path is not None:
        whole["path"], arrays = pack_path(fit.path)
        _save(folder / "path.npz", arrays)
    if fit.consensus is not None:
        whole["consensus"], arrays = pack_consensus(fit.consensus, result.n_components)
        _save(folder / "consensus.npz", arrays)
    return whole


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
