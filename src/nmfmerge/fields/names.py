"""Names that stand for a component: genes, words, documents, by how specific they are to it."""

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.fields.base import Field, Sides
from nmfmerge.fields.table import Table
from nmfmerge.metrics import specificity

if TYPE_CHECKING:
    from nmfmerge.results.factorization import Factorization

_TOP = 30  # names of each component


class TopName(NamedTuple):
    """One of the names that stand for a component.

    Attributes
    ----------
    component : int
        Number of the component, from 1.
    component_name : str
        What it is called.
    rank : int
        From 1, the most specific.
    name : str
        The gene, word, ….
    weight : float
        Its entry of the factor.
    specificity : float
        See `nmfmerge.metrics.specificity`.
    """

    component: int
    component_name: str
    rank: int
    name: str
    weight: float
    specificity: float


def top_names(
    result: "Factorization", data: Dataset, axis: str, n_top: int = _TOP
) -> list[TopName]:
    """The most specific entries of an axis for each component.

    Parameters
    ----------
    result : Factorization
        The factors.
    data : Dataset
        What was factorized; one of its axes has the names.
    axis : str
        What the names stand for, as "gene" or "word": ``data.rows.name`` or ``data.columns.name``.
    n_top : int
        How many for each component; entries of weight zero are left out.

    Returns
    -------
    names : list of TopName
        Those of the first component first, each sorted by specificity, where that is the same by
        weight; ``pandas.DataFrame(names)`` makes a table of them.
    """
    result = result.numpy()
    if axis == data.rows.name:
        return _top(result, data.rows, result.W, n_top)
    if axis == data.columns.name:
        return _top(result, data.columns, result.H.T, n_top)
    raise ValueError(
        f"axis={axis!r} is not an axis of {data.name!r}: expected {data.rows.name!r} or "
        f"{data.columns.name!r}"
    )


def component_name(result: "Factorization", k: int) -> str:
    """The name of component k, its number from 1 where it has none."""
    return result.names[k] if result.names else str(k + 1)


def order_by(scores: np.ndarray, weights: np.ndarray, n_top: int) -> np.ndarray:
    """The entries of one component with a weight, highest score first."""
    found = np.flatnonzero(weights > 0)
    return found[np.lexsort((-weights[found], -scores[found]))][:n_top]


def _top(result: "Factorization", axis: Axis, F: np.ndarray, n_top: int) -> list[TopName]:
    scores, names = specificity(F), [result.label(k) for k in range(F.shape[1])]
    return [
        TopName(k + 1, name, rank, str(axis.values[i]), float(F[i, k]), float(scores[i, k]))
        for k, name in enumerate(names)
        for rank, i in enumerate(order_by(scores[:, k], F[:, k], n_top), 1)
    ]


def has_names(axis: Axis) -> bool:
    """True if the entries of an axis have names, not numbers."""
    return np.asarray(axis.values).dtype.kind in "UO"


class Names(Field):
    """Axes with names, as genes, words or documents: what is specific to a component names it."""

    def suits(self, data: Dataset) -> bool:
        """True if one of the axes has names."""
        return has_names(data.rows) or has_names(data.columns)

    def tables(self, result: "Factorization", data: Dataset, sides: Sides) -> list[Table]:
        """The most specific names of each component, a table for each side with names."""
        return [
            _table(table_name(axis, data), axis, _top(result, axis, F, _TOP))
            for axis, F in sides
            if has_names(axis)
        ]


def heads_of(axis: Axis) -> list[str]:
    """The column names of a `TopName` in tables: the entry is named by its axis, as "gene"."""
    heads = ["component", "component name", "rank", "name", "weight", "specificity"]
    if axis.name not in heads:
        heads[heads.index("name")] = axis.name
    return heads


def _table(name: str, axis: Axis, top: list[TopName]) -> Table:
    columns = [list(column) for column in zip(*top, strict=True)] or [[] for _ in TopName._fields]
    *columns, weights, scores = columns
    return Table(name, heads_of(axis), [*columns, np.array(weights), np.array(scores)])


def table_name(axis: Axis, data: Dataset) -> str:
    """top-genes for an axis of genes."""
    name = f"top-{_plural(axis)}"
    both = _plural(data.rows).lower() == _plural(data.columns).lower()
    return f"{name}-of-columns" if both and axis is data.columns else name


def _plural(axis: Axis) -> str:
    """The name of an axis as part of a file name, and of that of an Excel sheet (31 letters)."""
    name = re.sub(r"\W+", "-", axis.name)[:14].strip("-") or "name"
    return name if name.endswith("s") else name + "s"
