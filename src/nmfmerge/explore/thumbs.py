"""Components as small drawings in HTML: lines, the most specific names, or pictures."""

from collections.abc import Sequence
from html import escape

import numpy as np

from nmfmerge.drawing.blocks import average, block_starts
from nmfmerge.drawing.lines import highest, polyline_points
from nmfmerge.plot.pixels import png_address
from nmfmerge.plot.side import Side

_POINTS, _HEIGHT = 120, 40
_PIXELS = 72
_NAMES = 3


def thumbs(side: Side, F: np.ndarray, colour: str, which: Sequence[int] | None = None) -> list[str]:
    """One drawing for each component.

    Parameters
    ----------
    side : Side
        What the entries of a row stand for.
    F : array (r, length)
        Columns of W, as rows, or rows of H.
    colour : str
        A class of the style sheet, "rows" or "columns".
    which : sequence of int, optional
        The rows that are drawn; by default all.
    """
    which = range(len(F)) if which is None else which
    if side.kind == "picture":
        return [_picture(side, F[k]) for k in which]
    if side.kind == "bars":
        return [_names(side, k, F[k], colour) for k in which]
    lines = F[list(which)][:, _order(side)]
    return [_line([f], [colour]) for f in highest(lines, _POINTS)] if len(lines) else []


def overlay(side: Side, F: np.ndarray, colours: Sequence[str]) -> str:
    """Several lines in one drawing, each scaled to its largest value to compare their shapes."""
    top = F.max(axis=1, keepdims=True)
    scaled = F / np.where(top > 0, top, 1)
    return _line(highest(scaled[:, _order(side)], 2 * _POINTS), colours, tall=True)


def _order(side: Side) -> np.ndarray:
    values = np.asarray(side.axis.values)
    return np.argsort(values, kind="stable")


def _line(
    vectors: Sequence[np.ndarray] | np.ndarray, colours: Sequence[str], tall: bool = False
) -> str:
    height = 2 * _HEIGHT if tall else _HEIGHT
    F = np.asarray(vectors, dtype=np.float64)
    n = F.shape[1]
    heights = (1 + (height - 3) * F / (F.max(initial=0) or 1.0)) / height  # with room for strokes
    paths = []
    for line, colour in zip(heights, colours, strict=True):
        points = polyline_points(line, n - 1, height)
        if not tall:
            paths.append(
                f'<polygon class="{colour}" points="0,{height} {points} {n - 1},{height}"/>'
            )
        paths.append(f'<polyline class="{colour}" points="{points}"/>')
    return (
        f'<svg class="thumb" viewBox="0 0 {max(n - 1, 1)} {height}" preserveAspectRatio="none" '
        f'aria-hidden="true">{"".join(paths)}</svg>'
    )


def _names(side: Side, k: int, vector: np.ndarray, colour: str) -> str:
    top = float(vector.max(initial=0)) or 1.0
    lines = (
        f'<span class="bar {colour}" style="--part:{100 * float(vector[i]) / top:.0f}%">'
        f"{escape(str(side.axis.values[i]))}</span>"
        for i in side.entries(k, vector, _NAMES)
    )
    return f'<span class="names">{"".join(lines)}</span>'


def _picture(side: Side, vector: np.ndarray) -> str:
    assert side.fold is not None
    picture = np.asarray(side.fold(vector), dtype=np.float64)
    step = -(-max(picture.shape) // _PIXELS)  # one for both sides: pixels stay square
    small = average(picture, *(block_starts(n, -(-n // step)) for n in picture.shape))
    return f'<img class="thumb" alt="" src="{png_address(small)}">'
