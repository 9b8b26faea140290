"""
Cells in a calcium movie
========================

A calcium movie is a matrix: pixels × frames. A cell has a footprint (a column of W) and a trace of
its activity (a row of H). Footprints overlap and the background glows. **Where are the cells, and
when were they active?** From a TIFF stack to maps and traces.
"""

import tempfile
from pathlib import Path

import numpy as np
import tifffile

from nmfmerge import export, io, metrics, nmf, nmf_merge, plot

folder = Path(tempfile.mkdtemp())

# %%
# A file
# ------
#
# Sixteen soft discs, some of which overlap; transients with a sharp rise and a slow decay; a broad
# background; and noise.

side, n_frames, n_cells = 40, 300, 16
rng = np.random.default_rng(3)
y, x = np.mgrid[:side, :side]


def disc():
    cy, cx = rng.uniform(4, side - 4, 2)
    ry, rx = rng.uniform(2.5, 4.5, 2)
    distance = np.hypot((y - cy) / ry, (x - cx) / rx)
    return 1 / (1 + np.exp(8 * (distance - 1)))


def activity():
    events = (rng.random(n_frames) < 0.012) * rng.uniform(0.4, 1, n_frames)
    events[rng.integers(n_frames - 60)] = 1  # at least one
    decay = np.exp(-np.arange(60) / 12)
    return np.convolve(events, decay)[:n_frames] * rng.uniform(0.2, 1)


cells = np.array([disc() for _ in range(n_cells)])
traces = np.array([activity() for _ in range(n_cells)])
glow = np.exp(-((y - side / 2) ** 2 + (x - side / 3) ** 2) / (2 * 18**2))
movie = np.einsum("kt,kyx->tyx", traces, cells) + 0.15 * glow
movie += 0.03 * rng.standard_normal(movie.shape)
movie = np.maximum(movie, 0).astype(np.float32)
tifffile.imwrite(folder / "movie.tif", movie, photometric="minisblack")

# %%
# Read and fit
# ------------
#
# The background is in every pixel and every frame, and NMF would put a part of it into every
# footprint. The usual remedy is to subtract the median over time from each pixel. Negative values
# are then noise, and are set to zero.

data = io.read(folder / "movie.tif")
X = np.maximum(data.X - np.median(data.X, axis=1, keepdims=True), 0)
result = nmf_merge(X, n_cells)
print(result)

# %%
# Look
# ----
#
# Each component as a map, with its outline:

plot.maps(result, data)

# %%
# The largest eight with their traces. Bands show how much the starts differ.

plot.components(result, data, which=range(8))

# %%
# Export
# ------
#
# A stack of maps for ImageJ, and the traces as a table.

export.write(result, data, folder / "cells")
maps = tifffile.imread(folder / "cells" / "maps.tif")
print("maps.tif:", maps.shape)
with open(folder / "cells" / "traces.csv") as table:
    print("traces.csv:", next(table)[:60], "…")

# %%
# Against standard NMF
# --------------------
#
# Both methods get the same starts. A cell counts as found if the cosine between its true
# footprint and its component is above 0.9.

standard, merged = [], []
for seed in range(12):
    start = {"init": "random", "random_state": seed}
    standard.append(nmf(X, n_cells, **start))
    merged.append(nmf_merge(X, n_cells, n_init=1, **start))


def n_found(answer):
    footprints = cells.reshape(n_cells, -1).T
    cosines = metrics.match_components(footprints, answer.W)[1]
    return int(np.sum(cosines > 0.9))


for name, answers in ("standard", standard), ("NMF-Merge", merged):
    print(
        f"{name:<10} {np.mean([n_found(f) for f in answers]):.1f} of"
        f" {n_cells} cells found on average,"
        f" {sum(f.seconds for f in answers):.1f} s"
    )
print(f"the fit above: {n_found(result)} cells")

# %%
# Starts differ by about one cell; keep the best of several.

plot.paired_starts(
    [f.fitting_error for f in standard], [f.fitting_error for f in merged]
)
