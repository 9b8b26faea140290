"""Generalized singular values of the recovered components."""

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nmfmerge.losses import LOSSES
from nmfmerge.plot.style import CRIMSON, GREY, logarithmic, new_figure, remark, tidy, words

if TYPE_CHECKING:
    from nmfmerge.results.factorization import Factorization


def singular_values(result: "Factorization") -> Figure:
    """Draw how much more X has than WH in the direction of each recovered component.

    Parameters
    ----------
    result : Factorization
        A run of `nmf_merge`.

    Returns
    -------
    Figure
        One mark for each recovered component on a logarithmic scale; infinite values, directions
        of which WH has nothing, are triangles at the top.
    """
    values = np.asarray(result.generalized_singular_values, dtype=np.float64)
    if len(values) == 0:
        return words("No components were recovered, so there are no generalized singular values.")
    number = np.arange(1, len(values) + 1)
    finite = np.isfinite(values) & (values > 0)
    top, bottom = _limits(values[finite])
    figure = new_figure(2.8, width=4.6, margins=(0.8, 0.15, 0.72, 0.35))
    ax = figure.subplots()
    logarithmic(ax, "y", bottom, top)
    ax.set(ylim=(bottom, top), xlim=(0.4, len(values) + 0.6))
    ax.vlines(number[finite], bottom, values[finite], color=CRIMSON, lw=1.2, alpha=0.5)
    ax.plot(number[finite], values[finite], "o", color=CRIMSON, ms=6)
    if np.isinf(values).any():
        _mark_infinite(ax, number[np.isinf(values)], top)
    equal = LOSSES[result.loss].equal_strength
    if equal is not None:
        ax.axhline(equal, color=GREY, lw=0.9, ls="--", zorder=0)
        remark(figure, f"Dashed: {equal:g}, where WH has as much of a direction as X.")
    ax.set(xlabel="recovered component", ylabel="value")
    ax.xaxis.set_major_locator(MaxNLocator(10, integer=True, min_n_ticks=1))
    ax.set_title(result.words.strengths)
    tidy(ax)
    return figure


def _limits(values: np.ndarray) -> tuple[float, float]:
    largest = float(values.max(initial=10.0))
    smallest = float(values.min(initial=1.0))
    return largest * max(3.0, (largest / smallest) ** 0.25), smallest / 1.5


def _mark_infinite(ax: Axes, number: np.ndarray, top: float) -> None:
    ax.plot(number, np.full(len(number), top), "^", color=CRIMSON, ms=8, clip_on=False,
            gid="infinite")  # fmt: skip
    for x in number:
        ax.annotate("∞", (x, top), xytext=(0, -8), textcoords="offset points", ha="center",
                    va="top", color=CRIMSON, fontsize=11)  # fmt: skip
