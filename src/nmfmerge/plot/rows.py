"""Many vectors along one side of the data in one axes: a row for each, the first one at the top.

Row i lies between −i − 1 and −i, and each vector is drawn to its own largest value. One axes for
all is drawn many times as fast as one for each.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from nmfmerge.drawing.outline import outlines
from nmfmerge.drawing.peaks import labelled_peaks
from nmfmerge.plot.side import (
    LONG,
    MAP,
    MOST_SPREAD,
    Side,
    along_axis,
    drawn_along,
    no_spines,
    note,
)
from nmfmerge.plot.style import AXIS, INK, SMALL, shortened, tidy

_ROOM = {True: 0.66, False: 0.86}  # share of a row for sticks, with numbers above them, and lines
Vectors = Sequence[np.ndarray]
Spreads = Sequence[np.ndarray] | None


def draw_rows(
    side: Side, ax: Axes, which: Sequence[int], vectors: Vectors, colour: str, spreads: Spreads
) -> None:
    """Draw the vectors of components below each other, with ± their spread where it is known.

    Lines get a band and bars a whisker; pictures show no spread.
    """
    vectors = [vector.astype(np.float64) for vector in vectors]
    if side.kind == "bars":
        tops = [side.entries(k, vector) for k, vector in zip(which, vectors, strict=True)]
        _bars(side, ax, tops, vectors, colour, spreads)
    else:
        draw = _lines if side.kind == "line" else _pictures
        draw(side, ax, vectors, colour, spreads)
    for i, vector in enumerate(vectors):
        if not np.any(vector):
            note(ax, "zero", (0.99, -i - 0.5))
    ax.set_ylim(-len(vectors), 0)


def _lines(side: Side, ax: Axes, vectors: Vectors, colour: str, spreads: Spreads) -> None:
    x, order = drawn_along(side)
    room = _ROOM[side.sticks]
    scales = [
        room / _full(v, None if spreads is None else spreads[i]) for i, v in enumerate(vectors)
    ]
    rows = [
        scale * v[order] - i - 1 for i, (v, scale) in enumerate(zip(vectors, scales, strict=True))
    ]
    tidy(ax)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    along_axis(side, ax, x)
    ax.hlines(-np.arange(1, len(rows)), *ax.get_xlim(), color=AXIS, lw=0.6, gid="bases")
    if side.sticks:
        _sticks(ax, x, rows, colour)
    else:
        _curves(ax, x, rows, colour)
    if spreads is not None:
        bands = []
        for i, (v, s, scale) in enumerate(zip(vectors, spreads, scales, strict=True)):
            low, high = np.maximum(v - s, 0)[order], np.minimum((v + s)[order], room / scale)
            bands.append((scale * low - i - 1, scale * high - i - 1))
        _bands(ax, x, bands, colour, side.sticks)


def _full(vector: np.ndarray, spread: np.ndarray | None) -> float:
    """The upper limit of a row: its largest value, or that of the band unless it is far higher."""
    largest = float(vector.max(initial=0))
    end = largest if spread is None else float((vector + spread).max(initial=0))
    return min(end, MOST_SPREAD * largest) or 1.0


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Lines one after the other, with gaps between them."""
    return np.concatenate([np.append(part, np.nan) for part in parts])


def _curves(ax: Axes, x: np.ndarray, rows: Vectors, colour: str) -> None:
    thin = 1.0 if len(x) <= 1000 else 0.6
    gap = np.append(x, x[-1:])
    long = _is_long(x, rows)
    ax.plot(
        np.tile(gap, len(rows)), _joined(rows), color=colour, lw=thin, ms=4, gid="lines",
        marker="." if len(x) <= 25 else "", solid_joinstyle="round", rasterized=long,
    )  # fmt: skip
    if len(x) <= LONG:
        at = np.asarray(ax.convert_xunits(x), dtype=np.float64)
        areas = [_between(at, np.full(len(at), -i - 1.0), row) for i, row in enumerate(rows)]
        ax.add_collection(PolyCollection(areas, color=colour, alpha=0.15, lw=0, rasterized=long),
                          autolim=False)  # fmt: skip


def _is_long(x: np.ndarray, rows: Sequence[object]) -> bool:
    """True if lines have so many points that vector files store them as pixels."""
    return len(x) > LONG or len(x) * len(rows) > 20 * LONG


def _between(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The outline of what lies between two lines."""
    return np.stack([np.append(x, x[::-1]), np.append(high, low[::-1])], axis=1)


def _sticks(ax: Axes, x: np.ndarray, rows: Vectors, colour: str) -> None:
    """A stick for each entry that can be seen, and the m/z of the largest."""
    xs, ys = [], []
    for i, row in enumerate(rows):
        height = row + i + 1
        seen = height > 0.002 * float(height.max(initial=0))
        xs.append(np.repeat(x[seen], 3))
        ys.append(
            np.stack([np.full(seen.sum(), -i - 1.0), row[seen], np.full(seen.sum(), np.nan)], 1)
        )
        for k in labelled_peaks(x, height):
            ax.annotate(f"{x[k]:.6g}", (x[k], row[k]), xytext=(0, 1), textcoords="offset points",
                        ha="center", va="bottom", fontsize=SMALL - 2, color=INK)  # fmt: skip
    ax.plot(np.concatenate(xs), np.concatenate(ys).ravel(), color=colour, lw=1.0, gid="sticks",
            solid_capstyle="butt", rasterized=_is_long(x, rows))  # fmt: skip


def _bands(
    ax: Axes, x: np.ndarray, bands: list[tuple[np.ndarray, np.ndarray]], colour: str, sticks: bool
) -> None:
    long = _is_long(x, bands)
    if not sticks:
        at = np.asarray(ax.convert_xunits(x), dtype=np.float64)
        areas = [_between(at, low, high) for low, high in bands]
        ax.add_collection(PolyCollection(areas, color=colour, alpha=0.35, lw=0, gid="spread",
                                         rasterized=long), autolim=False)  # fmt: skip
        return
    seen = [high - low > 0.01 for low, high in bands]
    xs = np.concatenate([np.repeat(x[s], 3) for s in seen])
    ys = [np.stack([low[s], high[s], np.full(s.sum(), np.nan)], 1)
          for (low, high), s in zip(bands, seen, strict=True)]  # fmt: skip
    ax.plot(xs, np.concatenate(ys).ravel(), color=colour, alpha=0.35, lw=2.4, gid="spread",
            solid_capstyle="butt", rasterized=long)  # fmt: skip


def _bars(
    side: Side, ax: Axes, tops: Vectors, vectors: Vectors, colour: str, spreads: Spreads
) -> None:
    places: list[float] = []
    names: list[str] = []
    widths: list[float] = []
    whiskers: list[tuple[float, float, float]] = []
    for i, (top, vector) in enumerate(zip(tops, vectors, strict=True)):
        spread = None if spreads is None else spreads[i]
        full = _full(vector, spread)
        at = -i - (np.arange(len(top)) + 0.75) / (len(top) + 0.5)
        places += at.tolist()
        widths += (vector[top] / full).tolist()
        names += [shortened(side.axis.values[k]) for k in top]
        if spread is not None:
            low, high = np.maximum(vector - spread, 0)[top] / full, (vector + spread)[top] / full
            whiskers += list(
                zip(at.tolist(), low.tolist(), np.minimum(high, 1.05).tolist(), strict=True)
            )
    thick = 0.72 / (min(len(vectors[0]), 6) + 0.5)
    ax.barh(places, widths, height=thick, color=colour)
    if whiskers:
        ax.hlines(*zip(*whiskers, strict=True), color=INK, lw=1.1, gid="spread")
    tidy(ax)
    ax.set_yticks(places, names)
    ax.tick_params(axis="y", labelsize=SMALL - 1, length=0)
    ax.set_xlim(0, 1.05)
    ax.set_xticks([])
    ax.spines["bottom"].set_visible(False)


def _pictures(side: Side, ax: Axes, vectors: Vectors, colour: str, spreads: Spreads) -> None:
    assert side.fold is not None
    wide, tall = _inches(ax)
    for i, vector in enumerate(vectors):
        picture = side.fold(vector)
        size = min(wide / picture.shape[1], 0.94 * tall / len(vectors) / picture.shape[0])
        right = size * picture.shape[1] / wide
        below = -i - 0.03 - size * picture.shape[0] / (tall / len(vectors))
        place_map(ax, picture, (0.0, right, below, -i - 0.03))
    ax.set_xlim(0, 1)
    no_spines(ax)


def _inches(ax: Axes) -> tuple[float, float]:
    box, (wide, tall) = ax.get_position(), ax.figure.get_size_inches()  # type: ignore[union-attr]
    return float(box.width * wide), float(box.height * tall)


def place_map(ax: Axes, picture: np.ndarray, extent: tuple[float, float, float, float]) -> None:
    """Draw a map from zero to its largest value, with an outline at half of that."""
    left, right, below, above = extent
    top = float(picture.max(initial=0)) or 1.0
    ax.imshow(picture, cmap=MAP, vmin=0, vmax=top, interpolation="nearest", aspect="auto",
              extent=extent, gid="map")  # fmt: skip
    lines = outlines(picture)
    if lines:
        across, down = (right - left) / picture.shape[1], (above - below) / picture.shape[0]
        x = _joined([left + across * (line[:, 0] + 0.5) for line in lines])
        y = _joined([above - down * (line[:, 1] + 0.5) for line in lines])
        ax.plot(x, y, color="#fdfdfd", lw=0.7, gid="outline")
