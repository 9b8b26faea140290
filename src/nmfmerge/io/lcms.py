"""LC-MS runs, mzML or netCDF: intensities summed in bins of m/z and of retention time.

Bins of m/z lie around multiples of their width, so that 180.06 is in the bin of 180. The m/z of a
bin is the mean of its points, weighted by intensity: the accurate mass, where the file has it.
Bins of time have their centres; without ``time_bin`` a column is a scan, at its own time. Scans
are binned as they come, so that only the bins of a run are ever in memory.
"""

import math
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nmfmerge.arguments.errors import Message
from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.datasets.convert import bin_index, bin_number, read_andi_run, rounding
from nmfmerge.io.build import build
from nmfmerge.io.errors import FormatError
from nmfmerge.io.memory import Memory
from nmfmerge.io.mzml import Spectrum, read_spectra

_DENSE_FROM = 0.1  # filled part of the bins from which a dense matrix is the smaller one to handle
_EDGE = 96  # bytes for the edge of a bin while the axis and the matrix are made
_POINT = 64  # bytes for an entry while the matrix is made
_COPIES = 6  # of a netCDF file: itself, its variables, and these as floats
_DIGITS = 4  # of an m/z after the point, at least: what single precision has, and libraries
_LARGEST = 2.0**53  # number of a bin from which floats do not count by ones


def read_mzml(path: Path, memory: Memory, ms_level: int = 1, **bins: float) -> Dataset:
    """Read the scans of one MS level of an mzML file, plain or gzipped."""
    run = _Run(path, memory, read_spectra(path, ms_level, memory), **bins)
    if not run.seconds:
        raise FormatError(
            Message(
                "{path} has no scans of MS level {level}: choose another {ms_level}",
                path=path,
                level=ms_level,
            )
        )
    return run.dataset()


def read_andi(path: Path, memory: Memory, **bins: float) -> Dataset:
    """Read a netCDF (ANDI) run."""
    memory.needs(_COPIES * path.stat().st_size)
    raw = path.read_bytes()
    if raw.startswith(b"\x89HDF\r\n\x1a\n"):
        raise FormatError(f"{path} is netCDF-4: convert it to netCDF-3, or to mzML")
    try:
        points = read_andi_run(BytesIO(raw))  # from a file, SciPy allocates all that it declares
    except KeyError as error:
        raise FormatError(
            f"{path} has no variable {error}, so it is not an LC-MS run in ANDI form: export the "
            "run again, or as mzML"
        ) from error
    return _Run(path, memory, _scans(*points), **bins).dataset()


def _scans(
    times: np.ndarray, scan: np.ndarray, masses: np.ndarray, intensities: np.ndarray
) -> Iterator[Spectrum]:
    """The scans of a run whose points stand one after the other."""
    ends = np.searchsorted(scan, np.arange(len(times)), side="right")
    start = 0
    for seconds, end in zip(times, ends, strict=True):
        yield Spectrum(float(seconds), masses[start:end], intensities[start:end])
        start = end


class _Run:
    """The bins of a run, filled scan by scan; without ``time_bin`` a column is a scan.

    Bins of m/z begin at ``mz_min``; by default their centres are multiples of ``mz_bin``.
    """

    def __init__(
        self,
        path: Path,
        memory: Memory,
        scans: Iterable[Spectrum],
        *,
        mz_bin: float = 1.0,
        mz_min: float | None = None,
        mz_max: float | None = None,
        time_bin: float | None = None,
        time_min: float | None = None,
        time_max: float | None = None,
    ) -> None:
        self.path, self.memory = path, memory
        self.mz_bin, self.mz_min, self.mz_max = mz_bin, mz_min, mz_max
        self.edge = -0.5 * mz_bin if mz_min is None else mz_min  # where the bin of number 0 begins
        self.time_bin, self.time_min, self.time_max = time_bin, time_min, time_max
        self.seconds: list[float] = []  # of all scans
        self.kept: list[float] = []  # of the scans between time_min and time_max
        self.filled: list[np.ndarray] = []  # numbers of the bins that each kept scan fills
        self.sums: list[np.ndarray] = []  # the intensity in each of them
        self.moments: list[np.ndarray] = []  # sum of intensity · m/z in each of them
        self.has_points = False
        self.n_filled = 0
        for scan in scans:
            self._add(scan)
            memory.needs(_POINT * self.n_filled)

    def _add(self, scan: Spectrum) -> None:
        masses = scan.masses
        if not (np.isfinite(masses).all() and np.isfinite(scan.seconds)):
            raise FormatError(
                f"{self.path} has masses or times that are not numbers: export the run again"
            )
        if (masses < 0).any():
            raise FormatError(f"{self.path} has an m/z of {masses.min():g}: export the run again")
        self.has_points |= len(masses) > 0
        self.seconds.append(scan.seconds)
        if not _between(np.array([scan.seconds]), self.time_min, self.time_max)[0]:
            return
        inside = _between(masses, self.mz_min, self.mz_max)
        masses, intensities = masses[inside], scan.intensities[inside]
        number = bin_number(masses, self.edge, self.mz_bin)
        if len(number) and np.abs(number).max() > _LARGEST:
            raise FormatError(
                Message(
                    "{path} has an m/z of {largest}, too large for bins of {width} Da: set "
                    "{mz_max}, or export the run again",
                    path=self.path,
                    largest=f"{masses.max():g}",
                    width=f"{self.mz_bin:g}",
                )
            )
        filled, place = np.unique(number, return_inverse=True)
        self.n_filled += len(filled)
        self.kept.append(scan.seconds)
        self.filled.append(filled.astype(np.int64))
        self.sums.append(np.bincount(place, intensities, minlength=len(filled)))
        self.moments.append(np.bincount(place, intensities * masses, minlength=len(filled)))

    def dataset(self) -> Dataset:
        """The run as a matrix of m/z × retention time."""
        self._check()
        filled = np.concatenate(self.filled)
        first = 0 if self.mz_min is not None else int(filled.min())
        low = self.edge + first * self.mz_bin
        last = int(filled.max())
        wanted: float = last - first + 1
        if self.mz_max is not None:
            wanted = _count(low, self.mz_max, self.mz_bin)
        n = self._affordable(wanted)
        seconds, column = self._columns()
        row = np.clip(filled - first, 0, n - 1)  # the last bin has its upper edge
        sums = np.concatenate(self.sums)
        at = row, np.repeat(column, [len(one) for one in self.filled])
        X: Any = sp.coo_matrix((sums, at), (n, len(seconds))).tocsr()
        X.eliminate_zeros()
        dense = X.nnz >= _DENSE_FROM * X.shape[0] * X.shape[1]
        return build(
            self.path,
            X.toarray() if dense else X,
            Axis("m/z", self._masses(low, row, sums, n)),
            Axis("retention time", seconds, "s"),
            memory=self.memory,
            description=self._description(),
        )

    def _masses(self, low: float, row: np.ndarray, sums: np.ndarray, n: int) -> np.ndarray:
        """Mean m/z of the points in each of n bins, weighted by intensity; else its centre."""
        centres = _centres(low, self.mz_bin, n)
        intensity = np.bincount(row, sums, n)
        moment = np.bincount(row, np.concatenate(self.moments), n)
        means = np.divide(moment, intensity, out=np.full(n, np.nan), where=intensity > 0)
        inside = np.abs(means - centres) <= 0.5 * self.mz_bin + rounding(means)  # False for NaN
        digits = max(_DIGITS, math.ceil(2 - math.log10(self.mz_bin)))
        return np.round(np.where(inside, means, centres), digits)

    def _description(self) -> str:
        in_time = "" if self.time_bin is None else f" and of {self.time_bin:g} s"
        return (
            f"LC-MS run in bins of {self.mz_bin:g} Da{in_time}; m/z are means of the points in a "
            "bin, weighted by intensity."
        )

    def _columns(self) -> tuple[np.ndarray, np.ndarray]:
        """Time of each column, a scan or the centre of a bin, and the column of each kept scan."""
        times = np.array(self.kept)
        if self.time_bin is None:
            return times, np.arange(len(times))
        low = times.min() if self.time_min is None else self.time_min
        wanted = float(bin_number(times, low, self.time_bin).max()) + 1
        if self.time_max is not None:
            wanted = _count(low, self.time_max, self.time_bin)
        n = self._affordable(wanted)
        column = np.clip(bin_index(times, low, self.time_bin, n), 0, n - 1)
        return _centres(low, self.time_bin, n), column

    def _affordable(self, n_bins: float) -> int:
        """The number of bins, checked against the memory that their edges take."""
        self.memory.needs(n_bins * _EDGE)
        return int(n_bins)

    def _check(self) -> None:
        if not self.has_points:
            raise FormatError(f"{self.path} holds no scans with points: export the run again")
        if not self.kept:
            raise FormatError(
                Message(
                    "{path} has no scan between {time_min} and {time_max}: its scans are from "
                    "{first} s to {last} s",
                    path=self.path,
                    first=f"{min(self.seconds):g}",
                    last=f"{max(self.seconds):g}",
                )
            )
        if not any(map(len, self.filled)):
            raise FormatError(
                Message(
                    "{path} has no points in this range: widen {mz_min} to {mz_max}",
                    path=self.path,
                )
            )


def _centres(low: float, width: float, n: int) -> np.ndarray:
    return low + width * (np.arange(n) + 0.5)


def _count(low: float, high: float, width: float) -> float:
    """How many bins reach from ``low`` to ``high``; a float, as it may be beyond all memory."""
    return max(1.0, np.ceil((high - low) / width - 1e-9))


def _between(values: np.ndarray, low: float | None, high: float | None) -> np.ndarray:
    """Which values are in a range, both ends included; rounding puts none of them outside."""
    inside = np.ones(len(values), dtype=bool)
    if low is not None:
        inside &= values >= low - rounding(values, low)
    if high is not None:
        inside &= values <= high + rounding(values, high)
    return inside
