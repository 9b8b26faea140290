"""A path through all ranks: what the rank is judged by, with the assessed rank marked."""

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nmfmerge.plot.style import (
    BLUE,
    CRIMSON,
    GREEN,
    GREY,
    ORANGE,
    logarithmic,
    new_figure,
    remark,
    tidy,
)

if TYPE_CHECKING:
    from nmfmerge.results.assessment import Assessment
    from nmfmerge.results.rank_path import RankPath

_PANEL = 1.75  # inches


def rank_path(path: "RankPath", rank: int | None = None) -> Figure:
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
        Fitting error and merge penalty on logarithmic scales, structure of the residual, stability
        and held-out error where they were measured; a vertical line at the rank of the assessment,
        or a band over its range.
    """
    curves = [("fitting error (%)", path.fitting_errors, CRIMSON, "o")]
    curves.append(("merge penalty (%)", path.penalties, BLUE, "s"))
    if not np.isnan(path.structure).all():
        curves.append(("structure left", path.structure, GREEN, "^"))
    if not np.isnan(path.stability).all():
        curves.append(("stability", path.stability, ORANGE, "D"))
    if not np.isnan(path.held_out).all():
        curves.append(("held-out error (%)", path.held_out, CRIMSON, "v"))
    assessment, limits = path.assess(), path.evidence().thresholds
    thresholds = {"structure left": limits["structure"], "stability": limits["stability"]}
    figure = new_figure(0.95 + _PANEL * len(curves), margins=(0.75, 0.15, 0.75, 0.25))
    axes = figure.subplots(len(curves), 1, sharex=True, squeeze=False)[:, 0]
    for ax, (label, values, colour, marker) in zip(axes, curves, strict=True):
        mark_assessed(ax, assessment)
        _draw_curve(ax, path.ranks, values, colour, marker, rank)
        ax.set_ylabel(label)
        if label == "held-out error (%)":
            ax.errorbar(path.ranks, values, path.held_out_error, fmt="none", ecolor=colour, lw=1.1)
            values = np.append(values, values + path.held_out_error)  # bars end within the axes
        if label in thresholds:
            ax.axhline(thresholds[label], color=GREY, lw=0.9, ls=":", zorder=0)
        if label == "stability":
            ax.set_ylim(0, 1.12)
        else:
            _logarithmic(ax, values)
        tidy(ax)
    axes[-1].set_xlabel("rank")
    axes[-1].xaxis.set_major_locator(MaxNLocator(16, integer=True, min_n_ticks=1))
    axes[-1].set_xlim(path.ranks[0] - 0.6, path.ranks[-1] + 0.6)
    remark(figure, _note(assessment, path, rank))
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


def mark_assessed(ax: Axes, assessment: "Assessment") -> None:
    """Mark the rank of the assessment, or its range."""
    low, rank, high = assessment.low, assessment.rank, assessment.high
    if low is None or rank is None or high is None:
        return
    if assessment.finding == "range":
        ax.axvspan(low - 0.3, high + 0.3, color=GREY, alpha=0.2, lw=0, zorder=0, gid="assessed")
    else:
        ax.axvline(rank, color=GREY, lw=1.4, zorder=0, gid="assessed")


def _note(assessment: "Assessment", path: "RankPath", rank: int | None) -> str:
    sure = f"{assessment.confidence} confidence"
    if assessment.low is None:
        note = "No rank stands out."
    elif assessment.finding == "range":
        note = f"Band: ranks {assessment.low} to {assessment.high} ({sure})."
    else:
        note = f"Line: rank {assessment.rank} ({sure})."
    return note + f" Ring: rank {rank}." * (rank in path)
