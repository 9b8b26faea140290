"""
Notes of a melody
=================

The amplitude spectrogram of a recording is a matrix: frequencies × times. A note has a spectrum
(a column of W) and is loud at some times (a row of H). **Which notes are played, and when?** From a
sound file to a sound for each note.
"""

import tempfile
from pathlib import Path

import numpy as np
import soundfile

from nmfmerge import export, io, nmf, nmf_merge, plot

folder = Path(tempfile.mkdtemp())

# %%
# A file
# ------
#
# Six notes, some of them together, and a little noise.

PITCHES = {"C": 262, "D": 294, "E": 330, "F": 349, "G": 392, "A": 440}
MELODY = ["C", "D", "E", "F", "G", "A", "CE", "EG", "FA", "D", "CEG", "C"]
rate = 16000
t = np.arange(int(0.5 * rate * len(MELODY))) / rate


def tone(pitch, begin):
    """Six harmonics, struck at a time and fading."""
    since = np.maximum(t - begin, 0)
    loudness = np.exp(-4 * since) * (1 - np.exp(-150 * since))
    parts = range(1, 7)
    return loudness * sum(np.sin(2 * np.pi * k * pitch * t) / k for k in parts)


song = 0.001 * np.random.default_rng(0).standard_normal(len(t))
for i, notes in enumerate(MELODY):
    for note in notes:
        song += 0.1 * tone(PITCHES[note], 0.5 * i)
soundfile.write(folder / "song.flac", song, rate)

# %%
# Read and fit
# ------------
#
# The notes are a whole tone apart, or less, so the window is longer than the default: 2048 samples,
# for a frequency resolution of 8 Hz.

data = io.read(folder / "song.flac", window=2048)
result = nmf_merge(data.X, 6)
print(result)

# %%
# Look
# ----
#
# Each component is a note with its harmonics, and the times at which it sounds.

plot.components(result, data)

# %%
# The loudest frequency names the note.

for k in range(6):
    peak = data.rows.values[result.W[:, k].argmax()]
    note = min(PITCHES, key=lambda name: abs(PITCHES[name] - peak))
    print(f"{result.label(k)}: {peak:.0f} Hz, {note}")

# %%
# Export
# ------
#
# One sound for each component. They add up to the recording.

export.write(result, data, folder / "stems", "audio")
recording, _ = soundfile.read(folder / "song.flac")
total = np.zeros_like(recording)
for file in sorted((folder / "stems" / "audio").iterdir()):
    sound, _ = soundfile.read(file)
    total += sound
    print(f"{file.name:<17} loudest sample {abs(sound).max():.3f}")
print(f"sum against the recording: {abs(total - recording).max():.1e}")

# %%
# Against standard NMF
# --------------------
#
# Both methods get the same starts:

standard, merged = [], []
for seed in range(10):
    start = {"init": "random", "random_state": seed}
    standard.append(nmf(data.X, 6, **start).fitting_error)
    merged.append(nmf_merge(data.X, 6, n_init=1, **start).fitting_error)

for name, errors in ("standard", standard), ("NMF-Merge", merged):
    print(f"{name:<10} error {min(errors):.3f} to {max(errors):.3f} %")

# %%
# All starts give the same result, so there is nothing to gain.
