"""A table of mutation counts, checked and in the usual order: types in rows, samples in columns."""

from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
from scipy.sparse import issparse

from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.fields.mutations import KINDS, MutationTypes, places_of, recognised
from nmfmerge.inputs.conversion import is_a
from nmfmerge.inputs.labels import axes_of, matrix_of
from nmfmerge.io import read

_MOST_OF_SHARES = 1.01  # sum of the shares of a sample, when they were rounded
_TIMES = 10.0  # the median of the samples, from where on one is hypermutated


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Mutation counts of samples, or shares of signatures, by mutation type.

    Attributes
    ----------
    name : str
        Of the file or the data set.
    kind : MutationTypes
        The classification: SBS96, DBS78, ID83 or CNV48.
    counts : array (n_types, n_samples)
        In the usual order of the types.
    samples : tuple of str
        Names of the samples.
    empty : tuple of str
        Samples without mutations, which were left out.
    absent : tuple of str
        Types that the table lacks; their counts are zero.
    """

    name: str
    kind: MutationTypes
    counts: np.ndarray = field(repr=False)
    samples: tuple[str, ...] = field(repr=False)
    empty: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    @property
    def totals(self) -> np.ndarray:
        """Mutations of each sample."""
        return np.asarray(self.counts.sum(axis=0))

    def as_dataset(self) -> Dataset:
        """The counts with their axes, as every fit takes them."""
        return Dataset(
            name=self.name,
            X=self.counts,
            n_components=None,
            rows=Axis("MutationType", np.array(self.kind.types)),
            columns=Axis("sample", np.array(self.samples)),
        )


def catalogue(table: Any, argument: str = "table") -> Catalogue:
    """Read a table of mutation counts, with the types in rows or in columns.

    Parameters
    ----------
    table : path, DataFrame or Dataset
        The table, with names of its rows and columns.
    argument : str
        What the table is called in messages.
    """
    if isinstance(table, Catalogue):
        return table
    data = _labelled(table, argument)
    rows, columns = (axis.values.tolist() for axis in (data.rows, data.columns))
    X = data.X.toarray() if issparse(data.X) else np.asarray(data.X)
    kind = recognised(rows)
    if kind is None:
        kind, rows, columns, X = recognised(columns), columns, rows, X.T
    if kind is None:
        raise ArgumentError(
            argument,
            f"has neither rows nor columns with names of mutation types: {columns[:3]}, {rows[:3]}",
            expected=f"those of {', '.join(KINDS)}, such as "
            + ", ".join(repr(known.types[0]) for known in KINDS.values()),
        )
    try:
        places = places_of(kind, rows)
    except ValueError as error:
        raise ArgumentError(argument, "cannot be read: {why}", why=error) from None
    return _arranged(data.name, kind, _checked(X, argument), places, [str(c) for c in columns])


def _labelled(table: Any, argument: str) -> Dataset:
    """The table with the names of its rows and columns."""
    if isinstance(table, str | PathLike):
        return read(table)
    if is_a(table, "pandas", "DataFrame") and table.shape[1] > 1:
        names_are_inside = table.dtypes.iloc[0].kind not in "iufb"  # as files have them
        if names_are_inside and recognised(table.index.tolist()) is None:
            table = table.iloc[:, 1:].set_axis(table.iloc[:, 0])
    axes = axes_of(table)
    if axes is None:
        raise ArgumentError(
            argument,
            f"is a {type(table).__name__} without names of mutation types",
            expected="a path, a pandas DataFrame or a Dataset",
        )
    return Dataset(axes.name, matrix_of(table), None, axes.rows, axes.columns)


def _checked(X: Any, argument: str) -> np.ndarray:
    try:
        counts = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(argument, "has values that are no numbers") from None
    if not (np.isfinite(counts).all() and (counts >= 0).all()):
        raise ArgumentError(argument, "has negative or missing values", expected="counts")
    if not counts.any():
        raise ArgumentError(argument, "has no mutations", expected="counts")
    return counts


def _arranged(
    name: str, kind: MutationTypes, X: np.ndarray, places: np.ndarray, samples: list[str]
) -> Catalogue:
    full = np.zeros((len(kind.types), X.shape[1]))
    full[places] = X
    keep = full.any(axis=0)
    present = set(places.tolist())
    return Catalogue(
        name,
        kind,
        np.ascontiguousarray(full[:, keep]),
        tuple(np.array(samples, dtype=object)[keep]),
        tuple(np.array(samples, dtype=object)[~keep]),
        tuple(t for i, t in enumerate(kind.types) if i not in present),
    )


def counts_in(table: Any) -> Catalogue:
    """Read a table of counts; shares, such as those of signatures, are refused."""
    found = catalogue(table)
    if found.totals.max() < _MOST_OF_SHARES and (found.counts != np.rint(found.counts)).any():
        raise ArgumentError("table", "has shares that add up to at most 1", expected="counts")
    return found


def usual_limit(totals: np.ndarray) -> float:
    """The number of mutations above which a sample is hypermutated: ten times the median."""
    return _TIMES * float(np.median(totals))
