"""
Materials in a hyperspectral image
==================================

Every pixel of a hyperspectral image is a spectrum: a mixture of the spectra of the materials that
it shows. As a matrix, bands × pixels, the spectra of the materials are the columns of W and the
maps of how much of each there is are the rows of H. **What is there, and where?**
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter

from nmfmerge import metrics, nmf, nmf_merge

side, n_bands = 60, 150
names = ["soil", "water", "grass", "trees", "roofs", "road"]
r = len(names)

# %%
# An invented scene
# -----------------
#
# Smooth spectra with absorption dips, and smooth maps that sum to one in every pixel.

rng = np.random.default_rng(1)
band = np.linspace(400, 2400, n_bands)  # nm


def bump(centre, width):
    return np.exp(-0.5 * ((band - centre) / width) ** 2)


W_true = np.stack(
    [
        0.15 + 0.35 * (band - 400) / 2000 - 0.10 * bump(1900, 60) - 0.06 * bump(2200, 40),
        0.12 * bump(500, 200) + 0.01,
        0.05 + 0.08 * bump(550, 40) + 0.5 / (1 + np.exp(-(band - 720) / 15))
        - 0.25 * bump(1450, 90) - 0.33 * bump(1940, 110),
        0.03 + 0.04 * bump(550, 40) + 0.35 / (1 + np.exp(-(band - 720) / 15)) - 0.20 * bump(1450, 120)
        - 0.26 * bump(1940, 140) - 0.10 * bump(2300, 120),
        0.10 + 0.30 / (1 + np.exp(-(band - 600) / 30)) - 0.12 * bump(900, 120) + 0.1 * bump(1700, 200),
        0.12 + 0.05 * (band - 400) / 2000 + 0.03 * bump(1650, 300),
    ],
    axis=1,
)  # fmt: skip
W_true = np.maximum(W_true, 0.005)

fields = [gaussian_filter(rng.standard_normal((side, side)), 5).ravel() for _ in range(r)]
H_true = np.exp(5 * np.array([field / field.std() for field in fields]))
H_true /= H_true.sum(axis=0)
X = np.maximum(W_true @ H_true + 0.003 * rng.standard_normal((n_bands, side * side)), 0)

# %%
# From ten starts
# ---------------
#
# NMF of smooth, broad spectra is hard in a way that no better optimum mends: many pairs (W, H) fit
# alike, for a little of one spectrum may be moved into another. So look at both: the error, which
# is what is minimised, and the likeness to the truth.

seeds = range(10)
standard = [nmf(X, r, init="random", random_state=seed) for seed in seeds]
merged = [nmf_merge(X, r, init="random", random_state=seed) for seed in seeds]


def likeness(f):
    """Mean correlation of the true maps with the matched ones."""
    order, _ = metrics.match_components(H_true.T, f.H.T)
    return np.mean([np.corrcoef(H_true[i], f.H[j])[0, 1] for i, j in enumerate(order)])


for title, answers in (("standard", standard), ("NMF-Merge", merged)):
    error = [f.fitting_error for f in answers]
    alike = [likeness(f) for f in answers]
    print(
        f"{title:<10} error {min(error):.4f} to {max(error):.4f} %, "
        f"likeness of the maps {min(alike):.3f} to {max(alike):.3f}, "
        f"{sum(f.seconds for f in answers):.1f} s"
    )
gain = np.array([a.fitting_error - b.fitting_error for a, b in zip(standard, merged, strict=True)])
print(
    f"NMF-Merge ended lower by more than 0.0001 points from {np.sum(gain > 1e-4)} of {len(gain)} "
    f"starts, higher from {np.sum(gain < -1e-4)}."
)

# %%
# Maps and spectra
# ----------------
#
# The NMF-Merge answer of least error. Top: the true maps; bottom: the maps found.

best = min(merged, key=lambda f: f.fitting_error)
order, _ = metrics.match_components(H_true.T, best.H.T)
fig, axes = plt.subplots(2, r, figsize=(7.6, 3), layout="constrained")
for i, name in enumerate(names):
    found = best.H[order[i]]
    axes[0, i].imshow(H_true[i].reshape(side, side), cmap="viridis", vmin=0, vmax=1)
    axes[1, i].imshow(found.reshape(side, side), cmap="viridis", vmin=0, vmax=found.max())
    correlation = np.corrcoef(H_true[i], found)[0, 1]
    axes[0, i].set_title(name)
    axes[1, i].set_title(f"corr. {correlation:.2f}", fontsize=8)
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])
axes[0, 0].set_ylabel("true")
axes[1, 0].set_ylabel("found")

# %%
# Spectra, true in grey. Each found spectrum is scaled to fit the true one best.

fig, axes = plt.subplots(2, 3, figsize=(7, 3.8), sharex=True, layout="constrained")
for i, ax in enumerate(axes.flat):
    w = best.W[:, order[i]]
    ax.plot(band, W_true[:, i], color="0.75", lw=4, label="true")
    ax.plot(band, w * (w @ W_true[:, i]) / (w @ w), color=f"C{i}", lw=1.3, label="found")
    ax.set_title(names[i])
    ax.set_ylim(0, 1.15 * W_true[:, i].max())
axes[0, 0].legend()
fig.supxlabel("wavelength (nm)")
fig.supylabel("reflectance")
plt.show()
