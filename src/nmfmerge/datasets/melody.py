"""A melody as an amplitude spectrogram: "Mary had a little lamb", synthesised here."""

import numpy as np

from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.datasets.convert import spectrogram

_SEMITONE = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}
_RESOLUTION = 31.25  # Hz between rows: 16 kHz sampling with windows of 512


def melody(
    n_frequencies: int = 257,
    n_frames: int = 294,
    *,
    notes: str = "EDCDEEE",
    noise: float = 0.0,
    random_state: int = 0,
) -> Dataset:
    """Play a melody and return its spectrogram, with the spectrum and loudness of each pitch.

    Parameters
    ----------
    n_frequencies, n_frames : int
        Rows and columns of the spectrogram; windows are 2·(n_frequencies − 1) samples long and
        overlap by half.
    notes : str
        Pitches from C to B (from middle C), each a beat long; a space is a rest. The default is
        the first measure of "Mary had a little lamb".
    noise : float
        Standard deviation of background noise, relative to that of the sound.
    random_state : int
        Seed of the noise.

    Returns
    -------
    Dataset
        ``n_components`` is the number of pitches. W and H are the best rank-1 approximation of
        each pitch's own spectrogram; amplitudes add only nearly, so X is only nearly WH.
    """
    if n_frequencies < 33 or n_frames < 1:
        raise ValueError(
            f"n_frequencies={n_frequencies}, n_frames={n_frames}: the melody needs at least 33 "
            "frequencies (up to 1 kHz) and one frame"
        )
    window = 2 * (n_frequencies - 1)
    hop = window // 2
    rate = _RESOLUTION * window
    n_samples = hop * (n_frames - 1) + window
    pitches = sorted(set(notes) - {" "})
    voices = [_voice(pitch, notes, n_samples, rate) for pitch in pitches]
    sound = np.sum(voices, axis=0)
    rng = np.random.default_rng(random_state)
    sound = sound + noise * sound.std() * rng.standard_normal(n_samples)
    pairs = [_rank_one(spectrogram(voice, window, hop)) for voice in voices]
    return Dataset(
        name="melody",
        X=spectrogram(sound, window, hop),
        n_components=len(pitches),
        rows=Axis("frequency", np.arange(n_frequencies) * _RESOLUTION, "Hz"),
        columns=Axis("time", (np.arange(n_frames) * hop + window / 2) / rate, "s"),
        W=np.stack([w for w, _ in pairs], axis=1),
        H=np.stack([h for _, h in pairs]),
        description="Synthesised melody; each pitch is a component.",
    )


def _voice(pitch: str, notes: str, n_samples: int, rate: float) -> np.ndarray:
    """All the notes of one pitch, struck like a piano string: harmonics that die away."""
    frequency = 261.63 * 2 ** (_SEMITONE[pitch] / 12)
    beat = n_samples / len(notes)
    sound = np.zeros(n_samples)
    for start in (i * beat for i, note in enumerate(notes) if note == pitch):
        t = np.arange(int(n_samples - start)) / rate
        length = beat / rate
        envelope = np.minimum(t / (0.02 * length), 1) * np.exp(-3 * t / length)
        envelope[t > length] *= np.exp(-30 * (t[t > length] - length) / length)
        tone = np.zeros_like(t)
        for harmonic in range(1, 9):
            if harmonic * frequency < rate / 2:
                tone += np.sin(2 * np.pi * harmonic * frequency * t) / harmonic**1.3
        sound[n_samples - len(t) :] += envelope * tone
    return sound


def _rank_one(S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Best w hᵀ of a nonnegative S, with w of unit norm."""
    U, s, Vt = np.linalg.svd(S, full_matrices=False)
    return np.abs(U[:, 0]), s[0] * np.abs(Vt[0])
