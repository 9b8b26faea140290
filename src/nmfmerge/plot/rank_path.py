"""A path through all ranks: error, merge penalty and stability, with the suggestions marked."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nmfmerge.plot.style import (
    BLUE,
    CRIMSON,
    GREY,
    NOTE,
    ORANGE,
    SMALL,
    logarithmic,
    new_figure,
    remark,
    tidy,
)
from nmfmerge.result_path import RankPath
from nmfmerge.suggest import STABLE

_PANEL = 1.75  # inches


def rank_path(path: RankPath, rank: int | None = None) -> Figure:
    """Draw what speaks for each rank.

    Parameters
    ----------
    path : RankPath
        From `nmfmerge.rank_path`.
    rank : int, optional
        A rank to mark, for example the one that was taken.

    Returns
    -------
    Figure
        Fitting error and merge penalty on logarithmic scales, stability where it was measured;
        vertical lines at the suggested ranks, the first of them solid.
    """
    curves = [("fitting error (%)", path.fitting_errors, CRIMSON, "o")]
    curves.append(("merge penalty (%)", path.penalties, BLUE, "s"))
    if not np.isnan(path.stability).all():
        curves.append(("stability", path.stability, ORANGE, "D"))
    figure = new_figure(0.95 + _PANEL * len(curves), margins=(0.75, 0.15, 0.75, 0.25))
    axes = figure.subplots(len(curves), 1, sharex=True, squeeze=False)[:, 0]
    for ax, (label, values, colour, marker) in zip(axes, curves, strict=True):
        _mark_suggestions(ax, path)
        _draw_curve(ax, path.ranks, values, colour, marker, rank)
        ax.set_ylabel(label)
        if label == "stability":
            ax.axhline(STABLE, color=GREY, lw=0.9, ls=":", zorder=0)
            ax.set_ylim(0, 1.12)
        else:
            _logarithmic(ax, values)
        tidy(ax)
    _name_suggestions(axes[0], path)
    axes[-1].set_xlabel("rank")
    axes[-1].xaxis.set_major_locator(MaxNLocator(16, integer=True, min_n_ticks=1))
    axes[-1].set_xlim(path.ranks[0] - 0.6, path.ranks[-1] + 0.6)
    remark(figure, _note(path, rank))
    return figure


def _draw_curve(
    ax: Axes, ranks: np.ndarray, values: np.ndarray, colour: str, marker: str, rank: int | None
) -> None:
    ax.plot(ranks, values, "-", color=colour, lw=1.3, zorder=2)
    ax.plot(ranks, values, marker, color=colour, ms=4.5, zorder=3)
    here = ranks == rank
    ax.plot(ranks[here], values[here], "o", mfc="none", mec=colour, ms=12, mew=1.4, zorder=3,
            gid="chosen")  # fmt: skip


def _logarithmic(ax: Axes, values: np.ndarray) -> None:
    """A logarithmic scale, where there is something to draw on it."""
    drawn = values[np.isfinite(values) & (values > 0)]
    if len(drawn):
        logarithmic(ax, "y", float(drawn.min()), float(drawn.max()))
        ax.set_ylim(drawn.min() / 1.6, drawn.max() * 1.6)


def _mark_suggestions(ax: Axes, path: RankPath) -> None:
    for i, suggestion in enumerate(path.suggest()):
        ax.axvline(suggestion.rank, color=GREY, lw=1.4 if i == 0 else 0.9, zorder=0,
                   ls="-" if i == 0 else "--", gid="suggestion")  # fmt: skip


def _name_suggestions(ax: Axes, path: RankPath) -> None:
    for suggestion in path.suggest():
        ax.annotate(str(suggestion.rank), (suggestion.rank, 1), xycoords=("data", "axes fraction"),
                    xytext=(0, 3), textcoords="offset points", ha="center", va="bottom",
                    fontsize=SMALL, color=NOTE)  # fmt: skip


def _note(path: RankPath, rank: int | None) -> str:
    suggestions = path.suggest()
    if suggestions:
        first = suggestions[0]
        note = f"Solid line: rank {first.rank}, suggested with {first.confidence} confidence."
        note += " Dashed: other candidates." * (len(suggestions) > 1)
    else:
        note = "No rank is suggested."
    return note + f" Ring: rank {rank}." * (rank in path)
