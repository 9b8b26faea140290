"""Sound files: the amplitude spectrogram, frequencies × times."""

import warnings
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.arguments.errors import Message
from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.datasets.convert import read_wav_channels, spectrogram
from nmfmerge.io.build import build
from nmfmerge.io.channels import one_sound
from nmfmerge.io.errors import FormatError, library
from nmfmerge.io.memory import Memory

_SAMPLE = 16  # bytes for a byte of a WAV file: the file, and each sample as a float
_WAVE, _COMPRESSED = ".wav", (".flac", ".ogg")
_FRAME = 40  # bytes for a value of the spectrogram while it is made


def read_wave(path: Path, memory: Memory, channel: Any = None, **windows: int) -> Dataset:
    """Read a WAV file as a spectrogram."""
    rate, sound = _wave_samples(path, memory)
    return _spectrogram(path, memory, rate, sound, channel, **windows)


def read_sound(path: Path, memory: Memory, channel: Any = None, **windows: int) -> Dataset:
    """Read a FLAC or Ogg file as a spectrogram."""
    rate, sound = _sound_samples(path, memory)
    return _spectrogram(path, memory, rate, sound, channel, **windows)


def is_recording(path: Path) -> bool:
    """True if a file is sound, by its suffix."""
    return path.suffix.lower() in (_WAVE, *_COMPRESSED)


def read_samples(path: Path, memory: Memory) -> tuple[int, np.ndarray]:
    """Sampling rate and samples (n_samples, n_channels) of a recording, in [−1, 1] if integers."""
    return (_wave_samples if path.suffix.lower() == _WAVE else _sound_samples)(path, memory)


def _wave_samples(path: Path, memory: Memory) -> tuple[int, np.ndarray]:
    from scipy.io.wavfile import WavFileWarning  # slow to import

    memory.needs(_SAMPLE * path.stat().st_size)
    with warnings.catch_warnings():  # a recording cut short is only a warning for SciPy
        warnings.simplefilter("ignore", WavFileWarning)  # of chunks that are not sound
        warnings.filterwarnings("error", "Reached EOF", WavFileWarning)
        return read_wav_channels(BytesIO(path.read_bytes()))


def _sound_samples(path: Path, memory: Memory) -> tuple[int, np.ndarray]:
    soundfile = library("soundfile", path.suffix, "soundfile", "audio")
    with soundfile.SoundFile(path) as file:
        memory.array((file.frames, file.channels), _SAMPLE)
        sound = file.read(always_2d=True)
        if len(sound) < file.frames:
            raise FormatError(f"{path} is cut short: copy or record it again")
        return file.samplerate, sound


def _spectrogram(
    path: Path,
    memory: Memory,
    rate: int,
    sound: np.ndarray,
    channel: Any,
    window: int = 1024,
    hop: int | None = None,
) -> Dataset:
    """Whole windows only; a column stands at the time at which its window begins."""
    if len(sound) < window:
        raise FormatError(
            Message(
                "{path} has {n} samples, fewer than one window of {size}: choose a smaller "
                "{window}",
                path=path,
                n=len(sound),
                size=window,
            )
        )
    if rate < 1 or not sound.shape[1]:
        raise FormatError(f"{path} has no sampling rate or no channel: record or copy it again")
    hop = max(1, window // 2) if hop is None else hop
    memory.array((window, (len(sound) - window) // hop + 1), _FRAME)
    X = spectrogram(one_sound(path, sound, channel), window, hop)
    averaged = sound.shape[1] > 1 and channel in (None, "mean")
    return build(
        path,
        X,
        Axis("frequency", np.arange(X.shape[0]) * rate / window, "Hz"),
        Axis("time", np.arange(X.shape[1]) * hop / rate, "s"),
        memory=memory,
        description="Amplitude spectrogram"
        + (f" of the average of {sound.shape[1]} channels." if averaged else "."),
    )
