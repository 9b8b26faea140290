"""The provenance of a fit: hash of its data file, versions and date; and its data, read again."""

import hashlib
import os
import platform
from contextlib import suppress
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.datasets import lcms_like
from nmfmerge.datasets.base import Dataset
from nmfmerge.io import read
from nmfmerge.io.parts import files_of
from nmfmerge.io.sample import sample_digest
from nmfmerge.io.weights import read_weights
from nmfmerge.storage.folder import Fit, FolderError

_PACKAGES = ("nmfmerge", "numpy", "scipy", "numba", "scikit-learn")


def digest(path: Path) -> str:
    """SHA-256 of the files of a data set; of a folder with their names."""
    if not path.exists():
        raise FileNotFoundError(f"{path} was not found: check its name and folder")
    total = hashlib.sha256()
    for file in files_of(path):
        if path.is_dir():
            total.update(os.fsencode(file.relative_to(path).as_posix()))
        with open(file, "rb") as opened:
            while part := opened.read(1 << 20):
                total.update(part)
    return total.hexdigest()


def versions(*more: str) -> dict[str, str]:
    """Versions of Python, this package and its dependencies, as far as they are installed."""
    found = {"python": platform.python_version()} | {name: version(name) for name in _PACKAGES}
    for name in more:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def now() -> str:
    """Date and time, to the second."""
    return datetime.now().astimezone().isoformat(timespec="seconds")


def _is_data_of(fit: Fit, path: Path) -> bool:
    if fit.about.data_sample_sha256 is not None:
        return sample_digest(path) == fit.about.data_sample_sha256
    return digest(path) == fit.about.data_sha256


def same_data(first: Fit, second: Fit) -> bool | None:
    """True if two fits are of the same data file; None if unknown."""
    for name in ("data_sha256", "data_sample_sha256"):
        hashes = getattr(first.about, name), getattr(second.about, name)
        if None not in hashes:
            return bool(hashes[0] == hashes[1])
    for fit, other in ((first, second), (second, first)):
        path = Path(other.about.file or "")
        sampled = fit.about.data_sample_sha256 is not None
        if sampled and path.exists() and path != Path():
            same_file = digest(path) == other.about.data_sha256
            return _is_data_of(fit, path) if same_file else None
    return None


def why_absent(fit: Fit) -> str:
    """The reason why `data_again` returns no data of a fit."""
    if fit.about.streamed is not None:
        return "were streamed"
    return "are not there unchanged"


def data_again(fit: Fit, moved_to: Path | None = None) -> Dataset | None:
    """The data of a fit, with X read from its file again; None if the file is missing or changed.

    A file that was streamed is read only where ``moved_to`` names it.
    """
    if fit.about.generated:
        return lcms_like()
    if moved_to is not None and not moved_to.exists():
        raise FileNotFoundError(f"{moved_to} was not found: check its name and folder")
    path = moved_to or Path(fit.about.file or "")
    if not path.exists() or path == Path():
        return None
    if fit.about.data_sample_sha256 is not None and moved_to is None:
        return None  # it was streamed, and is read only if it is named
    if not _is_data_of(fit, path):
        if moved_to is not None:
            raise FolderError(f"{path} is not the file that was fitted: its contents differ")
        return None
    data = read(path, **fit.about.reading)
    if _has_axes_of(fit, data):
        return data
    if moved_to is not None:
        raise FolderError(
            f"{path} is read in other rows or columns than those of the fit, which another version "
            "of nmfmerge made: fit it again"
        )
    return None


def weights_record(path: Path | None) -> dict[str, str] | None:
    """A file of weights and its hash, for `About`."""
    return None if path is None else {"file": str(path.resolve()), "sha256": digest(path)}


def weights_again(fit: Fit, data: Dataset, moved_to: Path | None = None) -> Any:
    """The weights of a fit, read from their file again; ``moved_to`` is the data file."""
    if fit.about.weights is None:
        return None
    path = Path(fit.about.weights["file"])
    if not path.exists() or digest(path) != fit.about.weights["sha256"]:
        raise FolderError(
            f"the weights of the fit ({path}) are not there unchanged: put the file back"
        )
    return read_weights(path, data, moved_to or Path(fit.about.file or ""), fit.about.reading)


def same_weights(first: Fit, second: Fit) -> bool:
    """True if the entries of the data count equally in two fits."""
    hashes = [fit.about.weights and fit.about.weights["sha256"] for fit in (first, second)]
    return hashes[0] == hashes[1]


def _has_axes_of(fit: Fit, data: Dataset) -> bool:
    """True if data are binned like those of a fit; other reader versions may bin differently."""
    for axis, own in ((data.rows, fit.data.rows), (data.columns, fit.data.columns)):
        numbers = axis.values.dtype.kind in "iuf" and own.values.dtype.kind in "iuf"
        if len(axis.values) != len(own.values):
            return False
        if numbers and not np.allclose(axis.values, own.values, rtol=1e-9, equal_nan=True):
            return False
    return True
