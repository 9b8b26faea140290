"""Each component: its column of W beside its row of H, the largest share of the fit first."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.datasets.base import Dataset
from nmfmerge.plot.rows import draw_rows
from nmfmerge.plot.side import Side, sides
from nmfmerge.plot.style import (
    BLUE,
    CRIMSON,
    INK,
    SMALL,
    TEXT,
    new_figure,
    remark,
    share_text,
    shortened,
    words,
)

if TYPE_CHECKING:
    from nmfmerge.results.factorization import Factorization

MOST = 24
_TOTAL = 6.4  # inches for the two drawings
_NARROW = 0.01  # of the largest value: a spread that cannot be seen


def components(
    result: "Factorization", data: Dataset | None = None, *, which: Sequence[int] | None = None
) -> Figure:
    """Draw components: columns of W on the left, rows of H on the right.

    Parameters
    ----------
    result : Factorization
        What to draw.
    data : Dataset, optional
        Its axes: numbers are drawn as lines, names as bars of the entries that are most
        specific to the component (see `nmfmerge.metrics.specificity`), pixels of
        images as pictures. Default: the axes of the result, else plain indices.
    which : sequence of int, optional
        Columns of W to draw, counted from 0, in this order. Default: those with the largest share
        of the fit, at most 24.

    Returns
    -------
    Figure
        One row for each component, labelled with its name, or its number from 1, and its share.
        After several starts, bands (whiskers on bars) show ± the standard deviation over them.
    """
    result = result.numpy()
    left, right = sides(result, data)
    share = result.shares()
    shown = selected(share, which, MOST)
    if len(shown) == 0:
        return words("There are no components to draw.")
    height = max(left.height, right.height) * (1.7 if len(shown) <= 4 else 1.0)
    names = [shortened(result.label(k)) for k in shown]
    room = 0.25 + 0.075 * max(map(len, names))
    margins = (room + _names(left), 0.22, 0.75, 0.32)
    figure = new_figure(1.07 + height * len(shown), margins=margins)
    axes = figure.subplots(
        1, 2,
        gridspec_kw={
            "width_ratios": _widths(left, right, height),
            "wspace": (0.24 + _names(right)) / 2.8,
        },
    )  # fmt: skip
    spread = result.spread
    W, H = list(result.W.T[shown]), list(result.H[shown])
    spreads = (None, None) if spread is None else (spread.W.T[shown], spread.H[shown])
    numbers = shown.tolist()
    draw_rows(left, axes[0], numbers, W, BLUE, spreads[0])
    draw_rows(right, axes[1], numbers, H, CRIMSON, spreads[1])
    for i, (k, name) in enumerate(zip(shown, names, strict=True)):
        axes[0].text(
            -(0.08 + _names(left)) / _wide(axes[0]), -i - 0.5, f"{name}\n{share_text(share[k])}",
            transform=axes[0].get_yaxis_transform(), ha="right", va="center", fontsize=SMALL,
            color=INK, gid="name",
        )  # fmt: skip
    for ax, side, factor in zip(axes, (left, right), "WH", strict=True):
        ax.set_title(f"{factor}: {side.label}", fontsize=TEXT + 0.5, color=INK)
        if side.kind == "line":
            ax.set_xlabel(side.label)
    notes = [*_missing(share, shown, which), *_of_spread(result, shown, (left, right))]
    if notes:
        remark(figure, " ".join(notes))
    return figure


def _names(side: Side) -> float:
    """Inches for the names beside bars."""
    if side.kind != "bars":
        return 0.0
    longest = max((len(shortened(name)) for name in side.axis.values[:2000]), default=0)
    return 0.1 + 0.07 * longest


def _wide(ax: Axes) -> float:
    """Width of axes in inches."""
    return float(ax.get_position().width * ax.figure.get_size_inches()[0])  # type: ignore[union-attr]


def selected(share: np.ndarray, which: Sequence[int] | None, most: int) -> np.ndarray:
    """Components to draw: the requested ones, or those with the largest share."""
    if which is None:
        return np.argsort(-share, kind="stable")[:most]
    chosen = np.asarray(which, dtype=np.intp).reshape(-1)
    if len(chosen) and not (chosen.min() >= 0 and chosen.max() < len(share)):
        raise ArgumentError(
            "which",
            "is out of range",
            value=list(which),
            expected=f"columns of W, counted from 0 to {len(share) - 1}",
        )
    return chosen


def _widths(left: Side, right: Side, height: float) -> tuple[float, float]:
    """Pictures take what they need at this height, the other side the rest."""
    if (left.kind == "picture") == (right.kind == "picture"):
        return 1.0, 1.0
    if left.kind == "picture":
        width = left.width(_TOTAL, height)
        return width, _TOTAL - width
    width = right.width(_TOTAL, height)
    return _TOTAL - width, width


def _missing(share: np.ndarray, shown: np.ndarray, which: Sequence[int] | None) -> list[str]:
    missing = len(share) - len(shown)
    if which is not None or missing <= 0:
        return []
    rest = share_text(max(0.0, 100 - float(share[shown].sum())))
    return [
        f"The {len(shown)} components with the largest share; {missing} more are not shown "
        f"({rest} of the fit together)."
    ]


def _of_spread(
    result: "Factorization", shown: np.ndarray, both: tuple[Side, Side]
) -> list[str]:  # fmt: skip
    """The meaning of the bands; empty if there are none."""
    marks = [{"line": "Bands", "bars": "Whiskers"}[s.kind] for s in both if s.kind != "picture"]
    if result.spread is None or not marks:
        return []
    pairs = [(result.W[:, shown], result.spread.W[:, shown])] * (both[0].kind != "picture")
    pairs += [(result.H[shown].T, result.spread.H[shown].T)] * (both[1].kind != "picture")
    narrow = all((deviation.max(axis=0) <= _NARROW * F.max(axis=0)).all() for F, deviation in pairs)
    return [
        f"{' and '.join(dict.fromkeys(marks)).capitalize()}: ± the standard deviation over "
        f"{len(result.starts)} starts" + (", too narrow to see." if narrow else ".")
    ]
