"""Components of images as pictures: a grid of maps, drawn large."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from nmfmerge.datasets.base import Dataset
from nmfmerge.metrics import shares
from nmfmerge.plot.components import selected
from nmfmerge.plot.side import MAP, outline, sides
from nmfmerge.plot.style import WIDTH, new_figure, no_spines, percent, remark, shortened, words
from nmfmerge.result import Factorization

MOST = 36
_ABOVE, _BELOW = 0.26, 0.32  # inches for the name of a map, and for the note


def maps(result: Factorization, data: Dataset, *, which: Sequence[int] | None = None) -> Figure:
    """Draw each component of images or of a movie as a map.

    Parameters
    ----------
    result : Factorization
        What to draw.
    data : Dataset
        Data whose rows or columns are pixels, with its ``image_shape``.
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
    share = shares(result.W, result.H)
    shown = selected(share, which, MOST)
    if len(shown) == 0:
        return words("There are no components to draw.")
    fold, F = (left.fold, result.W.T) if left.fold is not None else (right.fold, result.H)
    assert fold is not None
    pictures = [fold(F[k].astype(np.float64)) for k in shown]
    return _grid(pictures, [f"{shortened(result.label(k))}, {percent(share[k])}" for k in shown],
                 len(share) - len(shown) if which is None else 0)  # fmt: skip


def _grid(pictures: list[np.ndarray], titles: list[str], missing: int) -> Figure:
    tall, wide = pictures[0].shape
    n_columns = min(len(pictures), 3 if len(pictures) <= 9 else 4 if wide <= 2 * tall else 2)
    n_rows = -(-len(pictures) // n_columns)
    cell = WIDTH / max(n_columns, 2)
    high = float(np.clip(cell * tall / wide, 0.3 * cell, 1.6 * cell))
    figure = new_figure(n_rows * (high + _ABOVE) + _BELOW, margins=(0.05, 0.05, _BELOW, _ABOVE))
    axes = figure.subplots(n_rows, max(n_columns, 2), squeeze=False,
                           gridspec_kw={"wspace": 0.04, "hspace": _ABOVE / high})  # fmt: skip
    for ax in axes.flat:
        ax.set_axis_off()
    for ax, picture, title in zip(axes.flat, pictures, titles, strict=False):
        top = float(picture.max(initial=0)) or 1.0
        ax.imshow(picture, cmap=MAP, vmin=0, vmax=top, interpolation="nearest", gid="map")
        outline(ax, picture)
        ax.set_title(title, fontsize=8.5, pad=3)
        no_spines(ax)
    note = "Each map from zero (dark) to its own largest value (light); outlines at half of that."
    remark(figure, note + f" {missing} more components are not shown." * bool(missing))
    return figure
