"""A consensus: what the rank is judged by, and the components of all fits at one rank."""

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nmfmerge.plot.rank_path import mark_assessed
from nmfmerge.plot.style import (
    BLUE,
    CRIMSON,
    GREEN,
    INK,
    ORANGE,
    SMALL,
    how_many,
    new_figure,
    remark,
    tidy,
    words,
)

if TYPE_CHECKING:
    from nmfmerge.results.assessment import Assessment
    from nmfmerge.results.consensus import Consensus, RankConsensus

_MOST = 600  # components that are drawn one by one
_LITTLE = 0.5  # of the largest error: below it errors are drawn from zero


def consensus(result: "Consensus") -> Figure:
    """Draw the stability and the error of the fits against rank.

    Parameters
    ----------
    result : Consensus
        From `nmfmerge.consensus`.

    Returns
    -------
    Figure
        The silhouette of the components, mean and least; the share of fits that agree on all of
        them; the fitting error of the consensus, with those of the fits around it (middle half). A
        vertical line at the rank of the assessment, or a band over its range.
    """
    ranks, each = np.array(result.ranks), result.results
    figure = new_figure(5.6, margins=(0.75, 0.15, 0.75, 0.15))
    axes = figure.subplots(3, 1, sharex=True)
    assessment = result.assess()
    for ax in axes:
        mark_assessed(ax, assessment)
    _line(axes[0], ranks, [r.silhouette for r in each], BLUE, "o", "mean")
    _line(axes[0], ranks, [r.least_silhouette for r in each], ORANGE, "D", "least")
    axes[0].set(ylabel="silhouette", ylim=(min(0, *axes[0].get_ylim()), 1.06))
    axes[0].legend(frameon=False, fontsize=SMALL, loc="lower left")
    _line(axes[1], ranks, [100 * r.agreement for r in each], GREEN, "^")
    axes[1].set(ylabel="fits that agree (%)", ylim=(-4, 106))
    _line(axes[2], ranks, [r.fitting_error for r in each], CRIMSON, "o")
    low, high = np.array([np.percentile(r.errors, (25, 75)) for r in each]).T
    axes[2].fill_between(ranks, low, high, color=CRIMSON, alpha=0.18, lw=0)
    axes[2].set(ylabel="fitting error (%)", xlabel="rank", xlim=(ranks[0] - 0.6, ranks[-1] + 0.6))
    if low.min() < _LITTLE * high.max():  # else the curve would be flat
        axes[2].set_ylim(bottom=0)
    axes[2].xaxis.set_major_locator(MaxNLocator(16, integer=True, min_n_ticks=1))
    for ax in axes:
        tidy(ax)
    remark(figure, _note(assessment, max(r.n_fits for r in each)))
    return figure


def clustergram(result: "RankConsensus") -> Figure:
    """Draw the likeness of the components of all fits at one rank, sorted by cluster.

    Parameters
    ----------
    result : RankConsensus
        ``consensus[r]``.

    Returns
    -------
    Figure
        Cosines of all pairs of components: each component of the consensus is a block on the
        diagonal, outliers come last. Beside it the local densities, with the threshold above
        which a component is an outlier.
    """
    if result.components is None:
        return words("The components of all fits were not kept, as they would take much memory.")
    figure = new_figure(4.4, margins=(0.75, 0.2, 0.75, 0.25))
    left, right = figure.subplots(1, 2, width_ratios=(1.35, 1))
    _draw_cosines(figure, left, result)
    density = result.density.ravel()
    top = 1.05 * max(float(density.max()), result.density_threshold)
    right.hist(density, bins=np.linspace(0, top, 41), color=BLUE)
    right.axvline(result.density_threshold, color=CRIMSON, lw=1.2)
    right.set(xlabel="local density", ylabel="components", xlim=(0, top))
    right.set_yscale("symlog", linthresh=1)
    right.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    figure.subplots_adjust(wspace=0.42)
    tidy(right)
    left_out = how_many(result.n_outliers, "component") + " left out"
    remark(figure, f"{how_many(result.n_fits, 'fit')} of rank {result.n_components}; {left_out}.")
    return figure


def _draw_cosines(figure: Figure, ax: Axes, result: "RankConsensus") -> None:
    """The matrix of cosines; of many components, every so many of a cluster."""
    assert result.components is not None
    labels = np.where(result.labels < 0, result.n_components, result.labels).ravel()
    order = np.argsort(labels, kind="stable")
    order = order[:: -(-len(order) // _MOST)]
    F = result.components.reshape(len(labels), -1)[order]
    image = ax.imshow(F @ F.T, cmap="magma", vmin=0, vmax=1, interpolation="nearest")
    bounds = np.searchsorted(labels[order], np.arange(result.n_components + 2))
    names = [*(str(k + 1) for k in range(result.n_components)), "outliers"]
    shown = np.flatnonzero(np.diff(bounds))
    ax.set_yticks((bounds[shown] + bounds[shown + 1] - 1) / 2, [names[k] for k in shown])
    ax.set_xticks([])
    for bound in bounds[1:-1]:
        ax.axhline(bound - 0.5, color="white", lw=0.4)
        ax.axvline(bound - 0.5, color="white", lw=0.4)
    ax.set_ylabel("component")
    bar = figure.colorbar(image, ax=ax, fraction=0.045, pad=0.03)
    bar.set_label("cosine", color=INK, size=SMALL)
    bar.ax.tick_params(labelsize=SMALL)
    bar.outline.set_visible(False)
    tidy(ax)


def _line(
    ax: Axes, ranks: np.ndarray, values: list[float], colour: str, marker: str, label: str = ""
) -> None:
    ax.plot(ranks, values, "-", color=colour, lw=1.3, zorder=2)
    ax.plot(ranks, values, marker, color=colour, ms=4.5, zorder=3, label=label)


def _note(assessment: "Assessment", n_fits: int) -> str:
    fits = f"{n_fits} fits at each rank; band: the middle half of their errors."
    if assessment.low is None:
        return fits
    if assessment.finding == "range":
        return f"{fits} Grey: ranks {assessment.low} to {assessment.high}."
    return f"{fits} Grey line: rank {assessment.rank} ({assessment.confidence} confidence)."
