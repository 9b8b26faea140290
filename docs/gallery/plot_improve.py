"""
Improve a solution you already have
===================================

You have factors from another program, and figures made of them. **Is there a better answer near
by, and what changes?** Give the factors to `nmf_merge` as its start. Here they come from
scikit-learn.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import NMF

from nmfmerge import datasets, metrics, nmf_merge

data = datasets.lcms_like(n_mz=200, n_scans=300, n_compounds=12, random_state=1)
X, r = data.X, data.n_components

# %%
# Ten solutions by scikit-learn, from ten random starts, with a tolerance a tenth of its default.

olds, betters = [], []
for seed in range(10):
    model = NMF(r, init="random", tol=1e-5, max_iter=2000, random_state=seed)
    W_old = model.fit_transform(X)
    olds.append((W_old, model.components_))
    betters.append(nmf_merge(X, r, init=olds[-1]))

before = np.array([metrics.fitting_error(X, W, H) for W, H in olds])
after = np.array([f.fitting_error for f in betters])
for seed in range(10):
    print(f"solution {seed}: {before[seed]:.4f} % → {after[seed]:.4f} %")
gain = before - after
print(
    f"\nlower by more than 0.001 points: {np.sum(gain > 1e-3)} of {len(gain)}; "
    f"higher: {np.sum(gain < -1e-3)}"
)

# %%
# Where a line is level, nothing better was found: the solution is good already, or it is in a trap
# that this merge does not leave.

fig, ax = plt.subplots(figsize=(5, 3.4), layout="constrained")
for x, y in zip(before, after, strict=True):
    ax.plot([0, 1], [x, y], "o-", color="C3" if x - y > 1e-3 else "0.6", ms=5)
ax.set(
    xticks=[0, 1],
    xticklabels=["scikit-learn", "after nmf_merge"],
    xlim=(-0.3, 1.3),
    ylabel="fitting error (%)",
    title="Ten solutions, before and after",
)

# %%
# What changed
# ------------
#
# Match the old components with the new. A cosine near 1 is the same component; a low one is new.

pick = int(np.argmax(gain))
(W_old, H_old), better = olds[pick], betters[pick]
order, cosine = metrics.match_components(W_old, better.W)
changed = int(np.argmin(cosine))
truth_old = metrics.match_components(data.W, W_old)[1]
truth_new = metrics.match_components(data.W, better.W)[1]
print(f"solution {pick}: {np.sum(cosine > 0.95)} of {r} components are as before")
print(f"compounds found: {np.sum(truth_old > 0.95)} before, {np.sum(truth_new > 0.95)} after")
print(better)

fig, (left, right) = plt.subplots(1, 2, figsize=(7, 3.2), layout="constrained")
left.bar(range(r), cosine, color=["C3" if c < 0.95 else "0.7" for c in cosine])
left.set(xlabel="component", ylabel="cosine, old with new", xticks=range(0, r, 2))
for h, w, name, colour in (
    (H_old[changed], W_old[:, changed], "before", "C1"),
    (better.H[order[changed]], better.W[:, order[changed]], "after", "C3"),
):
    right.plot(h * np.linalg.norm(w), color=colour, label=name, lw=1.3)
right.set(xlabel="scan", ylabel="intensity", title=f"component {changed}")
right.legend()
plt.show()
