"""An LC-MS component as a chemist reads it: its m/z peaks, and where and how wide it elutes.

Input: factors and the axes of the data. The spectrum is on the side of the axis "m/z", the
elution profile on the other one, if that is "retention time" in seconds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.fields.base import Columns, Field, Sides, entries_at_peaks
from nmfmerge.fields.table import Table

if TYPE_CHECKING:
    from nmfmerge.results.factorization import Factorization

_MZ = "m/z"
THRESHOLD = 0.1  # percent of the base peak from which a bin counts as a peak
_EVEN = 1e-6  # of the width of a bin, by which steps may differ from multiples of it


@dataclass(frozen=True, eq=False)
class Compound:
    """The properties of a compound, from one component.

    Attributes
    ----------
    mz : array (n_peaks,)
        Of each peak, ascending; the values of the axis.
    relative : array (n_peaks,)
        Intensity in percent of the largest, the base peak.
    intensity : array (n_peaks,)
        Intensity where the component is strongest, in the unit of the data.
    seconds : float or None
        Retention time at the apex; None where there is no retention time.
    width : float or None
        Seconds between the two sides of the peak around the apex at half of its height; NaN where
        the peak does not fall to half within the run.
    """

    mz: np.ndarray
    relative: np.ndarray
    intensity: np.ndarray
    seconds: float | None = None
    width: float | None = None

    @property
    def base_peak(self) -> float:
        """m/z of the base peak; NaN for a component that is zero."""
        return float(self.mz[self.relative.argmax()]) if len(self.mz) else float("nan")


class LCMS(Field):
    """LC-MS: peaks of each component in m/z, its retention time and its width."""

    sticks = (_MZ,)

    def suits(self, data: Dataset) -> bool:
        """True if one of the axes is m/z."""
        return _is_mz(data.rows) or _is_mz(data.columns)

    def peaks(self, data: Dataset, axis: Axis, F: np.ndarray) -> Columns | None:
        """The base peak, and the retention time at the apex."""
        if axis.name == _MZ:
            return {f"base peak {_mz_head(data)}": entries_at_peaks(axis, F)}
        if has_retention_time(data):
            return {f"{axis.name} at apex ({axis.unit})": entries_at_peaks(axis, F)}
        return None

    def columns(self, result: "Factorization", data: Dataset) -> Columns:
        """The width in time, and the number of peaks."""
        found = list(compounds(result, data))
        columns: dict[str, Any] = {}
        if has_retention_time(data):
            columns["width at half height (s)"] = np.array([one.width for one in found])
        return columns | {"m/z peaks": [len(one.mz) for one in found]}

    def tables(self, result: "Factorization", data: Dataset, sides: Sides) -> list[Table]:
        """The peaks of all components."""
        return [peak_table(result, data)]


def has_retention_time(data: Dataset) -> bool:
    """True if the axis beside m/z is retention time in seconds."""
    axis = _sides(data)[1]
    return axis.name == "retention time" and axis.unit == "s" and axis.values.dtype.kind in "fiu"


def mz_axis(data: Dataset) -> Axis:
    """The axis of m/z."""
    return _sides(data)[0]


def bin_width(data: Dataset) -> float | None:
    """Width of the bins of m/z in Da; None where the axis is not of bins.

    Bins are evenly spaced; where some were left out, steps are multiples of the width.
    """
    steps = np.diff(mz_axis(data).values.astype(np.float64))
    if len(steps) == 0 or steps.min() <= 0:
        return None
    counts = np.rint(steps / steps.min())
    width = float(steps.sum() / counts.sum())
    return width if np.abs(steps - counts * width).max() <= _EVEN * width else None


def compounds(
    result: "Factorization", data: Dataset, threshold: float = THRESHOLD
) -> Iterator[Compound]:
    """The properties of a compound, from each component.

    Parameters
    ----------
    result : Factorization
    data : Dataset
        Its axes; one of them is m/z.
    threshold : float
        Peaks are the bins with at least this percentage of the base peak.
    """
    Wt, H = (np.asarray(F, dtype=np.float64) for F in (result.W.T, result.H))
    spectra, profiles = (Wt, H) if _is_mz(data.rows) else (H, Wt)
    axis, other = _sides(data)
    timed = has_retention_time(data)
    order = np.argsort(axis.values, kind="stable")
    for spectrum, profile in zip(spectra, profiles, strict=True):
        height = profile.max(initial=0.0)
        if not spectrum.any() or height == 0:
            spectrum = np.zeros_like(spectrum)
        relative = 100 * spectrum / (spectrum.max() or 1.0)
        peaks = order[(relative[order] > 0) & (relative[order] >= threshold)]
        times = apex_and_width(other.values, profile) if timed else (None, None)
        yield Compound(
            axis.values[peaks].astype(np.float64), relative[peaks], height * spectrum[peaks], *times
        )


def peak_table(result: "Factorization", data: Dataset, threshold: float = THRESHOLD) -> Table:
    """One line for each m/z peak of each component of an LC-MS run.

    Parameters
    ----------
    result : Factorization
    data : Dataset
        Its axes; one of them is m/z.
    threshold : float
        Peaks are the bins with at least this percentage of the base peak.
    """
    found = list(compounds(result, data, threshold))
    numbers = np.repeat(np.arange(len(found)), [len(one.mz) for one in found])
    nothing = np.empty(0)
    columns = {
        "component": (numbers + 1).tolist(),
        "name": [result.label(k) for k in numbers.tolist()],
        _mz_head(data): np.concatenate([nothing, *(one.mz for one in found)]).tolist(),
        "intensity (% of base peak)": np.concatenate([nothing, *(one.relative for one in found)]),
        "intensity at apex": np.concatenate([nothing, *(one.intensity for one in found)]),
    }
    return Table("peaks", list(columns), list(columns.values()))


def _mz_head(data: Dataset) -> str:
    """The meaning of the m/z values: centres of bins, if the axis has bins."""
    return _MZ if bin_width(data) is None else f"{_MZ} (bin centre)"


def apex_and_width(seconds: np.ndarray, profile: np.ndarray) -> tuple[float, float]:
    """Time of the largest value, and the width of the peak around it at half of its height.

    Values between the scans are interpolated. NaN for what is not there: both for a profile that
    is zero, the width of a peak that does not fall to half before the run ends.
    """
    order = np.argsort(seconds, kind="stable")
    t, y = np.asarray(seconds, dtype=np.float64)[order], profile[order]
    if not y.any():
        return float("nan"), float("nan")
    apex = int(y.argmax())
    right = _half(t[apex:], y[apex:])
    left = _half(t[apex::-1], y[apex::-1])
    return float(t[apex]), float(right - left)


def _half(t: np.ndarray, y: np.ndarray) -> float:
    """Where y falls to half of its first value."""
    half = 0.5 * y[0]
    below = np.flatnonzero(y < half)
    if len(below) == 0:
        return float("nan")
    i = int(below[0])
    return float(t[i - 1] + (t[i] - t[i - 1]) * (y[i - 1] - half) / (y[i - 1] - y[i]))


def _sides(data: Dataset) -> tuple[Axis, Axis]:
    return (data.rows, data.columns) if _is_mz(data.rows) else (data.columns, data.rows)


def _is_mz(axis: Axis) -> bool:
    return axis.name == _MZ and axis.values.dtype.kind in "fiu"
