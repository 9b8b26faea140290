"""The merges: the dendrogram, and the penalty of each merge, done and still possible."""

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nmfmerge.losses import LOSSES
from nmfmerge.losses.merging import MergeTree
from nmfmerge.metrics import next_merges
from nmfmerge.plot.style import (
    CRIMSON,
    GREY,
    INK,
    SMALL,
    logarithmic,
    new_figure,
    remark,
    tidy,
    words,
)

if TYPE_CHECKING:
    from nmfmerge.results.factorization import Factorization

_ZERO = 1e-14  # percent; below, a penalty is rounding


def merges(result: "Factorization") -> Figure:
    """Draw the dendrogram of the merges beside the curve of their penalties.

    Parameters
    ----------
    result : Factorization
        A run of `nmf_merge`.

    Returns
    -------
    Figure
        Left, who was joined with whom; components that were recovered are named +1, +2, ….
        Right, what each merge cost, and what further merges of the result would cost.
        A sentence instead where nothing was merged.
    """
    result = result.numpy()
    tree = result.merges
    if tree is None or len(tree.pairs) == 0:
        return words("No components were merged in this run.")
    size2 = result.penalty_size or 1.0
    if not (np.isfinite(size2) and np.isfinite(tree.penalties).all()):
        return words("The penalties of these merges are too large for numbers.")
    leaves = [leaf for leaf in leaf_order(tree) if leaf in tree.pairs]
    figure = new_figure(max(3.4, 1.3 + 0.17 * len(leaves)), margins=(0.62, 0.15, 0.75, 0.62))
    left, right = figure.subplots(1, 2, gridspec_kw={"wspace": 0.28})
    _draw_tree(left, result, leaves, size2)
    _draw_penalties(right, tree, result, size2)
    if len(leaves) < tree.n_leaves:
        remark(
            figure,
            f"Not in the dendrogram: {tree.n_leaves - len(leaves)} of {tree.n_leaves} components, "
            "which were not merged.",
        )
    return figure


def leaf_names(result: "Factorization") -> list[str]:
    """Names of the components before the merges: 1, 2, … and, recovered ones, +1, +2, …."""
    assert result.merges is not None
    n_old = result.merges.n_leaves - len(result.generalized_singular_values)
    return [str(i + 1) if i < n_old else f"+{i - n_old + 1}" for i in range(result.merges.n_leaves)]


def leaf_order(tree: MergeTree) -> list[int]:
    """Leaves in an order in which no branches cross: merged ones first."""
    order: list[int] = []
    stack = list(tree.roots)
    while stack:
        node = stack.pop()
        if node < tree.n_leaves:
            order.append(node)
        else:
            stack.extend(reversed(tree.pairs[node - tree.n_leaves].tolist()))
    return order


def _draw_tree(ax: Axes, result: "Factorization", leaves: list[int], size2: float) -> None:
    """Brackets from leaves, on the left, to the merged components."""
    tree, names = result.merges, leaf_names(result)
    assert tree is not None
    place = {leaf: float(i) for i, leaf in enumerate(leaves)}
    height = dict.fromkeys(leaves, 0.0)
    percent = 100 * np.sqrt(np.maximum.accumulate(tree.penalties) / size2)
    for t, (i, j) in enumerate(tree.pairs.tolist()):
        node = tree.n_leaves + t
        place[node], height[node] = (place[i] + place[j]) / 2, float(percent[t])
        ax.plot(
            [height[i], percent[t], percent[t], height[j]],
            [place[i], place[i], place[j], place[j]],
            color=CRIMSON, lw=1.4, solid_joinstyle="miter",
        )  # fmt: skip
    for k, node in enumerate(result.merge_ids):
        if node >= tree.n_leaves:
            ax.annotate(result.label(k), (height[node], place[node]), xytext=(4, 0),
                        textcoords="offset points", va="center", fontsize=SMALL,
                        color=INK)  # fmt: skip
    top = float(percent.max(initial=0)) or 1.0
    ax.set(xlim=(0, 1.45 * top), ylim=(len(leaves) - 0.4, -0.6))
    ax.set(xlabel=f"change of WH ({result.words.change})", ylabel="component before merging")
    ax.set_yticks(np.arange(len(leaves)), [names[leaf] for leaf in leaves])
    ax.set_title("what was merged")
    tidy(ax)
    ax.tick_params(axis="y", labelsize=SMALL if len(leaves) <= 40 else 6)


def _draw_penalties(ax: Axes, tree: MergeTree, result: "Factorization", size2: float) -> None:
    done = 100 * tree.penalties / size2
    coming = 100 * next_merges(result.W, result.H, beta_loss=result.loss).penalties / size2
    floor = _floor(np.concatenate([done, coming]))
    n_done = tree.n_leaves - 1 - np.arange(len(done))
    n_coming = result.n_components - 1 - np.arange(len(coming))
    ax.plot(n_coming, np.maximum(coming, floor), "o-", color=GREY, ms=4, lw=0.8, mfc="white",
            label="further merges, not done")  # fmt: skip
    ax.plot(n_done, np.maximum(done, floor), "o-", color=CRIMSON, ms=5, lw=1.2, label="merges done")
    if floor > 0:
        high = float(max(done.max(initial=floor), coming.max(initial=floor)))
        logarithmic(ax, "y", floor, high)
    error = LOSSES[result.loss].level(result.fitting_error, result.objective, size2)
    if 0 < error < np.inf and error > floor:
        ax.axhline(error, color=INK, lw=0.9, ls="--", label=result.words.level)
    ax.set(xlabel="components after the merge", ylabel=f"penalty (% of {result.words.whole})")
    ax.set_title("what it cost")
    ax.invert_xaxis()
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    tidy(ax)
    ax.figure.legend(loc="upper right", ncols=3, fontsize=SMALL, frameon=False,
                     handlelength=1.6, columnspacing=1.2)  # fmt: skip


def _floor(values: np.ndarray) -> float:
    """Where zeros are drawn on a logarithmic axis; 0 if there is nothing else."""
    positive = values[values > _ZERO]
    return float(positive.min()) / 10 if len(positive) else 0.0
