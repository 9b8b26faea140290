"""LC-MS runs, mzML or netCDF: intensities summed in bins of m/z and of retention time."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.datasets.convert import bin_index, read_andi_run
from nmfmerge.io.build import build
from nmfmerge.io.errors import FormatError
from nmfmerge.io.mzml import read_spectra

_DENSE_FROM = 0.1  # filled part of the bins from which a dense matrix is the smaller one to handle


@dataclass(frozen=True)
class Run:
    """The points of a run: scan, m/z and intensity of each, and the seconds of each scan."""

    times: np.ndarray
    scan: np.ndarray
    masses: np.ndarray
    intensities: np.ndarray


def read_mzml(path: Path, ms_level: int = 1, **bins: float) -> Dataset:
    """Read the scans of one MS level of an mzML file, plain or gzipped."""
    spectra = list(read_spectra(path, ms_level))
    if not spectra:
        raise FormatError(f"{path} has no scans of MS level {ms_level}: choose another ms_level")
    masses = [spectrum.masses for spectrum in spectra]
    run = Run(
        np.array([spectrum.seconds for spectrum in spectra]),
        np.repeat(np.arange(len(spectra)), [len(one) for one in masses]),
        np.concatenate(masses),
        np.concatenate([spectrum.intensities for spectrum in spectra]),
    )
    return _bin(path, run, **bins)


def read_andi(path: Path, **bins: float) -> Dataset:
    """Read a netCDF (ANDI) run."""
    with path.open("rb") as file:
        if file.read(8) == b"\x89HDF\r\n\x1a\n":
            raise FormatError(f"{path} is netCDF-4: convert it to netCDF-3, or to mzML")
    try:
        run = Run(*read_andi_run(path))
    except KeyError as error:
        raise FormatError(
            f"{path} has no variable {error}, so it is not an LC-MS run in ANDI form: export the "
            "run again, or as mzML"
        ) from error
    return _bin(path, run, **bins)


def _bin(
    path: Path,
    run: Run,
    *,
    mz_bin: float = 1.0,
    mz_min: float | None = None,
    mz_max: float | None = None,
    time_bin: float | None = None,
    time_min: float | None = None,
    time_max: float | None = None,
) -> Dataset:
    """Sum a run into bins; without ``time_bin`` a column is a scan.

    Bins of m/z begin at ``mz_min``, by default at the multiple of ``mz_bin`` below the data.
    """
    _check(path, run)
    keep = _between(run.times, time_min, time_max)
    if not keep.any():
        raise FormatError(
            f"{path} has no scan between time_min and time_max: its scans are from "
            f"{run.times.min():g} s to {run.times.max():g} s"
        )
    points = keep[run.scan] & _between(run.masses, mz_min, mz_max)
    if not points.any():
        raise FormatError(f"{path} has no points in this range: widen mz_min to mz_max")
    masses = run.masses[points]
    low = np.floor(masses.min() / mz_bin) * mz_bin if mz_min is None else mz_min
    edges = _edges(masses, low, mz_max, mz_bin)
    seconds, column = _columns(run.times, keep, time_bin, time_min, time_max)
    row = bin_index(masses, low, mz_bin, len(edges))
    at = np.minimum(row, len(edges) - 1), column[run.scan[points]]
    X: Any = sp.coo_matrix((run.intensities[points], at), (len(edges), len(seconds))).tocsr()
    X.eliminate_zeros()
    dense = X.nnz >= _DENSE_FROM * X.shape[0] * X.shape[1]
    return build(
        path,
        X.toarray() if dense else X,
        Axis("m/z", edges),
        Axis("retention time", seconds, "s"),
        description=f"LC-MS run in bins of {mz_bin:g} Da.",
    )


def _columns(
    times: np.ndarray,
    keep: np.ndarray,
    time_bin: float | None,
    time_min: float | None,
    time_max: float | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Seconds at which each column begins, and the column of each scan that is kept."""
    if time_bin is None:
        return times[keep], np.cumsum(keep) - 1
    low = times[keep].min() if time_min is None else time_min
    edges = _edges(times[keep], low, time_max, time_bin)
    column = np.zeros(len(times), dtype=np.int64)
    column[keep] = np.minimum(bin_index(times[keep], low, time_bin, len(edges)), len(edges) - 1)
    return edges, column


def _edges(values: np.ndarray, low: float, high: float | None, width: float) -> np.ndarray:
    """Lower edges of the bins from ``low`` that hold all values, or that reach ``high``."""
    if high is None:
        n = int((values.max() - low) // width) + 1
    else:
        n = max(1, int(np.ceil((high - low) / width - 1e-9)))
    return low + width * np.arange(n)


def _between(values: np.ndarray, low: float | None, high: float | None) -> np.ndarray:
    inside = np.ones(len(values), dtype=bool)
    if low is not None:
        inside &= values >= low
    if high is not None:
        inside &= values <= high
    return inside


def _check(path: Path, run: Run) -> None:
    if len(run.times) == 0 or len(run.masses) == 0:
        raise FormatError(f"{path} holds no scans with points: export the run again")
    if len(run.masses) != len(run.intensities) or len(run.scan) != len(run.masses):
        raise FormatError(f"{path} has not as many intensities as masses: export the run again")
    if run.scan[-1] >= len(run.times):
        raise FormatError(f"{path} has more scans than times: export the run again")
    if not (np.isfinite(run.masses).all() and np.isfinite(run.times).all()):
        raise FormatError(f"{path} has masses or times that are not numbers: export the run again")
