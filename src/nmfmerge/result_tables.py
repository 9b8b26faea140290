"""The tables of a fit: factors, components, starts, merges, and the path through all ranks."""

from typing import Any

import numpy as np

from nmfmerge.compounds import THRESHOLD, bin_width, compounds, has_retention_time, is_lcms
from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.lazy_factors import is_mapped
from nmfmerge.metrics import shares
from nmfmerge.result import Factorization
from nmfmerge.result_path import RankPath
from nmfmerge.specific import name_tables
from nmfmerge.tables import Table

_COURSES = {"frame": "traces", "time": "traces", "wavelength": "spectra", "band": "spectra"}


def fit_tables(result: Factorization, data: Dataset, path: RankPath | None = None) -> list[Table]:
    """All tables of a fit: those of its field, and starts, merges and ranks where it has them.

    A factor that is too large for memory has no tables with a line for each of its entries.
    """
    result = result.numpy()
    sides = (("W", data.rows, result.W), ("H", data.columns, result.H.T))
    tables = [factor_table(*side[:2], result, side[2]) for side in sides if not is_mapped(side[2])]
    tables.append(component_table(result, data))
    if is_lcms(data):
        tables.append(peak_table(result, data))
    tables += [*course_tables(result, data), *name_tables(result, data)]
    if result.starts:
        tables.append(start_table(result))
    if result.merges is not None:
        tables.append(merge_table(result))
    if path is not None:
        tables.append(path_table(path))
    return tables


def factor_table(name: str, axis: Axis, result: Factorization, F: np.ndarray) -> Table:
    """One line for each entry of the axis, one column for each component."""
    heads = [axis.label, *(result.label(k) for k in range(result.n_components))]
    return Table(name, heads, [axis.values.tolist(), *F.T])


def course_tables(result: Factorization, data: Dataset) -> list[Table]:
    """Components over the frames or times of pixels, and over wavelengths or bands.

    Times without pixels, as those of sound, are not traces.
    """
    has_pixels = "pixel" in (data.rows.name, data.columns.name)
    return [
        factor_table(name, axis, result, F)
        for axis, F in ((data.rows, result.W), (data.columns, result.H.T))
        if (name := _COURSES.get(axis.name)) and (has_pixels or name == "spectra")
        if not is_mapped(F)
    ]


def component_table(result: Factorization, data: Dataset) -> Table:
    """One line for each component: its share, where it peaks, from how many starts it was found.

    Those of an LC-MS run have their width in time and number of m/z peaks too.
    """
    n = result.n_components
    columns: dict[str, Any] = {
        "component": list(range(1, n + 1)),
        "name": [result.label(k) for k in range(n)],
        "share (%)": shares(result.W, result.H),
    }
    for head, axis, F in zip(
        peak_heads(data), (data.rows, data.columns), (result.W.T, result.H), strict=True
    ):
        if data.is_picture(axis):
            columns |= _peak_pixels(data, F)
        else:
            columns[head] = _peaks(axis, F)
    if is_lcms(data):
        columns |= _of_compounds(result, data)
    if result.starts:
        columns[f"found from (of {len(result.starts)} starts)"] = result.found_from()
    return Table("components", list(columns), list(columns.values()))


def peak_heads(data: Dataset) -> tuple[str, str]:
    """What the largest entry of a component along the rows and the columns is called."""
    rows, columns = (_peak_head(axis, data) for axis in (data.rows, data.columns))
    return (rows, columns) if rows != columns else (f"{rows}, of rows", f"{columns}, of columns")


def _peak_head(axis: Axis, data: Dataset) -> str:
    if is_lcms(data) and axis.name == "m/z":
        return f"base peak {mz_head(data)}"
    if is_lcms(data) and has_retention_time(data):
        return f"{axis.name} at apex ({axis.unit})"
    return f"peak {axis.label}"


def mz_head(data: Dataset) -> str:
    """What m/z of the data are: centres of bins, where they are those of bins."""
    return "m/z" if bin_width(data) is None else "m/z (bin centre)"


def _peaks(axis: Axis, F: np.ndarray) -> list[object]:
    """The entry of the axis where each component is largest; none where it is zero."""
    names = axis.values.tolist()
    return [names[int(f.argmax())] if f.any() else None for f in F]


def _peak_pixels(data: Dataset, F: np.ndarray) -> dict[str, Any]:
    """Row and column of the pixel where each component is largest, from 1."""
    assert data.image_shape is not None
    places = [
        np.add(np.unravel_index(int(f.argmax()), data.image_shape, data.image_order), 1).tolist()
        if f.any()
        else [None, None]
        for f in F
    ]
    rows, columns = zip(*places, strict=True)
    return {"peak pixel row": list(rows), "peak pixel column": list(columns)}


def _of_compounds(result: Factorization, data: Dataset) -> dict[str, Any]:
    found = list(compounds(result, data))
    columns: dict[str, Any] = {}
    if has_retention_time(data):
        columns["width at half height (s)"] = np.array([one.width for one in found])
    return columns | {"m/z peaks": [len(one.mz) for one in found]}


def peak_table(result: Factorization, data: Dataset, threshold: float = THRESHOLD) -> Table:
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
        mz_head(data): np.concatenate([nothing, *(one.mz for one in found)]).tolist(),
        "intensity (% of base peak)": np.concatenate([nothing, *(one.relative for one in found)]),
        "intensity at apex": np.concatenate([nothing, *(one.intensity for one in found)]),
    }
    return Table("peaks", list(columns), list(columns.values()))


def start_table(result: Factorization) -> Table:
    """One line for each start."""
    starts = result.starts
    columns: dict[str, Any] = {
        "start": list(range(1, len(starts) + 1)),
        "init": [start.init for start in starts],
        "seed": [start.seed for start in starts],
        "fitting error (%)": np.array([start.fitting_error for start in starts]),
        "iterations": [start.n_iter for start in starts],
        "status": [str(start.status) for start in starts],
        "components found": [start.n_found for start in starts],
    }
    return Table("starts", list(columns), list(columns.values()))


def merge_table(result: Factorization) -> Table:
    """One line for each merge, its penalty relative to the fit and as it is."""
    tree = result.merges
    assert tree is not None
    pairs = tree.pairs.reshape(-1, 2) + 1
    size2 = result.model_norm2
    with np.errstate(all="ignore"):  # squares may be too large, which leaves no percent
        percent = 100 * tree.penalties / (size2 if np.isfinite(size2) else np.nan)
    columns = {
        "first": pairs[:, 0],
        "second": pairs[:, 1],
        "penalty (% of ‖WH‖²)": np.where(np.isfinite(percent), percent, np.nan),
        "penalty": tree.penalties,
    }
    return Table("merges", list(columns), list(columns.values()))


def path_table(path: RankPath) -> Table:
    """One line for each rank."""
    columns = {
        "rank": path.ranks,
        "fitting error (%)": path.fitting_errors,
        "merge penalty (%)": path.penalties,
        "structure": path.structure,
        "stability": path.stability,
        "seconds": path.rank_seconds,
    }
    return Table("path", list(columns), list(columns.values()))
