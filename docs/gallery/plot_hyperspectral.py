"""
Substances in a hyperspectral image
===================================

Every pixel of a hyperspectral image has a spectrum, which mixes the spectra of its substances. In the
matrix, pixels × bands, the abundance maps of the substances are the columns of W, and
their spectra the rows of H. The example is an invented tablet. **What is in it, and where?** From
an ENVI image to maps and spectra.
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.ndimage import gaussian_filter
from spectral import envi

from nmfmerge import export, io, metrics, nmf, nmf_merge, plot

folder = Path(tempfile.mkdtemp())

# %%
# A file
# ------
#
# Spectra with a few narrow lines on a low background, and smooth maps that sum to one in every
# pixel.

side, n_bands, r = 60, 300, 6
rng = np.random.default_rng(1)
nm = np.linspace(1000, 2400, n_bands)


def spectrum():
    low, high = [[1050], [8], [0.2]], [[2350], [30], [1]]
    place, width, height = rng.uniform(low, high, (3, 6))
    lines = np.exp(-0.5 * ((nm[:, None] - place) / width) ** 2)
    return lines @ height + 0.01


spectra = np.array([spectrum() for _ in range(r)])
noise = rng.standard_normal((r, side, side))
amounts = np.array([gaussian_filter(field, 4) for field in noise])
amounts = np.exp(4 * amounts / amounts.std(axis=(1, 2), keepdims=True))
amounts /= amounts.sum(axis=0)
cube = np.einsum("kyx,kb->yxb", amounts, spectra)
cube = np.maximum(cube + 0.01 * rng.standard_normal(cube.shape), 0)
facts = {"wavelength": nm.tolist(), "wavelength units": "Nanometers"}
envi.save_image(str(folder / "tablet.hdr"), cube, metadata=facts)

# %%
# Read and fit
# ------------

data = io.read(folder / "tablet.hdr")
result = nmf_merge(data.X, r)
print(result)

# %%
# Look
# ----
#
# The maps:

plot.maps(result, data)

# %%
# The spectra, over the wavelengths of the file:

plot.components(result, data)

# %%
# Are they correct? The correlation of each true map with the matched one:

true_maps = amounts.reshape(r, -1)


def likeness(answer):
    """Correlation of the true maps with the matched ones."""
    order, _ = metrics.match_components(true_maps.T, answer.W)
    pairs = zip(true_maps, answer.W.T[order], strict=True)
    return np.array([np.corrcoef(a, b)[0, 1] for a, b in pairs])


print(likeness(result).round(4))

# %%
# Export
# ------
#
# A stack of maps for ImageJ, and the spectra as a table.

export.write(result, data, folder / "substances")
print(*sorted(f.name for f in (folder / "substances").iterdir()), sep="\n")
table = pd.read_csv(folder / "substances" / "spectra.csv", index_col=0)
print("\nlargest at:", *table.idxmax().round(), table.index.name)

# %%
# Against standard NMF
# --------------------
#
# Compare both the error, which is minimized, and the similarity of the maps, which is the goal.

standard, merged = [], []
for seed in range(8):
    start = {"init": "random", "random_state": seed}
    standard.append(nmf(data.X, r, **start))
    merged.append(nmf_merge(data.X, r, n_init=1, **start))

for name, answers in ("standard", standard), ("NMF-Merge", merged):
    errors = [f.fitting_error for f in answers]
    alike = [likeness(f).mean() for f in answers]
    print(
        f"{name:<10} error {min(errors):.4f} to {max(errors):.4f} %,"
        f" likeness {min(alike):.4f} to {max(alike):.4f}"
    )

# %%
# If every start gives the same result, there is nothing to gain: an easy mixture needs no better
# method.
#
# A caution: narrow lines make this example easy. Broad reflectance spectra, as in aerial images of
# the ground, have no zeros, and then many pairs (W, H) fit equally well: part of one spectrum
# can be moved into another, and the error does not show which pair is the true one. That takes
# prior knowledge, such as known spectra.
