"""Components on the page: lines, sticks, bars and maps in HTML that follows the page's colours.

Lines are paths in a box of 10,000 × 1,000, which scripts read back for the values under the
pointer; everything is there without scripts too.
"""

import json
from html import escape
from typing import Any

import numpy as np
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num, num2date
from matplotlib.ticker import LogLocator, MaxNLocator

from nmfmerge.drawing.blocks import block_starts
from nmfmerge.drawing.outline import outlines
from nmfmerge.drawing.peaks import labelled_peaks
from nmfmerge.plot.pixels import png_address
from nmfmerge.plot.side import Side, drawn_along
from nmfmerge.plot.style import tick_text
from nmfmerge.report.words import number

WIDE, TALL = 10_000, 1_000
_POINTS = 1200  # of a line
_BAND_POINTS = 300
_EMBEDDED = 20_000  # values of an axis that scripts are given; longer ones are interpolated
_ROOM = {True: 0.78, False: 0.95}  # share of the height for sticks, with numbers above, and lines
_NARROW = 0.01  # of the largest value: a spread that cannot be seen
_N_BARS = 8
_LARGEST = 256  # pixels of a map, to each side


class Strips:
    """Draws vectors along one side of the data; what they share is laid out once."""

    def __init__(self, side: Side, number_: int) -> None:
        self.side = side
        self.number = number_
        if side.kind == "line":
            values, self.order = drawn_along(side)
            self.dates = values.dtype.kind == "M"
            self.x = date2num(values) if self.dates else values.astype(np.float64)
            self.texts = np.datetime_as_string(values).tolist() if self.dates else None
            self.low, self.high = _limits(self.x)
            self.at = self._place(self.x)
            self.ticks = self._ticks()

    def axis_data(self) -> dict[str, Any] | None:
        """The axis as data for the scripts of the page; None if there are no lines."""
        if self.side.kind != "line":
            return None
        axis = {"name": self.side.axis.name, "unit": self.side.axis.unit, "log": self.log,
                "low": self.low, "high": self.high}  # fmt: skip
        if len(self.x) <= _EMBEDDED:
            axis["x"] = [float(f"{value:.8g}") for value in self.x.tolist()]
            if self.texts is not None:
                axis["texts"] = self.texts
        return axis

    def draw(self, k: int, vector: np.ndarray, spread: np.ndarray | None, alt: str) -> str:
        """Column k of W or row k of H."""
        vector = vector.astype(np.float64)
        if self.side.kind == "bars":
            return self._bars(self.side.entries(k, vector, _N_BARS), vector, spread, alt)
        return (self._line if self.side.kind == "line" else self._map)(vector, spread, alt)

    @property
    def log(self) -> bool:
        """True if the scale of the axis is logarithmic."""
        return self.side.logarithmic

    def _place(self, x: np.ndarray) -> np.ndarray:
        """Where values stand, from 0 to 1."""
        if self.log:
            return np.log(x / self.low) / np.log(self.high / self.low)
        return (x - self.low) / (self.high - self.low)

    def _ticks(self) -> str:
        if self.dates:
            locator = AutoDateLocator(maxticks=5)
            wanted = np.asarray(locator.tick_values(num2date(self.low), num2date(self.high)))
            wanted = wanted[(wanted >= self.low) & (wanted <= self.high)]
            texts = ConciseDateFormatter(locator).format_ticks(wanted)
        else:
            locate = (
                LogLocator(subs=(1, 2, 5), numticks=9)
                if self.log
                else MaxNLocator(5, steps=[1, 2, 5, 10])
            )
            wanted = np.asarray(locate.tick_values(self.low, self.high))
            wanted = wanted[(wanted >= self.low) & (wanted <= self.high)]
            texts = [tick_text(v) if self.log else f"{v:.6g}" for v in wanted.tolist()]
        spans = (
            f'<span style="left:{100 * place:.4g}%">{escape(text)}</span>'
            for place, text in zip(self._place(wanted).tolist(), texts, strict=True)
        )
        return f'<div class="ticks" aria-hidden="true">{"".join(spans)}</div>'

    def _line(self, vector: np.ndarray, spread: np.ndarray | None, alt: str) -> str:
        y = vector[self.order]
        top = float(y.max(initial=0)) or 1.0
        sticks = self.side.sticks
        deviation = np.zeros(len(y)) if spread is None else spread[self.order].astype(np.float64)
        seen = float(deviation.max(initial=0)) > _NARROW * top
        full = min(float((y + deviation).max(initial=0)), 1.6 * top) if seen else top
        scale = TALL * _ROOM[sticks] / (full or 1.0)
        band = self._band(y, deviation, scale) if seen else ""
        drawn = _sticks(self.at, y, scale) if sticks else _curve(self.at, y, scale)
        peaks = self._peaks(y, scale) if sticks else ""
        kind = "sticks" if sticks else "line"
        return (
            f'<div class="strip {kind}" data-side="{self.number}" data-scale="{scale:.6g}" '
            f'role="img" aria-label="{escape(alt)}" tabindex="0"><div class="plot">'
            f'<svg viewBox="0 0 {WIDE} {TALL}" preserveAspectRatio="none" aria-hidden="true">{band}'
            f'<path class="values" d="{drawn}"/></svg>{peaks}</div>{self.ticks}</div>'
        )

    def _band(self, y: np.ndarray, deviation: np.ndarray, scale: float) -> str:
        low, high = np.maximum(y - deviation, 0), y + deviation
        starts = block_starts(len(y), _BAND_POINTS)
        at = self.at[starts]
        low, high = np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts)
        x = _rounded(WIDE * np.append(at, at[::-1]))
        edge = _rounded(np.maximum(TALL - scale * np.append(high, low[::-1]), 0))
        return f'<path class="band" d="{_relative(x, edge)}z"/>'

    def _peaks(self, y: np.ndarray, scale: float) -> str:
        return "".join(
            f'<span class="peak" style="left:{100 * self.at[i]:.4g}%;'
            f'bottom:{100 * scale * y[i] / TALL:.3g}%">{self.x[i]:.6g}</span>'
            for i in labelled_peaks(self.x, y)
        )

    def _bars(
        self, chosen: np.ndarray, vector: np.ndarray, spread: np.ndarray | None, alt: str
    ) -> str:
        deviation = np.zeros(len(vector)) if spread is None else spread
        ends = (vector + deviation)[chosen]
        full = min(float(ends.max(initial=0)), 1.6 * float(vector.max(initial=0))) or 1.0
        rows = []
        for i in chosen.tolist():
            value, wide = float(vector[i]), float(deviation[i])
            whisker = ""
            if wide > _NARROW * full:
                low, high = max(value - wide, 0) / full, min(value + wide, full) / full
                whisker = f'<i style="left:{100 * low:.3g}%;right:{100 - 100 * high:.3g}%"></i>'
            rows.append(
                f'<li><span class="name">{escape(str(self.side.axis.values[i]))}</span>'
                f'<span class="track"><b style="width:{100 * value / full:.3g}%"></b>{whisker}'
                f'</span><span class="value">{number(float(f"{value:.3g}"))}</span></li>'
            )
        return f'<ol class="bars" aria-label="{escape(alt)}">{"".join(rows)}</ol>'

    def _map(self, vector: np.ndarray, spread: np.ndarray | None, alt: str) -> str:
        assert self.side.fold is not None
        picture = np.asarray(self.side.fold(vector), dtype=np.float64)
        tall, wide = picture.shape
        return (
            f'<div class="map" style="--ratio:{wide / tall:.4g}">'
            f'<svg role="img" aria-label="{escape(alt)}" viewBox="0 0 {wide} {tall}">'
            f'<image width="{wide}" height="{tall}" preserveAspectRatio="none" '
            f'href="{_map_address(picture)}"/><path d="{_outline(picture)}"/></svg></div>'
        )


def script_data(*sides: Strips) -> str:
    """The axes as data for the scripts, inside the page."""
    text = json.dumps([side.axis_data() for side in sides], separators=(",", ":"))
    text = text.replace("<", "\\u003c")
    return f'<script type="application/json" id="axes">{text}</script>'


def _limits(x: np.ndarray) -> tuple[float, float]:
    low, high = float(x[0]), float(x[-1])
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _rounded(x: np.ndarray) -> np.ndarray:
    return np.rint(x).astype(np.int64)


def _relative(x: np.ndarray, y: np.ndarray) -> str:
    """A path through points at whole numbers, as steps from each to the next."""
    steps = zip(np.diff(x).tolist(), np.diff(y).tolist(), strict=True)
    return f"M{x[0]} {y[0]}l" + " ".join([f"{dx} {dy}" for dx, dy in steps])


def _curve(at: np.ndarray, y: np.ndarray, scale: float) -> str:
    """A line from the axis, through all values that make a difference, to the axis."""
    at, y = _fewer(at, y)
    x, height = _rounded(WIDE * at), _rounded(TALL - scale * y)
    same = np.zeros(len(x), dtype=bool)
    same[1:-1] = (height[1:-1] == height[:-2]) & (height[1:-1] == height[2:])
    x, height = x[~same], height[~same]
    return _relative(np.r_[x[0], x, x[-1]], np.r_[TALL, height, TALL])


def _fewer(at: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A long line by the least and the largest value of each stretch."""
    if len(y) <= _POINTS:
        return at, y
    length = -(-2 * len(y) // _POINTS)
    padded = np.pad(y, (0, -len(y) % length), mode="edge").reshape(-1, length)
    first = length * np.arange(len(padded))
    chosen = np.unique(np.r_[first + padded.argmin(axis=1), first + padded.argmax(axis=1)])
    chosen = chosen[chosen < len(y)]
    return at[chosen], y[chosen]


def _sticks(at: np.ndarray, y: np.ndarray, scale: float) -> str:
    seen = np.flatnonzero(y > 0.002 * float(y.max(initial=0)))
    if len(seen) > 3 * _POINTS:
        seen = np.sort(seen[np.argsort(-y[seen])[: 3 * _POINTS]])
    x, height = _rounded(WIDE * at[seen]), _rounded(TALL - scale * y[seen])
    return "".join([f"M{a} {TALL}V{b}" for a, b in zip(x.tolist(), height.tolist(), strict=True)])


def _map_address(picture: np.ndarray) -> str:
    """A map as an address; of a large one, the largest value in blocks of 2 × 2, 4 × 4, …."""
    for axis in (0, 1):
        while picture.shape[axis] > _LARGEST:
            pairs = np.arange(0, picture.shape[axis], 2)
            picture = np.maximum.reduceat(picture, pairs, axis=axis)
    return png_address(picture)


def _outline(picture: np.ndarray) -> str:
    """The contour at half of the largest value, as a path over the pixels."""
    return "".join(
        "M" + "L".join([f"{x:.1f} {y:.1f}" for x, y in (line + 0.5).tolist()])
        for line in outlines(picture)
    )
