"""
Mutation signatures
===================

A tumour's mutations are counted in 96 channels: six kinds of substitution, each with its two
neighbouring bases. Every mutational process has a signature over the 96 channels (a column of W)
and an activity in each tumour (a row of H). **Which processes were at work, and in which tumours?**
From a table of counts to signatures and activities.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from nmfmerge import export, io, metrics, nmf, nmf_merge, plot

folder = Path(tempfile.mkdtemp())

# %%
# A file
# ------
#
# Six invented signatures; one is flat and others overlap, which makes them hard to find, as in real
# tumours. Counts are Poisson. The table has the layout of the catalogues: channels × tumours, with
# their names.

kinds = ["C>A", "C>G", "C>T", "T>A", "T>C", "T>G"]
channels = [
    f"{left}[{kind}]{right}"
    for kind in kinds
    for left in "ACGT"
    for right in "ACGT"
]
n_tumours, r = 120, 6
rng = np.random.default_rng(4)


def signature(shape, *weights):
    """Random parts of the channels, more of some substitutions."""
    return rng.gamma(shape, 1.0, 96) * np.repeat(weights, 16)


signatures = np.stack(
    [
        signature(8.0, 1, 1, 1, 1, 1, 1),  # flat
        signature(0.2, 1, 1, 1, 1, 1, 1),
        signature(0.3, 0, 0, 1, 0, 0.1, 0),
        signature(0.5, 1, 0.1, 0.1, 0.2, 0, 0),
        signature(0.5, 0.1, 1, 1, 0, 0, 0.1),
        signature(1.0, 0, 0, 0.2, 0.2, 1, 1),
    ],
    axis=1,
)
signatures /= signatures.sum(axis=0)
activities = rng.lognormal(7.0, 0.8, (r, n_tumours))
activities *= rng.random((r, n_tumours)) < 0.5
activities[0] = rng.lognormal(6.5, 0.5, n_tumours)  # in every tumour
pd.DataFrame(
    rng.poisson(signatures @ activities),
    index=pd.Index(channels, name="channel"),
    columns=[f"tumour {i}" for i in range(1, n_tumours + 1)],
).to_csv(folder / "counts.csv")

# %%
# Read and fit
# ------------
#
# The squared error trusts large counts too much. The likelihood of Poisson counts is the
# Kullback–Leibler loss, so that is the one to fit.

data = io.read(folder / "counts.csv", rows="channel", columns="tumour")
loss = {"beta_loss": "kullback-leibler"}
result = nmf_merge(data.X, r, **loss)
print(result)

# %%
# Look
# ----
#
# The bars show the most specific names: here the channels and the tumours of each signature.

plot.components(result, data, which=range(3))

# %%
# The usual figure of this field, with the true signatures as dots:

order, cosine = metrics.match_components(signatures, result.W)
found = result.W[:, order] / result.W[:, order].sum(axis=0)
colours = ["#4c9ed9", "#333333", "#d9483b", "#a8a8a8", "#7fb069", "#d99ab5"]
fig, axes = plt.subplots(
    r, 1, figsize=(7.4, 7), sharex=True, layout="constrained"
)
for i, ax in enumerate(axes):
    ax.bar(range(96), 100 * found[:, i], color=np.repeat(colours, 16))
    ax.plot(100 * signatures[:, i], ".", color="k", ms=3)
    ax.set(xlim=(-1, 96), title=f"signature {i + 1}, cosine {cosine[i]:.3f}")
axes[-1].set_xticks(np.arange(8, 96, 16) - 0.5, kinds)
fig.supxlabel("substitution, in 16 contexts each")
fig.supylabel("share of the mutations (%)")

# %%
# Activities: true against found, one point per tumour. The flat signature is recovered worst: other
# signatures absorb a part of it, and its activities are too low.

scale = result.W[:, order].sum(axis=0)
fig, axes = plt.subplots(2, 3, figsize=(7, 4.4), layout="constrained")
for i, ax in enumerate(axes.flat):
    true = activities[i] / 1000
    ax.axline((0, 0), slope=1, color="0.7", lw=1, zorder=0)
    ax.plot(true, result.H[order[i]] * scale[i] / 1000, ".", color=f"C{i}")
    ax.set_title(f"signature {i + 1}")
fig.supxlabel("true activity (thousand mutations)")
fig.supylabel("found")

# %%
# Export
# ------
#
# Tables with the names of channels and tumours; ``tables="xlsx"`` would write them for Excel.

export.write(result, data, folder / "signatures")
print(*sorted(f.name for f in (folder / "signatures").iterdir()), sep="\n")
table = pd.read_csv(folder / "signatures" / "W.csv", index_col=0)
print("\n" + table.iloc[:4, :4].round(1).to_string())

# %%
# Against standard NMF
# --------------------
#
# Both methods get the same starts. We compare the error, and the cosine of the signature that is
# recovered worst.

standard, merged = [], []
for seed in range(20):
    start = {"init": "random", "random_state": seed, **loss}
    standard.append(nmf(data.X, r, **start))
    merged.append(nmf_merge(data.X, r, n_init=1, **start))

for name, answers in ("standard", standard), ("NMF-Merge", merged):
    errors = [f.fitting_error for f in answers]
    least = [
        metrics.match_components(signatures, f.W)[1].min() for f in answers
    ]
    print(
        f"{name:<10} error {min(errors):.4f} to {max(errors):.4f} %,"
        f" least cosine {min(least):.3f} to {max(least):.3f}"
    )

# %%
# All starts give the same result, so there is nothing to gain from merging here.
