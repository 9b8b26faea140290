"""One side of a factorization, its rows or its columns: what they stand for and how to draw it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

from nmfmerge import metrics
from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.drawing.peaks import N_TOP, top_entries
from nmfmerge.fields.registry import draws_sticks, is_logarithmic
from nmfmerge.plot.style import NOTE, SMALL, logarithmic, no_spines, shortened, tidy

if TYPE_CHECKING:
    from nmfmerge.results.factorization import Factorization

LONG = 5000  # lines of more points are drawn as pixels in vector files
MOST_SPREAD = 1.6  # times the largest value: a band is cut off where it goes higher
MAP = "cividis"  # perceptually uniform, from dark to light
Kind = Literal["line", "bars", "picture"]


@dataclass(frozen=True, eq=False)
class Side:
    """The rows or the columns of X: an axis and the way to draw a vector along it."""

    axis: Axis
    kind: Kind
    fold: Callable[[np.ndarray], np.ndarray] | None = None  # pixels to a picture
    strengths: np.ndarray | None = None  # (r, p): by which the names of a component are chosen
    sticks: bool = False  # a line is drawn as sticks with numbers at the peaks: a mass spectrum
    logarithmic: bool = False  # a line has a logarithmic scale: frequencies of sound

    def entries(self, k: int, vector: np.ndarray, most: int = N_TOP) -> np.ndarray:
        """The entries that are listed for component k: the most specific, the largest first."""
        chosen = top_entries(vector if self.strengths is None else self.strengths[k], most)
        chosen = chosen[vector[chosen] > 0]
        return chosen[np.argsort(-vector[chosen], kind="stable")]

    @property
    def label(self) -> str:
        """The label of the axis in a figure."""
        return shortened(self.axis.label, 44)

    @property
    def height(self) -> float:
        """Inches that a drawing needs."""
        return {"line": 0.62, "bars": 1.05, "picture": 1.2}[self.kind] + 0.1 * self.sticks

    def width(self, total: float, height: float) -> float:
        """Inches that a drawing of this height would like to have of ``total``."""
        if self.fold is not None:
            rows, columns = self.fold(np.zeros(len(self.axis.values))).shape
            return float(np.clip(height * columns / rows, 0.2 * total, 0.6 * total))
        return 0.5 * total

    def draw_pair(
        self, ax: Axes, first: np.ndarray, second: np.ndarray, colours: tuple[str, str]
    ) -> None:
        """Draw two vectors over each other; pictures and bars beside each other."""
        _DRAW[self.kind](self, ax, [first, second], list(colours))

    def place(self, i: int) -> str:
        """Where entry ``i`` is, in words: a value with its unit, a name or a pixel."""
        value = self.axis.values[i]
        if self.fold is not None:
            picture = self.fold(np.arange(len(self.axis.values)))
            row, column = np.argwhere(picture == i)[0]
            return f"row {row + 1}, column {column + 1}"
        if self.kind == "bars":
            return str(value)
        text = f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)
        return f"{text} {self.axis.unit}".strip()


def sides(result: "Factorization", data: Dataset | None) -> tuple[Side, Side]:
    """The rows and the columns of X, checked against the factors."""
    m, n = len(result.W), result.H.shape[1]
    data = result.axes if data is None else data
    if data is None:
        return _plain("row", m), _plain("column", n)
    shape = len(data.rows.values), len(data.columns.values)
    if shape != (m, n):
        raise ValueError(
            f"data has axes of {shape[0]} rows and {shape[1]} columns, but the factorization is of "
            f"a {m} × {n} matrix; expected the data that was factorized"
        )
    left, right = sides_of(data)
    return with_strengths(left, result.W), with_strengths(right, result.H.T)


def with_strengths(side: Side, F: np.ndarray) -> Side:
    """A side with names knows which of them are specific to each component of a factor."""
    if side.kind != "bars" or F.shape[1] < 2:
        return side
    specific = metrics.specificity(F).T
    alike = specific.max(axis=1, initial=0) <= 0  # where nothing is specific, the largest are shown
    return replace(side, strengths=np.where(alike[:, None], F.T, specific))


def sides_of(data: Dataset) -> tuple[Side, Side]:
    """The rows and the columns of data."""
    return _side(data, data.rows), _side(data, data.columns)


def _plain(name: str, length: int) -> Side:
    return Side(Axis(name, np.arange(length)), "line")


def _side(data: Dataset, axis: Axis) -> Side:
    if data.is_picture(axis):
        return Side(axis, "picture", data.picture)
    values = np.asarray(axis.values)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        return Side(Axis(f"place along {axis.name}", np.arange(len(values))), "line")
    if values.dtype.kind not in "iufM":
        return Side(axis, "bars")
    return Side(axis, "line", sticks=draws_sticks(axis), logarithmic=is_logarithmic(axis))


def drawn_along(side: Side) -> tuple[np.ndarray, np.ndarray]:
    """Values of an axis in their order, and the entries they belong to.

    On a logarithmic scale, only positive ones.
    """
    x = np.asarray(side.axis.values)
    order = np.arange(len(x)) if np.all(x[1:] >= x[:-1]) else np.argsort(x, kind="stable")
    if side.logarithmic:
        order = order[x[order] > 0]
    return x[order], order


def _line(side: Side, ax: Axes, vectors: list[np.ndarray], colours: list[str]) -> None:
    x, order = drawn_along(side)
    thin = 1.0 if len(x) <= 1000 else 0.6
    for vector, colour, width in zip(vectors, colours, (2.6, thin), strict=True):
        ax.plot(
            x, vector[order], color=colour, lw=width, marker="." if len(x) <= 25 else "", ms=4,
            solid_joinstyle="round", rasterized=len(x) > LONG,
        )  # fmt: skip
    top = max(float(vector.max(initial=0)) for vector in vectors)
    ax.set_ylim(0, 1.06 * top if top > 0 else 1)
    tidy(ax)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    along_axis(side, ax, x)


def along_axis(side: Side, ax: Axes, x: np.ndarray) -> None:
    """Scale, limits and ticks for sorted values of a side."""
    if side.logarithmic:
        logarithmic(ax, "x", float(x[0]), float(x[-1]))
    elif x.dtype.kind == "M":
        ax.xaxis.update_units(x)
        _few_ticks(ax, dates=True)
    else:
        _few_ticks(ax, dates=False)
    low, high = (float(value) for value in ax.convert_xunits(x[[0, -1]]))
    if side.logarithmic:
        ax.set_xlim(low / 1.03, high * 1.03)
    else:
        room = 0.01 * (high - low) or 0.5
        ax.set_xlim(low - room, high + room)


def _few_ticks(ax: Axes, dates: bool) -> None:
    if not dates:
        ax.locator_params(axis="x", nbins=6)
        return
    locator = AutoDateLocator(maxticks=6)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    ax.xaxis.get_offset_text().set_fontsize(SMALL - 1)


def _bars(side: Side, ax: Axes, vectors: list[np.ndarray], colours: list[str]) -> None:
    strength = np.sum([vector.astype(np.float64) for vector in vectors], axis=0)
    top = top_entries(strength)
    thick = 0.72 / len(vectors)
    for i, (vector, colour) in enumerate(zip(vectors, colours, strict=True)):
        offset = (i - (len(vectors) - 1) / 2) * thick
        ax.barh(np.arange(len(top)) + offset, vector[top], height=thick, color=colour)
    tidy(ax)
    ax.set_yticks(np.arange(len(top)), [shortened(side.axis.values[i]) for i in top])
    ax.tick_params(axis="y", labelsize=SMALL - 1, length=0)
    ax.set_ylim(len(top) - 0.4, -0.6)
    largest = float(strength[top].max(initial=0))
    ax.set_xlim(0, None if largest > 0 else 1)
    ax.set_xticks([])
    ax.spines["bottom"].set_visible(False)


def _picture(side: Side, ax: Axes, vectors: list[np.ndarray], colours: list[str]) -> None:
    """Both pictures beside each other, each scaled to its own largest value."""
    assert side.fold is not None
    pictures = [side.fold(np.asarray(vector, dtype=np.float64)) for vector in vectors]
    pictures = [p / (p.max(initial=0) or 1.0) for p in pictures]
    gap = np.full((len(pictures[0]), max(1, pictures[0].shape[1] // 15)), np.nan)
    both = np.concatenate([pictures[0], gap, pictures[1]], axis=1)
    ax.imshow(both, cmap=MAP, vmin=0, vmax=1, interpolation="nearest")
    no_spines(ax)


_DRAW = {"line": _line, "bars": _bars, "picture": _picture}


def note(ax: Axes, text: str, at: tuple[float, float]) -> None:
    """A remark in grey: across the axes, and at a height in data units."""
    ax.text(*at, text, transform=ax.get_yaxis_transform(), ha="right", va="center", color=NOTE,
            fontsize=SMALL)  # fmt: skip
