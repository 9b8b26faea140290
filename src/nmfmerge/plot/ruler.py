"""One side of a picture of X: which entries share a pixel, in what order, with which ticks.

Numbers keep their true values, evenly spaced or not: pixels stand side by side and ticks where
their values fall. Frequencies are spaced logarithmically. Names have no order of their own, so they
are sorted by the component they belong to most.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num, num2date
from matplotlib.ticker import LogLocator, MaxNLocator

from nmfmerge.drawing.blocks import averaging, block_starts
from nmfmerge.plot.side import Side, drawn_along
from nmfmerge.plot.style import how_many, shortened, tick_text

_FEW_NAMES = 12


@dataclass(frozen=True, eq=False)
class Ruler:
    """How the entries of a side become pixels."""

    pixels: sp.csr_array  # averages: pixels × entries
    ticks: Sequence[tuple[float, str]]  # pixels, counted from 0, and what is written there
    label: str
    upwards: bool  # numbers grow upwards, lists are read downwards
    sorted: bool  # by component

    def mark(self, ax: Axes, which: str) -> None:
        """Write ticks and label on the axis "x" or "y"."""
        places, texts = [place for place, _ in self.ticks], [text for _, text in self.ticks]
        if which == "x":
            ax.set_xticks(places, texts)
            ax.set_xlabel(self.label)
        else:
            ax.set_yticks(places, texts)
            ax.set_ylabel(self.label)


def ruler(side: Side, weights: np.ndarray, most: int) -> Ruler:
    """Lay out a side whose entries have ``weights`` (components × entries) on ``most`` pixels."""
    if side.kind == "bars":
        return _of_names(side, weights, most)
    if side.logarithmic:
        return _logarithmic(side, min(most, 400))
    return _of_numbers(side, most)


def _of_names(side: Side, weights: np.ndarray, most: int) -> Ruler:
    order = by_component(weights)
    n = len(order)
    few = n <= _FEW_NAMES
    ticks = [(i, shortened(side.axis.values[k], 14)) for i, k in enumerate(order)] if few else []
    label = side.label if few else how_many(n, side.label)
    return Ruler(_gathered(order, block_starts(n, most)), ticks, label, False, True)


def by_component(weights: np.ndarray) -> np.ndarray:
    """Entries sorted by the component they weigh most in, and there from large to small."""
    size = np.linalg.norm(weights.astype(np.float64), axis=1, keepdims=True)
    scaled = weights / np.where(size > 0, size, 1)
    if len(scaled) == 0:
        return np.arange(weights.shape[1])
    return np.lexsort((-scaled.max(axis=0), scaled.argmax(axis=0)))


def _of_numbers(side: Side, most: int) -> Ruler:
    x, order = drawn_along(side)
    pixels = _gathered(order, block_starts(len(order), most))
    plain = side.axis.name in ("row", "column")
    values = date2num(x) if x.dtype.kind == "M" else x.astype(np.float64)
    at = pixels[:, order] @ values  # of each pixel
    ticks = _date_ticks(at) if x.dtype.kind == "M" else _ticks(at)
    return Ruler(pixels, ticks, side.label, not plain, False)


def _ticks(at: np.ndarray) -> list[tuple[float, str]]:
    low, high = float(at[0]), float(at[-1])
    if low == high:
        return [(0.0, f"{low:.6g}")]
    wanted = MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(low, high)
    inside = [value for value in wanted if low <= value <= high]
    return [(_place(value, at), f"{value:.6g}") for value in inside]


def _date_ticks(at: np.ndarray) -> list[tuple[float, str]]:
    locator = AutoDateLocator(maxticks=4)
    wanted = np.asarray(locator.tick_values(num2date(at[0]), num2date(at[-1])))
    inside = wanted[(wanted >= at[0]) & (wanted <= at[-1])]
    texts = ConciseDateFormatter(locator).format_ticks(inside)
    return [(_place(value, at), text) for value, text in zip(inside, texts, strict=True)]


def _place(value: float, at: np.ndarray) -> float:
    """The pixel, in fractions, at which a value lies."""
    return float(np.interp(value, at, np.arange(len(at))))


def _logarithmic(side: Side, n: int) -> Ruler:
    """Pixels at evenly spaced logarithms: averages of what they hold, or the nearest entry."""
    x, order = drawn_along(side)
    x = x.astype(np.float64)
    edges = np.geomspace(x[0], x[-1], n + 1)
    centres = np.sqrt(edges[:-1] * edges[1:])
    begin, end = np.searchsorted(x, edges[:-1]), np.searchsorted(x, edges[1:])
    nearest = np.searchsorted(np.sqrt(x[:-1] * x[1:]), centres)
    begin = np.where(end > begin, begin, nearest)
    end = np.maximum(end, begin + 1)
    indptr = np.append(0, np.cumsum(end - begin))
    entries = np.concatenate([order[i:j] for i, j in zip(begin, end, strict=True)])
    values = np.repeat(1.0 / (end - begin), end - begin)
    pixels = sp.csr_array((values, entries, indptr), shape=(n, len(side.axis.values)))
    wanted = LogLocator(subs=(1, 2, 5), numticks=9).tick_values(x[0], x[-1])
    inside = [value for value in wanted if x[0] <= value <= x[-1]]
    where = [float(np.interp(np.log(v), np.log(centres), np.arange(n))) for v in inside]
    texts = [tick_text(value) for value in inside]
    return Ruler(pixels, list(zip(where, texts, strict=True)), side.label, True, False)


def _gathered(order: np.ndarray, starts: np.ndarray) -> sp.csr_array:
    """The matrix that averages entries in blocks, in this order."""
    blocks = averaging(starts, len(order))
    return sp.csr_array((blocks.data, order[blocks.indices], blocks.indptr), shape=blocks.shape)
