"""Sound files: the amplitude spectrogram, frequencies × times."""

import warnings
from pathlib import Path

import numpy as np
from scipy.io.wavfile import WavFileWarning

from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.datasets.convert import read_wav, spectrogram
from nmfmerge.io.build import build
from nmfmerge.io.errors import FormatError, library


def read_wave(path: Path, window: int = 1024, hop: int | None = None) -> Dataset:
    """Read a WAV file as a spectrogram."""
    with warnings.catch_warnings():  # a recording cut short is only a warning for SciPy
        warnings.filterwarnings("error", "Reached EOF", WavFileWarning)
        rate, sound = read_wav(path)
    return _spectrogram(path, rate, sound, window, hop)


def read_sound(path: Path, window: int = 1024, hop: int | None = None) -> Dataset:
    """Read a FLAC or Ogg file as a spectrogram."""
    soundfile = library("soundfile", path.suffix, "soundfile", "audio")
    with soundfile.SoundFile(path) as file:
        sound = file.read(always_2d=True).mean(axis=1)
        if len(sound) < file.frames:
            raise FormatError(f"{path} is cut short: copy or record it again")
        return _spectrogram(path, file.samplerate, sound, window, hop)


def _spectrogram(path: Path, rate: int, sound: np.ndarray, window: int, hop: int | None) -> Dataset:
    """Whole windows only; a column stands at the time at which its window begins."""
    if len(sound) < window:
        raise FormatError(
            f"{path} has {len(sound)} samples, fewer than one window of {window}: choose a smaller "
            "window"
        )
    hop = max(1, window // 2) if hop is None else hop
    X = spectrogram(sound, window, hop)
    return build(
        path,
        X,
        Axis("frequency", np.arange(X.shape[0]) * rate / window, "Hz"),
        Axis("time", np.arange(X.shape[1]) * hop / rate, "s"),
        description="Amplitude spectrogram.",
    )
