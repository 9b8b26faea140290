"""The merge tree of a solution as a drawing in HTML."""

from collections.abc import Sequence
from html import escape

import numpy as np

from nmfmerge.losses.merging import MergeTree
from nmfmerge.plot.merges import leaf_order

_WIDTH, _LINE = 300, 15


def tree_drawing(tree: MergeTree, names: Sequence[str], size: float, unit: str = "‖WH‖²") -> str:
    """Brackets that join components, the cheaper the merge the further left.

    Parameters
    ----------
    tree : MergeTree
        Merges of all components.
    names : sequence of str
        Names of the components.
    size : float
        Size of what penalties are compared with.
    unit : str
        Its name.
    """
    if len(tree.pairs) == 0:
        return ""
    leaves = leaf_order(tree)
    left = 110
    height = np.sqrt(np.maximum.accumulate(tree.penalties) / (size or 1.0))
    top = float(height[-1]) or 1.0
    x = dict.fromkeys(leaves, float(left))
    y = {leaf: _LINE * (place + 0.5) for place, leaf in enumerate(leaves)}
    parts = [
        f'<text x="{left - 6}" y="{y[leaf] + 4}">{escape(_short(names[leaf]))}</text>'
        for leaf in leaves
    ]
    for t, (i, j) in enumerate(tree.pairs.tolist()):
        node = tree.n_leaves + t
        x[node] = left + (_WIDTH - left - 8) * float(height[t]) / top
        y[node] = (y[i] + y[j]) / 2
        text = f"penalty: {100 * height[t] ** 2:.2g} % of {unit}"
        parts.append(
            f'<path d="M{x[i]:.1f} {y[i]:.1f}H{x[node]:.1f}V{y[j]:.1f}H{x[j]:.1f}">'
            f"<title>{text}</title></path>"
        )
    box = f"0 0 {_WIDTH} {_LINE * len(leaves) + 4}"
    return (
        f'<h3>Merge tree</h3><svg class="tree" viewBox="{box}" role="img" '
        f'aria-label="Merge tree">{"".join(parts)}</svg><p class="hint">What merging would join, '
        f"cheapest on the left; the penalty of the last merge is {100 * top**2:.2g} % of {unit}."
        "</p>"
    )


def _short(name: str) -> str:
    return name if len(name) <= 16 else name[:15] + "…"
