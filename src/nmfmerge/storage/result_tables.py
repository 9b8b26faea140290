"""The tables of a fit: factors, components, starts, merges, and the path through all ranks."""

from typing import Any

import numpy as np

from nmfmerge.datasets.base import Dataset
from nmfmerge.fields.registry import component_columns, field_tables, peaks
from nmfmerge.fields.table import Table, factor_table
from nmfmerge.results.consensus import Consensus, RankConsensus
from nmfmerge.results.factorization import Factorization
from nmfmerge.results.lazy_factors import is_mapped
from nmfmerge.results.rank_path import RankPath


def fit_tables(
    result: Factorization,
    data: Dataset,
    path: RankPath | None = None,
    consensus: Consensus | None = None,
) -> list[Table]:
    """All tables of a fit: those of its field, and starts, merges and ranks where it has them.

    A factor that is too large for memory has no tables with a line for each of its entries.
    """
    result = result.numpy()
    sides = [
        (name, axis, F)
        for name, axis, F in (("W", data.rows, result.W), ("H", data.columns, result.H.T))
        if not is_mapped(F)
    ]
    tables = [factor_table(name, axis, result, F) for name, axis, F in sides]
    tables.append(component_table(result, data))
    tables += field_tables(result, data, [side[1:] for side in sides])
    if result.starts:
        tables.append(start_table(result))
    if result.merges is not None:
        tables.append(merge_table(result))
    if path is not None:
        tables.append(path_table(path))
    if consensus is not None:
        tables.append(consensus_table(consensus))
        if result.n_components in consensus:
            tables += rank_tables(consensus.at(result.n_components), result, data)
    return tables


def component_table(result: Factorization, data: Dataset) -> Table:
    """One line for each component: its share, where it peaks, from how many starts it was found."""
    n = result.n_components
    columns: dict[str, Any] = {
        "component": list(range(1, n + 1)),
        "name": [result.label(k) for k in range(n)],
        "share (%)": result.shares(),
    }
    of_rows, of_columns = peaks(data, data.rows, result.W.T), peaks(data, data.columns, result.H)
    if of_rows.keys() & of_columns.keys():
        of_rows = {f"{head}, of rows": column for head, column in of_rows.items()}
        of_columns = {f"{head}, of columns": column for head, column in of_columns.items()}
    columns |= of_rows | of_columns | component_columns(result, data)
    if result.starts:
        columns[f"found from (of {len(result.starts)} starts)"] = result.n_starts_found()
    return Table("components", list(columns), list(columns.values()))


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
    """One line for each merge, with its penalty absolute and relative to the fit."""
    tree = result.merges
    assert tree is not None
    pairs = tree.pairs.reshape(-1, 2) + 1
    size2 = result.penalty_size
    with np.errstate(all="ignore"):  # squares may be too large, which leaves no percent
        percent = 100 * tree.penalties / (size2 if np.isfinite(size2) else np.nan)
    columns = {
        "first": pairs[:, 0],
        "second": pairs[:, 1],
        f"penalty (% of {result.words.whole})": np.where(np.isfinite(percent), percent, np.nan),
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
        "held-out error (%)": path.held_out,
        "standard error of it": path.held_out_error,
        "seconds": path.rank_seconds,
    }
    return Table("path", list(columns), list(columns.values()))


def consensus_table(consensus: Consensus) -> Table:
    """One line for each rank."""
    each = consensus.results
    columns: dict[str, Any] = {
        "rank": list(consensus.ranks),
        "fits": [at.n_fits for at in each],
        "fitting error (%)": np.array([at.fitting_error for at in each]),
        "median error of the fits (%)": np.array([np.median(at.errors) for at in each]),
        "silhouette": np.array([at.silhouette for at in each]),
        "least silhouette": np.array([at.least_silhouette for at in each]),
        "fits that agree (%)": np.array([100 * at.agreement for at in each]),
        "outliers": [at.n_outliers for at in each],
    }
    return Table("consensus", list(columns), list(columns.values()))


def rank_tables(at: RankConsensus, result: Factorization, data: Dataset) -> list[Table]:
    """How the fits agree on each component, and the bands of the components."""
    names = [result.label(k) for k in range(result.n_components)]
    columns: dict[str, Any] = {
        "component": list(range(1, len(names) + 1)),
        "name": names,
        "silhouette": at.silhouettes,
        "mean cosine": at.likeness,
        f"found in (of {at.n_fits} fits)": at.n_found(),
    }
    agreement = Table("agreement", list(columns), list(columns.values()))
    axis = data.rows if at.side == "W" else data.columns
    bands: dict[str, Any] = {axis.label: axis.values.tolist()}
    for k, name in enumerate(names):
        bands |= {f"{name}, 5 %": at.low[k], f"{name}, 95 %": at.high[k]}
    return [agreement, Table(f"{at.side}-bands", list(bands), list(bands.values()))]
