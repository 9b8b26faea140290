"""Usages of programmes: on a map of the cells, and by sample."""

from collections.abc import Sequence

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from nmfmerge.plot.style import (
    BLUE,
    INK,
    SMALL,
    TEXT,
    WIDTH,
    new_figure,
    no_spines,
    shortened,
    tidy,
)

_ACROSS = 4  # maps beside one another
_CELLS = 3000.0  # points are smaller where there are more cells
_USAGE = LinearSegmentedColormap.from_list("usage", ["#e4e6ea", "#9dbad6", BLUE, "#0c2440"])


def usage_maps(
    coordinates: np.ndarray, usages: np.ndarray, names: Sequence[object] | None = None
) -> Figure:
    """Draw the usage of each programme on a map of the cells.

    Parameters
    ----------
    coordinates : array (cells, 2)
        Where each cell is, such as ``adata.obsm["X_umap"]``.
    usages : array (cells, programmes)
        Usages that add up to one in each cell.
    names : sequence, optional
        Of the programmes; default: 1, 2, ….

    Returns
    -------
    Figure
        One map for each programme, cells that use it most on top.
    """
    n = usages.shape[1]
    names = names or range(1, n + 1)
    across = min(_ACROSS, n)
    down = -(-n // across)
    side = WIDTH / _ACROSS
    figure = new_figure(down * side * 1.12 + 0.55)
    axes = figure.subplots(down, _ACROSS, squeeze=False)
    size = float(np.clip(4 * _CELLS / max(1, len(usages)), 0.3, 9))
    for ax, k in zip(axes.flat, range(down * _ACROSS), strict=True):
        no_spines(ax)
        if k >= n:
            ax.set_visible(False)
            continue
        order = np.argsort(usages[:, k], kind="stable")
        points = ax.scatter(
            *coordinates[order].T, c=usages[order, k], s=size, cmap=_USAGE, vmin=0, vmax=1,
            linewidths=0, rasterized=True,
        )  # fmt: skip
        ax.set_title(f"programme {shortened(names[k])}", fontsize=TEXT, color=INK)
        ax.set_box_aspect(1)
    bar = figure.colorbar(
        points, ax=axes, location="bottom", fraction=0.25 / (down * side), aspect=40, shrink=0.5
    )
    bar.set_label("usage", size=SMALL, color=INK)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=SMALL, length=2, labelcolor=INK)
    return figure


def sample_usages(
    means: np.ndarray, samples: Sequence[object], names: Sequence[object] | None = None
) -> Figure:
    """Draw how much each sample uses each programme.

    Parameters
    ----------
    means : array (samples, programmes)
        Mean usages.
    samples : sequence
        Names of the samples.
    names : sequence, optional
        Of the programmes; default: 1, 2, ….

    Returns
    -------
    Figure
        A bar for each sample, cut into the mean usages of the programmes, in percent.
    """
    m, n = means.shape
    names = names or range(1, n + 1)
    figure = new_figure(0.9 + 0.28 * m + 0.2 * -(-n // 8))
    ax = figure.subplots()
    left = np.zeros(m)
    for k in range(n):
        ax.barh(np.arange(m), 100 * means[:, k], left=100 * left, height=0.8, color=_colour(k),
                edgecolor="white", linewidth=0.6, label=shortened(names[k]))  # fmt: skip
        left += means[:, k]
    ax.set_yticks(np.arange(m), [shortened(sample) for sample in samples])
    ax.invert_yaxis()
    ax.set_xlim(0, 100)
    ax.set_xlabel("mean usage (%)")
    tidy(ax)
    bars, texts = ax.get_legend_handles_labels()
    across = min(n, 10)
    order = [k for column in range(across) for k in range(column, n, across)]  # legends go down
    figure.legend(
        [bars[k] for k in order], [texts[k] for k in order],
        loc="outside lower center", ncols=across, fontsize=SMALL, frameon=False,
        title="programme", title_fontsize=SMALL, handlelength=1, handleheight=1,
    )  # fmt: skip
    return figure


def _colour(k: int) -> str:
    """A colour for each programme; they repeat after twelve."""
    return _COLOURS[k % len(_COLOURS)]


_COLOURS = (
    "#23598c", "#e69138", "#3a8f5c", "#b3263e", "#8566ad", "#8c6239",
    "#62b0d9", "#f2c45a", "#8fc98b", "#e58a94", "#c3b1dc", "#8a8a8a",
)  # fmt: skip
