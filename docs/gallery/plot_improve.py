"""
Improve a solution you already have
===================================

You have factors from another program, and figures that use them. **Is there a better answer
nearby, and what changes?** Give the factors to `nmf_merge` as its start. Here they come from
scikit-learn.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import NMF

from nmfmerge import datasets, metrics, nmf, nmf_merge

data = datasets.lcms_like(
    n_mz=200, n_scans=300, n_compounds=12, random_state=1
)
X, r = data.X, data.n_components

# %%
# Ten solutions by scikit-learn, from ten random starts, with its default tolerance. (We chose a run
# on which the starts disagree; on others there is less to improve.) Part of any gain comes from
# more iterations, so we continue each solution in three ways: `nmf` to convergence,
# `nmf_merge` directly, and `nmf_merge` from the converged solution. Only the last isolates the
# effect of merging.

olds, converged, at_once, after = [], [], [], []
for seed in range(10):
    model = NMF(r, init="random", max_iter=5000, random_state=seed)
    W_old = model.fit_transform(X)
    olds.append((W_old, model.components_))
    converged.append(nmf(X, r, init=olds[-1]))
    at_once.append(nmf_merge(X, r, init=olds[-1], n_init=1))
    after.append(
        nmf_merge(X, r, init=(converged[-1].W, converged[-1].H), n_init=1)
    )

errors = np.array(
    [
        [metrics.fitting_error(X, W, H) for W, H in olds],
        *(
            [f.fitting_error for f in answers]
            for answers in (converged, at_once, after)
        ),
    ]
)
print(
    "fitting error (%)  scikit-learn       nmf  merge at once  merge after nmf"
)
for seed, row in enumerate(errors.T):
    print(
        f"solution {seed} {row[0]:>20.4f} {row[1]:>9.4f}"
        f" {row[2]:>14.4f} {row[3]:>16.4f}"
    )
for name, row in (("at once", errors[2]), ("after nmf", errors[3])):
    gain = errors[1] - row
    print(
        f"nmf_merge {name} against nmf: lower by more than 0.001 points from "
        f"{np.sum(gain > 1e-3)} of {len(gain)},"
        f" higher from {np.sum(gain < -1e-3)}"
    )

# %%
# So let a solution converge before you try to improve it: an apparent local optimum may be an early
# stop. If the last step is level, merging found nothing better.

fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
gain = errors[1] - errors[3]
for column, better in zip(errors[[0, 1, 3]].T, gain > 1e-3, strict=True):
    ax.plot(column, "o-", color="C3" if better else "0.6", ms=5)
ax.set(
    xticks=[0, 1, 2],
    xticklabels=["scikit-learn", "nmf", "nmf_merge after it"],
    xlim=(-0.3, 2.3),
    ylabel="fitting error (%)",
    title="Ten solutions, and what became of them",
)

# %%
# What changed
# ------------
#
# Take the solution that improved most, and match its converged components with the new ones. A
# cosine near 1 means the same component; a low one is new.

pick = int(np.argmax(gain))
W_old, H_old, better = converged[pick].W, converged[pick].H, after[pick]
order, cosine = metrics.match_components(W_old, better.W)
changed = int(np.argmin(cosine))
truth_old = metrics.match_components(data.W, W_old)[1]
truth_new = metrics.match_components(data.W, better.W)[1]
print(
    f"solution {pick}: {np.sum(cosine > 0.95)} of {r} components are as before"
)
print(
    f"compounds found: {np.sum(truth_old > 0.95)} before,"
    f" {np.sum(truth_new > 0.95)} after"
)
print(better)

fig, (left, right) = plt.subplots(1, 2, figsize=(7, 3.2), layout="constrained")
left.bar(range(r), cosine, color=["C3" if c < 0.95 else "0.7" for c in cosine])
left.set(
    xlabel="component", ylabel="cosine, old with new", xticks=range(0, r, 2)
)
for h, w, name, colour in (
    (H_old[changed], W_old[:, changed], "before", "C1"),
    (better.H[order[changed]], better.W[:, order[changed]], "after", "C3"),
):
    right.plot(h * np.linalg.norm(w), color=colour, label=name, lw=1.3)
right.set(xlabel="scan", ylabel="intensity", title=f"component {changed}")
right.legend()
plt.show()
