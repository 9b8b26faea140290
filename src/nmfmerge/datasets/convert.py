"""From a raw recording to a matrix: amplitude spectrograms and binned LC-MS runs."""

from pathlib import Path
from typing import BinaryIO

import numpy as np

_NEAR = 0.25  # of a bin: values that are rounded to more than this are in the bin where they are


def spectrogram(
    sound: np.ndarray, window: int, hop: int, *, pad: int = 0, partial: bool = False
) -> np.ndarray:
    """Amplitude spectrogram with a symmetric Hamming window, frequencies × frames.

    Parameters
    ----------
    sound : array (n_samples,)
        The signal.
    window, hop : int
        Samples in a window, and from one window to the next.
    pad : int
        Zeros before and after the signal.
    partial : bool
        Whether a last window that the signal fills only in part counts.

    Returns
    -------
    array (window // 2 + 1, n_frames)
    """
    sound = np.pad(np.asarray(sound, dtype=np.float64), pad)
    rest = (len(sound) - window) % hop
    if partial and rest:
        sound = np.pad(sound, (0, hop - rest))
    frames = np.lib.stride_tricks.sliding_window_view(sound, window)[::hop]
    return np.ascontiguousarray(np.abs(np.fft.rfft(frames * np.hamming(window), axis=1)).T)


def read_wav(path: Path) -> tuple[int, np.ndarray]:
    """Sampling rate and signal of a WAV file, channels averaged, integers scaled to [−1, 1)."""
    rate, sound = read_wav_channels(path)
    return rate, sound[:, 0] if sound.shape[1] == 1 else sound.mean(axis=1)


def read_wav_channels(file: Path | BinaryIO) -> tuple[int, np.ndarray]:
    """Sampling rate and signals (n_samples, n_channels) of a WAV file."""
    from scipy.io import wavfile  # slow to import

    rate, sound = wavfile.read(file)
    if sound.dtype == np.uint8:  # eight bits are stored with silence at 128
        sound = (sound - 128.0) / 128
    elif sound.dtype.kind == "i":
        sound = sound / -float(np.iinfo(sound.dtype).min)
    return rate, sound[:, None] if sound.ndim == 1 else sound


def bin_lcms(
    path: Path,
    *,
    first_mz: float = 200.0,
    n_mz: int = 400,
    n_scans: int = 1200,
    scans_per_bin: int = 2,
) -> tuple[np.ndarray, np.ndarray]:
    """Sum a netCDF (ANDI) LC-MS run into bins of 1 Da and of a few scans.

    Returns
    -------
    X : array (n_mz, n_scans // scans_per_bin)
        Summed intensities.
    seconds : array (n_scans // scans_per_bin,)
        Retention time at which each column begins.
    """
    times, scan, masses, intensities = read_andi_run(path)
    row = bin_index(masses, first_mz, 1.0, n_mz)
    inside = (row >= 0) & (row < n_mz) & (scan < n_scans)
    X = np.zeros((n_mz, n_scans // scans_per_bin))
    np.add.at(X, (row[inside], scan[inside] // scans_per_bin), intensities[inside])
    return X, times[: X.shape[1] * scans_per_bin : scans_per_bin]


def read_andi_run(file: Path | BinaryIO) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The points of a netCDF (ANDI) LC-MS run.

    Returns
    -------
    times : array (n_scans,)
        Retention time of each scan in seconds.
    scan : array of int (n_points,)
        Scan of each point.
    masses, intensities : arrays (n_points,)
        Its m/z and intensity.
    """
    from scipy.io import netcdf_file  # slow to import

    with netcdf_file(file, mmap=False) as run:
        masses, intensities, starts, times = (
            np.array(run.variables[name].data, dtype=kind)
            for name, kind in (
                ("mass_values", np.float64),
                ("intensity_values", np.float64),
                ("scan_index", np.int64),
                ("scan_acquisition_time", np.float64),
            )
        )
    lengths = np.diff(starts, append=len(masses))
    fits = len(times) == len(starts) and len(masses) == len(intensities)
    if not fits or starts[:1].any() or (lengths < 0).any():
        raise ValueError("its scans, times, masses and intensities do not fit together")
    scan = np.repeat(np.arange(len(starts)), lengths)
    return times, scan, masses, intensities


def bin_index(values: np.ndarray, low: float, width: float, n: int) -> np.ndarray:
    """Number of the bin of each value; outside of 0 … n − 1 where it is in none of the n bins."""
    index = bin_number(values, low, width).astype(np.int64)
    index[values == low + n * width] = n - 1  # the last bin has its upper edge, as a histogram's
    return index


def bin_number(values: np.ndarray, low: float, width: float) -> np.ndarray:
    """Number of the bin of each value from ``low`` on, as a float.

    A value that is the lower edge of a bin but for rounding is in that bin: 100.1 is in the bin
    from 100.1 to 100.2, also as 100.09999847, which single precision makes of it.
    """
    values = np.asarray(values, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # of values that are beyond all bins
        quotient = (values - low) / width
        whole = np.rint(quotient)
        near = np.abs(quotient - whole) <= np.minimum(rounding(values, low) / width, _NEAR)
    return np.where(near, whole, np.floor(quotient))


def rounding(values: np.ndarray, other: float = 0.0) -> np.ndarray:
    """How far rounding may have moved each value, and its difference from another number.

    Values that single precision has count as rounded to it.
    """
    values = np.asarray(values, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        single = values.astype(np.float32)
        double = 4 * np.spacing(np.abs(values) + abs(other))
        half_step = 0.5 * np.spacing(np.abs(single)).astype(np.float64)
    return np.where(single == values, half_step, 0.0) + double
