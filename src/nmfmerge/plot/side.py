"""One side of a factorization, its rows or its columns: what they stand for and how to draw it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.plot.peaks import labelled_peaks, top_entries
from nmfmerge.plot.style import INK, NOTE, SMALL, logarithmic, no_spines, shortened, tidy
from nmfmerge.result import Factorization

_LONG = 5000  # lines of more points are drawn as pixels in vector files
_MOST_SPREAD = 1.6  # times the largest value: a band is cut off where it goes higher
MAP = "cividis"  # perceptually uniform, from dark to light
Kind = Literal["line", "bars", "picture"]


@dataclass(frozen=True, eq=False)
class Side:
    """The rows or the columns of X: an axis and the way to draw a vector along it."""

    axis: Axis
    kind: Kind
    fold: Callable[[np.ndarray], np.ndarray] | None = None  # pixels to a picture

    @property
    def label(self) -> str:
        """What the axis is called in a figure."""
        return shortened(self.axis.label, 44)

    @property
    def sticks(self) -> bool:
        """Whether it is drawn as sticks with numbers at the peaks: a mass spectrum."""
        return self.kind == "line" and self.axis.name.casefold() == "m/z"

    @property
    def logarithmic(self) -> bool:
        """Whether its scale is logarithmic: frequencies of sound."""
        return bool(
            self.kind == "line"
            and self.axis.name.casefold() == "frequency"
            and np.asarray(self.axis.values).dtype.kind in "iuf"
            and np.count_nonzero(np.asarray(self.axis.values) > 0) > 1
        )

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

    def draw(
        self, ax: Axes, vector: np.ndarray, colour: str, spread: np.ndarray | None = None
    ) -> None:
        """Draw one column of W or row of H, with ± its spread where one is known.

        Lines get a band and bars a whisker; pictures show no spread.
        """
        _DRAW[self.kind](self, ax, [vector], [colour])
        if spread is not None and self.kind != "picture":
            _DRAW_SPREAD[self.kind](self, ax, vector, spread, colour)

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


def sides(result: Factorization, data: Dataset | None) -> tuple[Side, Side]:
    """The rows and the columns of X, checked against the factors."""
    m, n = len(result.W), result.H.shape[1]
    if data is None:
        return _plain("row", m), _plain("column", n)
    shape = len(data.rows.values), len(data.columns.values)
    if shape != (m, n):
        raise ValueError(
            f"data has axes of {shape[0]} rows and {shape[1]} columns, but the factorization is of "
            f"a {m} × {n} matrix; expected the data that was factorized"
        )
    return sides_of(data)


def sides_of(data: Dataset) -> tuple[Side, Side]:
    """The rows and the columns of data."""
    return _side(data, data.rows), _side(data, data.columns)


def _plain(name: str, length: int) -> Side:
    return Side(Axis(name, np.arange(length)), "line")


def _side(data: Dataset, axis: Axis) -> Side:
    pixels = data.image_shape is not None and axis.name == "pixel"
    if pixels and int(np.prod(data.image_shape or ())) == len(axis.values):
        return Side(axis, "picture", data.picture)
    values = np.asarray(axis.values)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        return Side(Axis(f"place along {axis.name}", np.arange(len(values))), "line")
    return Side(axis, "line" if values.dtype.kind in "iufM" else "bars")


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
    single = len(vectors) == 1
    if side.sticks and single:
        _sticks(ax, x, vectors[0][order], colours[0])
    else:
        _curves(ax, x, [vector[order] for vector in vectors], colours)
    top = max(float(vector.max(initial=0)) for vector in vectors)
    room = 1.35 if side.sticks and single else 1.06
    ax.set_ylim(0, room * top if top > 0 else 1)
    ax.margins(x=0.01)
    tidy(ax)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    if side.logarithmic:
        logarithmic(ax, "x", float(x[0]), float(x[-1]))
    else:
        _few_ticks(ax, dates=x.dtype.kind == "M")


def _curves(ax: Axes, x: np.ndarray, vectors: list[np.ndarray], colours: list[str]) -> None:
    thin = 1.0 if len(x) <= 1000 else 0.6
    widths = [thin] if len(vectors) == 1 else [2.6, thin]
    for vector, colour, width in zip(vectors, colours, widths, strict=True):
        ax.plot(
            x, vector, color=colour, lw=width, marker="." if len(x) <= 25 else "", ms=4,
            solid_joinstyle="round", rasterized=len(x) > _LONG,
        )  # fmt: skip
    if len(vectors) == 1 and len(x) <= _LONG:
        ax.fill_between(x, 0, vectors[0], color=colours[0], alpha=0.15, lw=0)


def _sticks(ax: Axes, x: np.ndarray, y: np.ndarray, colour: str) -> None:
    """A stick for each entry that can be seen, and the m/z of the largest."""
    seen = y > 0.002 * float(y.max(initial=0))
    _upright(ax, x[seen], np.zeros(seen.sum()), y[seen], color=colour, lw=1.0, gid="sticks")
    ax.set_xlim(*_limits(x))
    for i in labelled_peaks(x, y):
        ax.annotate(f"{x[i]:.6g}", (x[i], y[i]), xytext=(0, 1), textcoords="offset points",
                    ha="center", va="bottom", fontsize=SMALL - 2, color=INK)  # fmt: skip


def _upright(ax: Axes, x: np.ndarray, low: np.ndarray, high: np.ndarray, **style: Any) -> None:
    """Upright lines from low to high, as one line with gaps, which is drawn fast."""
    gap = np.full(len(x), np.nan)
    y = np.stack([low, high, gap], axis=1).ravel()
    ax.plot(np.repeat(x, 3), y, solid_capstyle="butt", rasterized=len(x) > _LONG, **style)


def _limits(x: np.ndarray) -> tuple[float, float]:
    low, high = float(x[0]), float(x[-1])
    room = 0.01 * (high - low) or 0.5
    return low - room, high + room


def _band(side: Side, ax: Axes, vector: np.ndarray, spread: np.ndarray, colour: str) -> None:
    x, order = drawn_along(side)
    low, high = np.maximum(vector - spread, 0)[order], (vector + spread)[order]
    if side.sticks:
        seen = high > 0.002 * float(vector.max(initial=0))
        _upright(ax, x[seen], low[seen], high[seen], color=colour, alpha=0.35, lw=2.4, gid="spread")
    else:
        ax.fill_between(x, low, high, color=colour, alpha=0.35, lw=0, gid="spread",
                        rasterized=len(x) > _LONG)  # fmt: skip
    largest, top = float(vector.max(initial=0)), float(high.max(initial=0))
    if largest > 0:
        room = 1.35 if side.sticks else 1.06
        ax.set_ylim(0, room * min(top, _MOST_SPREAD * largest))


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


def _whiskers(side: Side, ax: Axes, vector: np.ndarray, spread: np.ndarray, colour: str) -> None:
    top = top_entries(vector.astype(np.float64))
    low = np.maximum(vector - spread, 0)[top]
    ax.hlines(np.arange(len(top)), low, (vector + spread)[top], color=INK, lw=1.1, gid="spread")
    largest, end = float(vector.max(initial=0)), float((vector + spread)[top].max(initial=0))
    ax.set_xlim(0, 1.05 * min(end, _MOST_SPREAD * largest) if largest > 0 else 1)


def _picture(side: Side, ax: Axes, vectors: list[np.ndarray], colours: list[str]) -> None:
    assert side.fold is not None
    pictures = [side.fold(np.asarray(vector, dtype=np.float64)) for vector in vectors]
    if len(pictures) > 1:  # each scaled to its own largest value, with a gap between
        pictures = [p / (p.max(initial=0) or 1.0) for p in pictures]
        gap = np.full((len(pictures[0]), max(1, pictures[0].shape[1] // 15)), np.nan)
        pictures = [np.concatenate([pictures[0], gap, pictures[1]], axis=1)]
    top = float(np.nanmax(pictures[0], initial=0))
    ax.imshow(pictures[0], cmap=MAP, vmin=0, vmax=top or 1.0, interpolation="nearest")
    if len(vectors) == 1:
        outline(ax, pictures[0])
    no_spines(ax)


def outline(ax: Axes, picture: np.ndarray) -> None:
    """The contour at half of the largest value of a picture, where it has one."""
    if min(picture.shape) > 1 and picture.min() < 0.5 * picture.max():
        ax.contour(picture, levels=[0.5 * picture.max()], colors=["white"], linewidths=0.7)


_DRAW = {"line": _line, "bars": _bars, "picture": _picture}
_DRAW_SPREAD = {"line": _band, "bars": _whiskers}


def note(ax: Axes, text: str) -> None:
    """A remark in grey in the upper right corner of the axes."""
    ax.text(
        0.99, 0.94, text, transform=ax.transAxes, ha="right", va="top", color=NOTE, fontsize=SMALL
    )
