"""
Some spectra are known
======================

A library has the spectra of some compounds of a mixture, but not of all. **How much of
the known ones is there, and what are the others?** Hold the known spectra, and fit everything else.
"""

import matplotlib.pyplot as plt
import numpy as np

from nmfmerge import (
    datasets,
    metrics,
    nmf_merge,
    recover_components,
    transform,
)

data = datasets.lcms_like()
X, r, n_known = data.X, len(data.H), 5
library = data.W[
    :, :n_known
]  # spectra are columns of W here: the rows of X are m/z

# %%
# The known ones alone
# --------------------
#
# `transform` computes how much of each known spectrum is in every scan. It solves for W with H
# given, so X and the library are transposed. The known spectra must also explain the other
# compounds, so their weights are too high.

alone = transform(X.T, library.T).T
error = metrics.fitting_error(X, library, alone)
print(f"known spectra alone: fitting error {error:.1f} %")

# %%
# The unknown rest
# ----------------
#
# `recover_components` adds the missing components, and `nmf_merge` fits all of them while it holds
# the known columns of W: these stay unchanged, to the bit.

hold = {"W": range(n_known)}
W, H, _ = recover_components(X, library, alone, r - n_known, hold=hold)
result = nmf_merge(X, r, init=(W, H), hold=hold)
print(f"with {r - n_known} more: fitting error {result.fitting_error:.2f} %")
assert np.array_equal(result.W[:, :n_known], library)

order, similarity = metrics.match_components(data.W, result.W)
found = np.sum(similarity[n_known:] > 0.9)
print(f"unknown spectra found (cosine above 0.9): {found} of {r - n_known}")

# %%
# Amounts over time
# -----------------
#
# Alone, the known spectra absorb the signal of other compounds. With the others fitted, their
# chromatograms match the true ones.

fig, axes = plt.subplots(
    n_known, 1, figsize=(7.5, 1.3 * n_known), sharex=True, layout="constrained"
)
for k, ax in enumerate(axes):
    ax.plot(
        data.columns.values,
        alone[k],
        color="#8a8a8a",
        lw=1,
        label="known spectra alone",
    )
    ax.plot(
        data.columns.values,
        result.H[k],
        color="#e69138",
        lw=1.6,
        label="with the rest fitted",
    )
    ax.plot(
        data.columns.values,
        data.H[k],
        color="#262626",
        lw=0.9,
        ls="--",
        label="truth",
    )
    ax.set_ylabel(f"compound {k + 1}", fontsize=8.5)
    ax.set_yticks([])
    ax.spines[["top", "right"]].set_visible(False)
axes[0].legend(
    fontsize=8.5,
    frameon=False,
    ncols=3,
    loc="lower right",
    bbox_to_anchor=(1, 1),
)
axes[-1].set_xlabel(data.columns.label)
plt.show()
