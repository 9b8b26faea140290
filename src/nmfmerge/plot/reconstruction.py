"""X, WH and what is left, side by side; of pictures, their means."""

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nmfmerge.datasets.base import Dataset
from nmfmerge.drawing.blocks import averaged
from nmfmerge.plot.completed import completed
from nmfmerge.plot.ruler import Ruler, ruler
from nmfmerge.plot.side import MAP, Side, sides
from nmfmerge.plot.style import SMALL, how_many, new_figure, no_spines, remark, tick_text, tidy

if TYPE_CHECKING:
    from nmfmerge.results.factorization import Factorization

MOST = 600
UNKNOWN = "#9a9a9a"  # where nothing was observed, as in the explorer: white is zero
_ROUNDING = 1e-9
FROM_WHITE = LinearSegmentedColormap.from_list(
    "from white", ["#ffffff", "#fbd9b5", "#f39a6b", "#cf4a6a", "#76216f", "#170b2d"]
)
_BAR = 0.78  # inches from the lower edge to the colour bar
_QUIET = 60.0  # decibels below the loudest: the end of the scale
_BRIGHT = 0.998  # of the pixels that are not zero lie within the scale of a picture mostly white


def reconstruction(
    result: "Factorization", data: Dataset, *, weights: Any = None, missing: str = "nan"
) -> Figure:
    """Draw X and WH on one colour scale, and the residual X − WH on a diverging one.

    Parameters
    ----------
    result : Factorization
        The fit.
    data : Dataset
        What was fitted; X may be sparse. Sides longer than 600 are averaged in blocks; WH takes the
        place of missing entries, and blocks in which nothing was observed are grey.
    weights : array or sparse matrix, optional
        Weights of the entries of X; those of weight 0 are missing.
    missing : {"nan", "zeros"}
        Which entries of X are missing; see `nmf`.

    Returns
    -------
    Figure
        Three panels. The scale of X and WH goes with the square root where most of X is small, and
        is that of decibels for spectrograms. Rows and columns with names are sorted by component.
        Where rows or columns are pixels, the panels are means of all images.
    """
    result = result.numpy()
    if data.X is None:
        raise ValueError("data has no X (only its axes); expected the matrix that was factorized")
    left, right = sides(result, data)
    if "picture" in (left.kind, right.kind):
        return _means(result, data, left, right, weights, missing)
    rows, columns = ruler(left, result.W.T, MOST), ruler(right, result.H, MOST)
    WH = (rows.pixels @ result.W).astype(np.float64) @ (result.H @ columns.pixels.T)
    known = completed(data.X, result, weights, missing)
    X = averaged(known.X, rows.pixels, columns.pixels) + WH * known.lacks_fit
    if known.weights is not None:
        share = averaged(known.weights.U.X, rows.pixels, columns.pixels)
        X[(1 - share if known.weights.complement else share) < _ROUNDING] = np.nan
    figure = new_figure(4.1, margins=(0.75, 0.15, 1.45, 0.35))
    axes = figure.subplots(1, 3, gridspec_kw={"wspace": 0.12})
    if left.logarithmic or right.logarithmic:
        _draw_decibels(figure, axes, X, WH)
    else:
        _draw_values(figure, axes, X, WH)
    for ax in axes:
        tidy(ax)
        rows.mark(ax, "y")
        columns.mark(ax, "x")
        ax.set_ylim((-0.5, len(X) - 0.5) if rows.upwards else (len(X) - 0.5, -0.5))
    for ax in axes[1:]:
        ax.tick_params(labelleft=False)
        ax.set_ylabel("")
    notes = [*_blocks(data.X.shape, X.shape), *_sorted(rows, columns)]
    if notes:
        remark(figure, "\n".join(notes), up=0.05)
    return figure


def _draw_values(figure: Figure, axes: np.ndarray, X: np.ndarray, WH: np.ndarray) -> None:
    norm, scale = _scale(X, WH)
    for ax, values, title in ((axes[0], X, "X"), (axes[1], WH, "WH")):
        _show(ax, values, title, FROM_WHITE, norm)
    _colour_bar(figure, axes[:2], FROM_WHITE, norm, f"value{scale}")
    residual = X - WH
    most = spread(residual)
    around_zero = Normalize(-most, most)
    _show(axes[2], residual, "residual X − WH", "RdBu_r", around_zero)
    _colour_bar(figure, axes[2:], "RdBu_r", around_zero, _compared(most, norm.vmax))


def _draw_decibels(figure: Figure, axes: np.ndarray, X: np.ndarray, WH: np.ndarray) -> None:
    loudest = max(float(np.nanmax(X, initial=0)), float(WH.max(initial=0))) or 1.0
    floor = loudest * 10 ** (-_QUIET / 20)
    norm = Normalize(-_QUIET, 0)
    panels = ((X, "X"), (WH, "WH"), (np.abs(X - WH), "residual |X − WH|"))
    for ax, (values, title) in zip(axes, panels, strict=True):
        decibels = 20 * np.log10(np.maximum(values, floor) / loudest)
        _show(ax, decibels, title, FROM_WHITE, norm)
    _colour_bar(figure, axes, FROM_WHITE, norm, "dB below the loudest")


def _show(ax: Axes, values: np.ndarray, title: str, colours: Any, norm: Normalize) -> None:
    colours = mpl.colormaps.get_cmap(colours).with_extremes(bad=UNKNOWN)
    ax.imshow(values, cmap=colours, norm=norm, aspect="auto", interpolation="nearest")
    ax.set_title(title)


def _scale(X: np.ndarray, WH: np.ndarray) -> tuple[Normalize, str]:
    """One scale for both; where three quarters of X are below 5 % of it, one that shows them."""
    X = X[~np.isnan(X)]
    top = max(float(X.max(initial=0)), float(WH.max(initial=0))) or 1.0
    if X.size == 0 or np.quantile(X, 0.75) >= 0.05 * top:
        return Normalize(0, top), ""
    seen = X[X > 0]
    bright = float(np.quantile(seen, _BRIGHT)) if len(seen) else top
    if bright >= 0.5 * top:
        return PowerNorm(0.5, vmin=0, vmax=top), ", square-root scale"
    return PowerNorm(0.5, vmin=0, vmax=bright), f", square-root scale up to {tick_text(bright)}"


def spread(residual: np.ndarray) -> float:
    """Half the width of the diverging scale: all but one in a thousand entries lie within."""
    size = np.abs(residual[~np.isnan(residual)])
    most = float(np.quantile(size, 0.999)) if size.size else 0.0
    return most or float(size.max(initial=0)) or 1.0


def _compared(most: float, top: float | None) -> str:
    share = 100 * most / top if top else 0.0
    return f"ends: ±{share:.2g} % of the left scale"


def _means(
    result: "Factorization", data: Dataset, left: Side, right: Side, weights: Any, missing: str
) -> Figure:
    """The mean image of X, of WH and of the residual."""
    known = completed(data.X, result, weights, missing)
    if left.fold is not None:
        fold, axis = left.fold, 1
        WH = result.W @ result.H.mean(axis=1)
    else:
        assert right.fold is not None
        fold, axis = right.fold, 0
        WH = result.W.mean(axis=0) @ result.H
    X = np.asarray(known.X.mean(axis=axis)).reshape(-1) + WH * known.lacks_fit
    other = right if left.fold is not None else left
    first, second = fold(X.astype(np.float64)), fold(WH.astype(np.float64))
    tall = first.shape[0] / first.shape[1]
    figure = new_figure(float(np.clip(2.3 * tall, 1.2, 4.0)) + 1.35, margins=(0.1, 0.1, 1.05, 0.3))
    axes = figure.subplots(1, 3, gridspec_kw={"wspace": 0.06})
    norm = Normalize(0, max(first.max(initial=0), second.max(initial=0)) or 1.0)
    for ax, values, title in ((axes[0], first, "mean of X"), (axes[1], second, "mean of WH")):
        ax.imshow(values, cmap=MAP, norm=norm, interpolation="nearest", gid="map")
        ax.set_title(title)
    most = spread(first - second)
    around_zero = Normalize(-most, most)
    axes[2].imshow(first - second, cmap="RdBu_r", norm=around_zero, interpolation="nearest")
    axes[2].set_title("mean residual")
    for ax in axes:
        tidy(ax)
        no_spines(ax)
    _colour_bar(figure, axes[:2], MAP, norm, "value", gid="map")
    _colour_bar(figure, axes[2:], "RdBu_r", around_zero, _compared(most, norm.vmax))
    remark(figure, f"Means over {how_many(len(other.axis.values), other.axis.name)}.")
    return figure


def span(side: Side) -> tuple[float, float] | None:
    """First and last edge of an axis of growing numbers that are evenly spaced, to within a step.

    The accurate masses of bins are: each is somewhere in its bin.
    """
    values = np.asarray(side.axis.values)
    if side.kind != "line" or values.dtype.kind not in "iuf" or len(values) < 2:
        return None
    values = values.astype(np.float64)
    even, step = np.linspace(values[0], values[-1], len(values), retstep=True)
    if (np.diff(values) <= 0).any() or (np.abs(values - even) > step).any():
        return None
    return float(values[0] - step / 2), float(values[-1] + step / 2)


def _colour_bar(
    figure: Figure,
    axes: np.ndarray,
    colours: Any,
    norm: Normalize,
    label: str,
    gid: str | None = None,
) -> None:
    """A colour bar below axes that stand side by side; drawn as one picture, so it is fast."""
    height = figure.get_size_inches()[1]
    first, last = axes[0].get_position(), axes[-1].get_position()
    inset = 0.1 * (last.x1 - first.x0)
    wide = last.x1 - first.x0 - 2 * inset
    ax = figure.add_axes((first.x0 + inset, _BAR / height, wide, 0.09 / height), label="colours")
    ax.imshow(np.linspace(0, 1, 256)[None], cmap=colours, vmin=0, vmax=1, aspect="auto",
              extent=(0, 1, 0, 1), gid=gid)  # fmt: skip
    low, high = float(norm.vmin or 0.0), float(norm.vmax or 1.0)
    locator = MaxNLocator(5 if len(axes) > 1 else 2, steps=[1, 2, 5, 10])
    ticks = np.asarray(locator.tick_values(low, high))
    ticks = ticks[(ticks >= low) & (ticks <= high)]
    if len(axes) == 1 and len(ticks) > 3:  # narrow, and as far to the left of 0 as to the right
        ticks = ticks[[0, len(ticks) // 2, -1]]
    tidy(ax)
    ax.spines[:].set_visible(False)
    ax.set_yticks([])
    ax.set_xticks(np.asarray(norm(ticks)), [tick_text(value) for value in ticks.tolist()])
    ax.tick_params(labelsize=SMALL - 0.5, length=2)
    ax.set_xlabel(label, fontsize=SMALL)


def _blocks(full: tuple[int, int], drawn: tuple[int, ...]) -> list[str]:
    if full[0] <= drawn[0] and full[1] <= drawn[1]:
        return []
    return [
        f"{full[0]} × {full[1]} entries, averaged in blocks to {drawn[0]} × {drawn[1]}, which "
        "evens out noise."
    ]


def _sorted(rows: Ruler, columns: Ruler) -> list[str]:
    which = [name for name, side in (("Rows", rows), ("columns", columns)) if side.sorted]
    if not which:
        return []
    return [f"{' and '.join(which).capitalize()} are sorted by component."]
