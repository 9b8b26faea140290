"""Components of images as pictures: a grid of maps, drawn large."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from nmfmerge.datasets.base import Dataset
from nmfmerge.plot.components import selected
from nmfmerge.plot.rows import place_map
from nmfmerge.plot.side import sides
from nmfmerge.plot.style import (
    INK,
    SMALL,
    WIDTH,
    new_figure,
    no_spines,
    remark,
    share_text,
    shortened,
    words,
)

if TYPE_CHECKING:
    from nmfmerge.results.factorization import Factorization

MOST = 36
_ABOVE, _BELOW, _GAP = 0.26, 0.32, 0.08  # inches: name of a map, note, between maps


def maps(
    result: "Factorization", data: Dataset | None = None, *, which: Sequence[int] | None = None
) -> Figure:
    """Draw each component of images or of a movie as a map.

    Parameters
    ----------
    result : Factorization
        What to draw.
    data : Dataset, optional
        Data whose rows or columns are pixels, with its ``image_shape``. Default: the axes of the
        result.
    which : sequence of int, optional
        Columns of W to draw, counted from 0, in this order. Default: those with the largest share
        of the fit, at most 36.

    Returns
    -------
    Figure
        A grid of maps, each from zero to its own largest value, with an outline at half of that.
    """
    result = result.numpy()
    left, right = sides(result, data)
    if left.fold is None and right.fold is None:
        raise ValueError(
            "data has neither rows nor columns that are pixels of an image (an axis named 'pixel' "
            "and image_shape); draw it with plot.components"
        )
    share = result.shares()
    shown = selected(share, which, MOST)
    if len(shown) == 0:
        return words("There are no components to draw.")
    fold, F = (left.fold, result.W.T) if left.fold is not None else (right.fold, result.H)
    assert fold is not None
    pictures = [fold(F[k].astype(np.float64)) for k in shown]
    return _grid(pictures, [f"{shortened(result.label(k))}, {share_text(share[k])}" for k in shown],
                 len(share) - len(shown) if which is None else 0)  # fmt: skip


def _grid(pictures: list[np.ndarray], titles: list[str], missing: int) -> Figure:
    """All maps in one axes, whose units are inches."""
    tall, wide = pictures[0].shape
    n_columns = max(
        2, min(len(pictures), 3 if len(pictures) <= 9 else 4 if wide <= 2 * tall else 2)
    )
    n_rows = -(-len(pictures) // n_columns)
    cell = (WIDTH - 0.1) / n_columns
    high = float(np.clip((cell - _GAP) * tall / wide, 0.2, 1.6 * cell))
    total = n_rows * (high + _ABOVE)
    figure = new_figure(total + _BELOW, margins=(0.05, 0.05, _BELOW, 0.0))
    ax = figure.subplots()
    for i, (picture, title) in enumerate(zip(pictures, titles, strict=True)):
        left, above = i % n_columns * cell, -(i // n_columns) * (high + _ABOVE) - _ABOVE
        right = left + min(cell - _GAP, high * wide / tall)
        place_map(ax, picture, (left, right, above - high, above))
        ax.text(left, above + 0.06, title, fontsize=SMALL, color=INK, gid="name")
    ax.set(xlim=(0, WIDTH - 0.1), ylim=(-total, 0))
    no_spines(ax)
    note = "Each map from zero (dark) to its own largest value (light); outlines at half of that."
    remark(figure, note + f" {missing} more components are not shown." * bool(missing))
    return figure
