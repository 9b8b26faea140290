"""Draws the figure of docs/start.md: ``python docs/figures/start.py`` (needs matplotlib)."""

from pathlib import Path

import matplotlib.pyplot as plt

from nmfmerge import datasets, nmf_merge

X = datasets.lcms_like(n_mz=200, n_scans=300, n_compounds=12, random_state=1).X
result = nmf_merge(X, 12)
scale = result.W.max(axis=0)
spectra, profiles = result.W / scale, result.H * scale[:, None]

fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
left.plot(profiles.T)
left.set(xlabel="scan", ylabel="intensity", title="Profiles, rows of H")
right.imshow(spectra, aspect="auto", origin="lower", cmap="magma")
right.set(xlabel="component", ylabel="mass bin", title="Spectra, columns of W")
fig.savefig(Path(__file__).with_suffix(".png"), dpi=140)
