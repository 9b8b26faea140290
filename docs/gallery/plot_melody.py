"""
Notes of a melody
=================

The amplitude spectrogram of a recording is a matrix: frequencies × times. A note has a spectrum
(a column of W) and is loud at some times (a row of H). **Which notes are played, and when?**
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import PowerNorm

from nmfmerge import datasets, metrics, nmf, nmf_merge

notes = "CDEFGAGFEDC CEGEC DFAFD C"
data = datasets.melody(n_frames=400, notes=notes, noise=0.02)
X, r = data.X, data.n_components
pitches = sorted(set(notes) - {" "})
print(f"{X.shape[0]} frequencies × {X.shape[1]} times, {r} pitches: {' '.join(pitches)}")

# %%
# Do the starts agree?
# --------------------

seeds = range(10)
standard = [nmf(X, r, init="random", random_state=seed) for seed in seeds]
merged = [nmf_merge(X, r, init="random", n_init=1, random_state=seed) for seed in seeds]
error_standard = np.array([f.fitting_error for f in standard])
error_merged = np.array([f.fitting_error for f in merged])
for name, errors in (("standard", error_standard), ("NMF-Merge", error_merged)):
    print(f"{name:<10} lowest {errors.min():.3f} %, highest {errors.max():.3f} %")
gain = error_standard - error_merged
print(
    f"NMF-Merge ended lower by more than 0.001 points from {np.sum(gain > 1e-3)} of {len(gain)} "
    f"starts, higher from {np.sum(gain < -1e-3)}."
)

# %%
# Read the notes from the answer
# ------------------------------
#
# By default `nmf_merge` keeps the best of four starts: NNDSVD, and three random ones with fixed
# seeds, so the answer is the same every time. The last line says how far they agree. Components
# come in no particular order; here they are sorted by their loudest frequency.

result = nmf_merge(X, r)
print(result)

by_pitch = np.argsort(np.argmax(result.W, axis=0))
W, H = result.W[:, by_pitch], result.H[by_pitch]
scale = W.max(axis=0)
frequency, time = data.rows.values, data.columns.values
order, cosine = metrics.match_components(data.W, result.W)
name = {int(component): pitches[i] for i, component in enumerate(order)}

fig, (top, bottom) = plt.subplots(2, 1, figsize=(7, 5.2), sharex=True, layout="constrained")
top.imshow(
    X,
    aspect="auto",
    origin="lower",
    cmap="magma",
    norm=PowerNorm(0.4),
    extent=(time[0], time[-1], 0, frequency[-1]),
)
top.set(ylabel="frequency (Hz)", ylim=(0, 3000), title="Spectrogram")
for i, h in enumerate(H * scale[:, None]):
    bottom.fill_between(time, i, i + 0.9 * h / (H * scale[:, None]).max(), color=f"C{i}", lw=0)
labels = [name[int(j)] for j in by_pitch]
bottom.set(
    xlabel="time (s)",
    ylabel="pitch",
    yticks=np.arange(r),
    yticklabels=labels,
    title="Loudness of each component",
)

# %%
# The spectra show the harmonics of each note.

fig, axes = plt.subplots(2, 3, figsize=(7, 3.6), sharex=True, sharey=True, layout="constrained")
for i, (ax, j) in enumerate(zip(axes.flat, by_pitch, strict=False)):
    ax.plot(frequency, result.W[:, j] / result.W[:, j].max(), color=f"C{i}", lw=1.2)
    ax.set(xlim=(0, 2500), title=f"{name[int(j)]}, cosine {cosine[list(order).index(j)]:.3f}")
fig.supxlabel("frequency (Hz)")
fig.supylabel("amplitude, scaled")
plt.show()
