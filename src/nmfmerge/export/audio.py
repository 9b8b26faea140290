"""One sound for each component of a recording: ``audio/component-01.wav`` and so on.

The spectrogram of the recording, with its own phase, is shared out by Wiener masks: each component
gets the part that its square has in the sum of the squares of all. The sounds add up to the
recording, with ``audio/rest.wav`` where the model has nothing, as in columns that were left out.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.export.base import Export, ExportSource
from nmfmerge.fields.audio import Audio
from nmfmerge.io.audio import is_recording, read_samples
from nmfmerge.io.memory import memory_for

_BLOCK = 2**20  # values of the spectrogram that are handled at once
_WIDEST = 2**22  # samples of the widest window that its frequencies identify
_WHOLE = 0.01  # of a sample, by which rounded times may differ from whole ones
_SILENT = 1e-9  # of the loudest sample; below is rounding


def is_of_recording(data: Dataset) -> bool:
    """True if data are the spectrogram of a recording that can be read again."""
    return Audio().suits(data) and is_recording(Path(data.source))


def _other_axes(data: Dataset) -> str:
    """The problem with the axes of a recording."""
    if not is_recording(Path(data.source)):
        return ""
    found = " and ".join(repr(axis.label) for axis in (data.rows, data.columns))
    return (
        f"axes that are 'frequency (Hz)' and 'time (s)', and those of {data.source} are {found}: "
        "do not rename them"
    )


def write_stems(folder: Path, source: ExportSource) -> None:
    """Write the sound of each component, with the channels and the sampling rate of the recording.

    Samples are 32-bit floats. What the model has nothing of is in ``rest.wav``; without it the
    sounds of the components add up to the recording.
    """
    file = source.file
    if file is None:
        raise ValueError(
            f"audio is made from the recording {source.data.source}, which does not exist: put it "
            "back, or read it again from its new path"
        )
    reading = source.about.reading
    rate, sound = read_samples(file, memory_for(file, reading.get("max_memory")))
    (folder / "audio").mkdir(exist_ok=True)
    rest = sound.astype(np.float64)
    digits = max(2, len(str(source.result.n_components)))
    for k, stem in enumerate(stems(source, rate, sound), 1):
        rest -= stem
        _write(folder / "audio" / f"component-{k:0{digits}}.wav", rate, stem)
    if np.abs(rest).max() > _SILENT * np.abs(sound).max():
        _write(folder / "audio" / "rest.wav", rate, rest)


def stems(source: ExportSource, rate: int, sound: np.ndarray) -> Iterator[np.ndarray]:
    """The sound (n_samples, n_channels) of each component, one after the other.

    Parameters
    ----------
    source : ExportSource
        Factors of a spectrogram, and its axes.
    rate : int
        Samples of the recording in a second.
    sound : array (n_samples, n_channels)
        The recording. All channels get the same masks.
    """
    data = source.data
    W, Ht = source.result.W, source.result.H.T
    spectra, gains = (W, Ht) if data.rows.name == "frequency" else (Ht, W)
    frequency, time = _axes(data)
    window, hop = window_and_hop(frequency, time, rate)
    bins = _numbers(frequency.values * window / rate)
    frames = _Frames(len(sound), window, hop, _numbers(time.values * rate / hop))
    fits = window <= len(sound) and _are_whole(time.values * rate)
    if not fits or bins.max() > window // 2 or frames.numbers.max() >= frames.whole:
        raise ValueError(
            f"the axes of {data.name!r} are not those of a spectrogram of {data.source} with "
            f"{rate} samples in a second: fit the recording again"
        )
    spectra, gains = _squares(spectra, gains)
    spectra = _placed(spectra, bins, window // 2 + 1)
    gains = _placed(gains, np.arange(len(gains)), len(gains) + 1)  # one for frames with no model
    signals, overlap = frames.padded(sound.T), frames.overlap()
    for k in range(source.result.n_components):
        stem = _stem(signals, frames, spectra, gains, k)
        stem /= overlap
        yield frames.cut(stem).T


def window_and_hop(frequency: Axis, time: Axis, rate: int) -> tuple[int, int]:
    """Samples in a window of the spectrogram and from one to the next, by its axes.

    Frequencies are multiples of the rate over the window, times are multiples of the hop over the
    rate; some of them may have been left out.
    """
    parts = [Fraction(value / rate).limit_denominator(_WIDEST) for value in frequency.values]
    window = math.lcm(*(part.denominator for part in parts))
    hop = math.gcd(*_numbers(time.values * rate).tolist())
    return window, hop or window


def _numbers(values: np.ndarray) -> np.ndarray:
    return np.rint(values).astype(np.int64)


def _are_whole(values: np.ndarray) -> bool:
    return bool(np.abs(values - np.rint(values)).max() < _WHOLE)


def _placed(F: np.ndarray, places: np.ndarray, n: int) -> np.ndarray:
    """The rows of a factor at their places among n, zeros elsewhere."""
    placed = np.zeros((n, F.shape[1]))
    placed[places] = F
    return placed


@dataclass(frozen=True, eq=False)
class _Frames:
    """The windows of a recording: those of its spectrogram, and more to cover both ends.

    Frame 0 begins at the first sample. Frames before it and after the last whole one have the
    masks of the nearest whole one.
    """

    n_samples: int
    window: int
    hop: int
    numbers: np.ndarray  # of the frames that the columns of the spectrogram are

    @property
    def whole(self) -> int:
        """Number of frames that the recording fills."""
        return (self.n_samples - self.window) // self.hop + 1

    @property
    def first(self) -> int:
        """Number of the first frame that has a sample; not above 0."""
        return -((self.window - 1) // self.hop)

    @property
    def count(self) -> int:
        """Number of frames that have a sample."""
        return (self.n_samples - 1) // self.hop - self.first + 1

    @property
    def length(self) -> int:
        """Samples from the begin of the first frame to the end of the last or of the recording."""
        end = (self.count - 1) * self.hop + self.window
        return max(end, self.before + self.n_samples)

    @property
    def before(self) -> int:
        """Samples from the begin of the first frame to that of the recording."""
        return -self.first * self.hop

    def padded(self, signals: np.ndarray) -> np.ndarray:
        """Signals (n_channels, n_samples) with zeros at both ends."""
        after = self.length - self.before - self.n_samples
        return np.pad(np.asarray(signals, dtype=np.float64), ((0, 0), (self.before, after)))

    def cut(self, padded: np.ndarray) -> np.ndarray:
        """Undo `padded`."""
        return padded[:, self.before : self.before + self.n_samples]

    def blocks(self) -> Iterator[np.ndarray]:
        """Numbers of the frames from 0, as many at a time as fit into memory easily."""
        step = max(1, _BLOCK // self.window)
        for start in range(0, self.count, step):
            yield np.arange(start, min(start + step, self.count))

    def columns(self, frames: np.ndarray) -> np.ndarray:
        """The column of the spectrogram whose mask each frame has; −1 where it was left out."""
        column_of = np.full(self.whole, -1)
        column_of[self.numbers] = np.arange(len(self.numbers))
        return column_of[np.clip(frames + self.first, 0, self.whole - 1)]

    def overlap(self) -> np.ndarray:
        """Sum of the squares of all windows at each sample; one where there is no window."""
        total = np.zeros(self.length)
        squares = np.hamming(self.window) ** 2
        self.add_(total, np.arange(self.count), np.broadcast_to(squares, (self.count, self.window)))
        return np.where(total > 0, total, 1.0)

    def add_(self, total: np.ndarray, frames: np.ndarray, sounds: np.ndarray) -> None:
        """Add the sound of each frame at its place."""
        for start, sound in zip((frames * self.hop).tolist(), sounds, strict=True):
            total[start : start + self.window] += sound


def _stem(
    signals: np.ndarray, frames: _Frames, spectra: np.ndarray, gains: np.ndarray, k: int
) -> np.ndarray:
    """The part of component k in each channel, as the sum of its windows."""
    window = np.hamming(frames.window)  # as that of the spectrogram
    total = np.zeros_like(signals)
    for block in frames.blocks():
        mask = _mask(spectra, gains[frames.columns(block)], k)
        for signal, sum_of_windows in zip(signals, total, strict=True):
            views = np.lib.stride_tricks.sliding_window_view(signal, frames.window)
            mixture = np.fft.rfft(views[block * frames.hop] * window, axis=1)
            masked = np.fft.irfft(mask * mixture, n=frames.window, axis=1)
            frames.add_(sum_of_windows, block, masked * window)
    return total


def _mask(spectra: np.ndarray, gains: np.ndarray, k: int) -> np.ndarray:
    """The part of component k in the sum of all squares, frames × frequencies; 0 of nothing."""
    total = gains @ spectra.T
    own = np.outer(gains[:, k], spectra[:, k])
    return np.divide(own, total, out=np.zeros_like(total), where=total > 0)


def _squares(spectra: np.ndarray, gains: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squares of both factors, scaled together so that none is too large."""
    sizes = [np.abs(F).max(axis=0, initial=0).astype(np.float64) for F in (spectra, gains)]
    scaled = [
        F / np.where(size > 0, size, 1) for F, size in zip((spectra, gains), sizes, strict=True)
    ]
    size = sizes[0] * sizes[1]
    size = size / (size.max(initial=0) or 1.0)
    return scaled[0].astype(np.float64) ** 2, (scaled[1] * size).astype(np.float64) ** 2


def _axes(data: Dataset) -> tuple[Axis, Axis]:
    rows, columns = data.rows, data.columns
    return (rows, columns) if rows.name == "frequency" else (columns, rows)


def _write(path: Path, rate: int, sound: np.ndarray) -> None:
    from scipy.io import wavfile  # slow to import

    samples = sound.astype(np.float32)
    wavfile.write(path, rate, samples[:, 0] if samples.shape[1] == 1 else samples)


EXPORT = Export(
    "audio",
    "audio/component-01.wav, …: one sound for each component of a recording",
    is_of_recording,
    write_stems,
    on_request=True,
    needs="a recording, a .wav, .flac or .ogg file",
    why_not=_other_axes,
)
