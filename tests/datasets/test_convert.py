import wave

import numpy as np
from scipy.io import netcdf_file

from nmfmerge.datasets.convert import bin_lcms, read_wav, spectrogram


def test_spectrogram_of_a_tone_peaks_at_its_frequency():
    t = np.arange(4000) / 8000
    X = spectrogram(np.sin(2 * np.pi * 1000 * t), 256, 128)
    assert X.shape == (129, 30)
    assert np.all(X.argmax(axis=0) == 32)
    assert spectrogram(np.ones(1000), 256, 128).shape[1] == 6
    assert spectrogram(np.ones(1000), 256, 128, partial=True).shape[1] == 7


def test_wav_is_read_as_numbers_between_minus_one_and_one(tmp_path):
    samples = np.array([[0, 0], [16384, 16384], [-32768, 0]], dtype="<i2")
    with wave.open(str(tmp_path / "x.wav"), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(samples.tobytes())
    rate, sound = read_wav(tmp_path / "x.wav")
    assert rate == 8000
    np.testing.assert_allclose(sound, [0, 0.5, -0.5])


def test_binning_sums_what_falls_into_a_bin(tmp_path):
    with netcdf_file(tmp_path / "run.cdf", "w") as run:
        run.createDimension("points", 5)
        run.createDimension("scans", 3)
        columns = {
            "mass_values": ("f4", "points", [100.2, 100.7, 102.0, 100.1, 99.0]),
            "intensity_values": ("f4", "points", [1, 2, 4, 8, 16]),
            "scan_index": ("i4", "scans", [0, 2, 3]),
            "scan_acquisition_time": ("f8", "scans", [0.5, 1.0, 1.5]),
        }
        for name, (kind, dimension, values) in columns.items():
            run.createVariable(name, kind, (dimension,))[:] = values
    X, seconds = bin_lcms(tmp_path / "run.cdf", first_mz=100, n_mz=2, n_scans=3, scans_per_bin=1)
    np.testing.assert_array_equal(X, [[3, 0, 8], [0, 4, 0]])  # 102.0 is the upper edge
    np.testing.assert_array_equal(seconds, [0.5, 1.0, 1.5])
