"""The tables of a fit: factors, components, starts, merges, and the path through all ranks."""

import numpy as np

from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.kernels import gram64
from nmfmerge.metrics import shares
from nmfmerge.result import Factorization
from nmfmerge.result_path import RankPath
from nmfmerge.tables import Table


def fit_tables(result: Factorization, data: Dataset, path: RankPath | None = None) -> list[Table]:
    """All tables of a fit; the starts, merges and ranks where it has them."""
    tables = [
        factor_table("W", data.rows, result, result.W),
        factor_table("H", data.columns, result, result.H.T),
        component_table(result, data),
    ]
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


def component_table(result: Factorization, data: Dataset) -> Table:
    """One line for each component: its share and where it peaks, and from how many starts."""
    n = result.n_components
    heads = ["component", "name", "share (%)", *_peak_heads(data)]
    columns = [
        list(range(1, n + 1)),
        [result.label(k) for k in range(n)],
        shares(result.W, result.H),
        _peaks(data.rows, result.W.T),
        _peaks(data.columns, result.H),
    ]
    if result.starts:
        heads.append(f"found from (of {len(result.starts)} starts)")
        columns.append(result.found_from())
    return Table("components", heads, columns)


def _peak_heads(data: Dataset) -> list[str]:
    labels = [data.rows.label, data.columns.label]
    sides = ["", ""] if labels[0] != labels[1] else [", rows", ", columns"]
    return [f"peak {label}{side}" for label, side in zip(labels, sides, strict=True)]


def _peaks(axis: Axis, F: np.ndarray) -> list[object]:
    """The entry of the axis where each component is largest; none where it is zero."""
    names = axis.values.tolist()
    return [names[int(f.argmax())] if f.any() else None for f in F]


def start_table(result: Factorization) -> Table:
    """One line for each start."""
    starts = result.starts
    columns = {
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
    with np.errstate(all="ignore"):  # squares of any factors; too large ones leave no percent
        size2 = np.vdot(gram64(result.W.T), gram64(result.H)) if result.n_components else np.nan
        percent = 100 * tree.penalties / size2
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
        "stability": path.stability,
        "seconds": path.rank_seconds,
    }
    return Table("path", list(columns), list(columns.values()))
