"""
Merge by hand, with a merge tree
================================

You are not sure of the number of components. **How many are needed, and what is lost by removing
each?** Fit too many, merge them one pair at a time, and look at the cost of each merge. The merge
uses only W and H, so its time is negligible.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.cluster.hierarchy import dendrogram

from nmfmerge import datasets, merge_components, metrics, nmf

data = datasets.gaussian_features(8)
rng = np.random.default_rng(0)
X = np.maximum(data.X + 0.02 * rng.standard_normal(data.X.shape), 0)
print(f"{data.n_components} true features, X is {X.shape[0]} × {X.shape[1]}")

# %%
# Fit 14 components, 6 too many, and merge them down to one.

many = nmf(X, 14, init="random", random_state=1)
_, _, tree = merge_components(many.W, many.H)
for (i, j), penalty in zip(tree.pairs, tree.penalties, strict=True):
    left = f"{i:>2} + {j:>2}"
    print(
        f"{left}  penalty {penalty:10.4f}"
        f" = {100 * penalty / np.sum(X**2):8.4f} % of ‖X‖²"
    )

# %%
# The penalty is the squared distance by which the merge moves WH. The first merges join parts of one
# feature and are cheap. Then the penalty jumps: the following merges would join real features.

ranks = tree.n_leaves - 1 - np.arange(len(tree.penalties))
fig, (left, right) = plt.subplots(
    1, 2, figsize=(7.4, 3.4), layout="constrained"
)
left.semilogy(ranks, tree.penalties, "o-", color="C3")
left.axvline(data.n_components - 0.5, color="0.7", ls="--", lw=1)
left.text(data.n_components - 0.7, 1, "true number: 8", color="0.4")
left.set(
    xlabel="components left after the merge",
    ylabel="penalty of the merge",
    xticks=range(1, 14, 2),
)
left.invert_xaxis()
dendrogram(
    tree.to_linkage(),
    ax=right,
    color_threshold=0,
    above_threshold_color="0.3",
    leaf_font_size=8,
)
right.set(xlabel="component", ylabel="√ penalty, so far", title="Merge tree")

# %%
# Stop at a penalty
# -----------------
#
# ``max_penalty`` stops before the first merge that costs more. Then polish: merged factors are a
# good start, not a solution.

limit = np.sqrt(
    tree.penalties[5] * tree.penalties[6]
)  # in the middle of the jump, as seen above
W, H, short = merge_components(many.W, many.H, max_penalty=limit)
r = H.shape[0]
polished = nmf(X, r, init=(W, H))
direct = nmf(X, r, init="random", random_state=1)
print(f"{short}: {r} components left")
print(f"14 components        {many.fitting_error:.4f} %")
print(f"merged to {r}          {metrics.fitting_error(X, W, H):.4f} %")
print(f"polished             {polished.fitting_error:.4f} %")
print(
    f"NMF of rank {r} at once {direct.fitting_error:.4f} %, from the same seed"
)

# %%
# Replay
# ------
#
# A tree records the merges. You can replay it, down to any number of components in it, on these
# factors or on others with the same components, such as H of a repeated measurement.

W9, H9 = tree.replay(many.W, many.H, 9)
print(f"replayed to 9: error {metrics.fitting_error(X, W9, H9):.4f} %")

order, cosine = (
    metrics.match_components(data.W, polished.W)
    if r == 8
    else (np.arange(r), None)
)
fig, axes = plt.subplots(
    1, 3, figsize=(7.4, 3), sharey=True, layout="constrained"
)
for ax, (title, factor) in zip(
    axes,
    {
        "14 components": many.W,
        f"merged to {r}": W,
        "polished": polished.W[:, order],
    }.items(),
    strict=True,
):
    peaks = np.argsort(np.argmax(factor, axis=0), kind="stable")
    ax.imshow(
        factor[:, peaks] / factor.max(axis=0)[peaks],
        aspect="auto",
        cmap="magma",
        interpolation="nearest",
    )
    ax.set(title=title, xlabel="component, sorted")
axes[0].set_ylabel("row of W")
plt.show()
