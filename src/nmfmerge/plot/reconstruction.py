"""X, WH and what is left, side by side."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize, PowerNorm
from matplotlib.figure import Figure

from nmfmerge.datasets.base import Dataset
from nmfmerge.plot.blocks import average, average_product, block_starts
from nmfmerge.plot.side import Side, sides
from nmfmerge.plot.style import NOTE, SMALL, new_figure, shortened, tidy
from nmfmerge.result import Factorization

MOST = 600
FROM_WHITE = LinearSegmentedColormap.from_list(
    "from white", ["#ffffff", "#fbd9b5", "#f39a6b", "#cf4a6a", "#76216f", "#170b2d"]
)


def reconstruction(result: Factorization, data: Dataset) -> Figure:
    """Draw X and WH on one colour scale, and the residual X − WH on a diverging one.

    Parameters
    ----------
    result : Factorization
        The fit.
    data : Dataset
        What was fitted; X may be sparse. Sides longer than 600 are averaged in blocks.

    Returns
    -------
    Figure
        Three panels. The scale of X and WH goes with the square root where most of X is small.
    """
    result = result.numpy()
    if data.X is None:
        raise ValueError("data has no X (only its axes); expected the matrix that was factorized")
    left, right = sides(result, data)
    rows, columns = (block_starts(length, MOST) for length in data.X.shape)
    X = average(data.X, rows, columns)
    WH = average_product(result.W, result.H, rows, columns)
    figure = new_figure(3.8)
    axes = figure.subplots(1, 3)
    norm, scale = _scale(X, WH)
    extent, origin = _extent(left, right, data.X.shape)
    shared = {"extent": extent, "origin": origin, "aspect": "auto"}
    for ax, values, title in ((axes[0], X, "X"), (axes[1], WH, "WH")):
        picture = ax.imshow(values, cmap=FROM_WHITE, norm=norm, **shared)
        ax.set_title(title)
    _colour_bar(figure, picture, axes[:2], f"value{scale}")
    residual = X - WH
    most = spread(residual)
    change = axes[2].imshow(residual, cmap="RdBu_r", norm=Normalize(-most, most), **shared)
    axes[2].set_title("residual X − WH")
    _colour_bar(figure, change, axes[2:], _compared(most, norm.vmax), extend="both")
    _label(axes, left, right)
    _say_blocks(figure, data.X.shape, X.shape)
    return figure


def _scale(X: np.ndarray, WH: np.ndarray) -> tuple[Normalize, str]:
    """One scale for both; the square root where three quarters of X are below 5 % of it."""
    top = max(float(X.max(initial=0)), float(WH.max(initial=0))) or 1.0
    if np.quantile(X, 0.75) < 0.05 * top:
        return PowerNorm(0.5, vmin=0, vmax=top), ", square-root scale"
    return Normalize(0, top), ""


def spread(residual: np.ndarray) -> float:
    """Half the width of the diverging scale: all but one in a thousand entries lie within."""
    size = np.abs(residual)
    return float(np.quantile(size, 0.999)) or float(size.max(initial=0)) or 1.0


def _compared(most: float, top: float | None) -> str:
    share = 100 * most / top if top else 0.0
    return f"ends: ±{share:.2g} % of the left scale"


def _extent(
    left: Side, right: Side, shape: tuple[int, int]
) -> tuple[tuple[float, float, float, float], str]:
    """Limits of the picture; rows upwards where they stand for measured numbers."""
    m, n = shape
    x0, x1 = span(right) or (0.5, n + 0.5)
    y = span(left)
    if y is None or left.axis.name == "row":
        y0, y1 = y or (0.5, m + 0.5)
        return (x0, x1, y1, y0), "upper"
    return (x0, x1, *y), "lower"


def span(side: Side) -> tuple[float, float] | None:
    """First and last edge of an axis of evenly spaced, growing numbers."""
    values = np.asarray(side.axis.values)
    if side.kind != "line" or values.dtype.kind not in "iuf" or len(values) < 2:
        return None
    steps = np.diff(values.astype(np.float64))
    if steps[0] <= 0 or not np.allclose(steps, steps[0], rtol=1e-3):
        return None
    return float(values[0]) - steps[0] / 2, float(values[-1]) + steps[0] / 2


def _label(axes: np.ndarray, left: Side, right: Side) -> None:
    for ax in axes:
        tidy(ax)
        ax.set_xlabel(_name(right))
        ax.locator_params(nbins=5)
    for ax in axes[1:]:
        ax.tick_params(labelleft=False)
    axes[0].set_ylabel(_name(left))


def _name(side: Side) -> str:
    return side.label if span(side) else shortened(f"{side.axis.name} number", 44)


def _colour_bar(
    figure: Figure, picture: object, axes: list[Axes], label: str, extend: str = "neither"
) -> None:
    bar = figure.colorbar(
        picture,  # type: ignore[arg-type]
        ax=axes, orientation="horizontal", extend=extend, aspect=30 * len(axes), pad=0.02,
    )  # fmt: skip
    bar.outline.set_visible(False)
    bar.set_label(label, fontsize=SMALL)
    bar.ax.tick_params(labelsize=SMALL, length=2)
    bar.ax.locator_params(nbins=5 if len(axes) > 1 else 3)


def _say_blocks(figure: Figure, full: tuple[int, int], drawn: tuple[int, ...]) -> None:
    if full != drawn:
        figure.supxlabel(
            f"{full[0]} × {full[1]} entries, averaged in blocks to {drawn[0]} × {drawn[1]}; "
            "averaging evens out noise in the residual.",
            fontsize=SMALL, color=NOTE,
        )  # fmt: skip
