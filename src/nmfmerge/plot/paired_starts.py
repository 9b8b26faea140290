"""Standard NMF against NMF-Merge from the same starts."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nmfmerge.plot.style import CRIMSON, GREY, ORANGE, SMALL, new_figure, tidy


def paired_starts(standard_errors: Sequence[float], merge_errors: Sequence[float]) -> Figure:
    """Draw the fitting errors that both methods ended with.

    Parameters
    ----------
    standard_errors, merge_errors : sequences of float
        Fitting errors in percent; where there are equally many, they belong to the same starts.

    Returns
    -------
    Figure
        One dot for each run and, for pairs, the line from standard NMF to NMF-Merge.
    """
    standard = np.asarray(standard_errors, dtype=np.float64)
    merged = np.asarray(merge_errors, dtype=np.float64)
    figure = new_figure(2.9, width=4.6, margins=(0.95, 0.1, 0.5, 0.35))
    ax = figure.subplots()
    paired = len(standard) == len(merged)
    order = np.argsort(standard + 0 * merged if paired else standard, kind="stable")
    x = np.arange(1, len(standard) + 1)
    if paired:
        ax.vlines(x, merged[order], standard[order], color=GREY, lw=0.9, zorder=1)
        merged = merged[order]
    _dots(ax, x, standard[order], ORANGE, "s", "standard NMF")
    _dots(ax, np.arange(1, len(merged) + 1), merged, CRIMSON, "o", "NMF-Merge")
    ax.set(xlabel="start, in the order of standard NMF's error", ylabel="fitting error (%)")
    ax.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(5))
    ax.ticklabel_format(axis="y", useOffset=False)  # errors that nearly agree are written in full
    tidy(ax)
    figure.legend(loc="upper center", ncols=2, fontsize=SMALL, frameon=False)
    return figure


def _dots(
    ax: Axes, x: np.ndarray, errors: np.ndarray, colour: str, marker: str, label: str
) -> None:
    ax.plot(x, errors, marker, color=colour, ms=5, ls="", label=label, zorder=2)
