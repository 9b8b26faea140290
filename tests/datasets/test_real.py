import os
import wave
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import netcdf_file

from nmfmerge import datasets
from nmfmerge.datasets.convert import bin_lcms, read_wav, spectrogram

LOADERS = {
    "mhll": (datasets.load_mhll, (257, 294), 3),
    "pf1": (datasets.load_pf1, (513, 647), 13),
    "cbcl": (datasets.load_cbcl, (361, 2429), 49),
    "orl": (datasets.load_orl, (10304, 400), 25),
    "lcms_wt15": (datasets.load_lcms, (400, 600), 17),
    "lcms_ko15": (lambda: datasets.load_lcms("ko15"), (400, 600), 23),
    "samson": (datasets.load_samson, (156, 9025), 3),
    "brca21": (datasets.load_brca21, (96, 21), 4),
    "pbmc3k": (datasets.load_pbmc3k, (13714, 2700), 10),
    "tdt2": (datasets.load_tdt2, (9394, 19528), 20),
    "swimmer": (datasets.load_swimmer, (220, 256), 17),
    "ca_mouse": (datasets.load_ca_mouse, (4096, 500), 10),
}


@pytest.mark.parametrize("name", LOADERS)
def test_loader_returns_the_matrix_with_what_is_known_of_it(real, name):
    load, shape, rank = LOADERS[name]
    data = load()
    assert data.name == name
    assert data.X.shape == shape
    assert data.X.dtype == np.float64
    assert data.n_components == rank
    assert data.source
    assert data.terms
    values = data.X.data if sp.issparse(data.X) else data.X
    assert values.min() >= 0
    if data.image_shape is not None:
        pixels = data.X[:, 0] if name != "samson" else data.X[0]
        assert data.picture(pixels).shape == data.image_shape


def test_faces_fold_the_right_way_round(real):
    """A face is nearly symmetric left to right, and not upside down."""
    for data in (datasets.load_cbcl(), datasets.load_orl()):
        mean = data.picture(data.X.mean(axis=1))
        mean = mean - mean.mean()
        sideways = np.vdot(mean, mean[:, ::-1])
        assert sideways > 0.8 * np.vdot(mean, mean)
        assert sideways > np.vdot(mean, mean[::-1])


def test_axes_of_the_recordings(real):
    assert datasets.load_mhll().columns.values[-1] == pytest.approx(75_200 / 16_000, abs=0.1)
    assert datasets.load_pf1().columns.values[-1] == pytest.approx(30, abs=0.1)


def test_scaling_is_the_papers(real):
    assert datasets.load_cbcl().X.min() == 1 / 256
    assert datasets.load_orl().X.max() <= 1
    assert datasets.load_lcms().X.max() == 1


def test_spectrogram_of_the_recording_is_the_stored_matrix(real):
    rate, sound = read_wav(Path(os.environ["NMFMERGE_DATA"]) / "mary.wav")
    assert rate == 16_000
    X = spectrogram(sound, 512, 256, pad=256)
    np.testing.assert_allclose(X, datasets.load_mhll().X, rtol=1e-12)


@pytest.mark.parametrize("run", ["wt15", "ko15"])
def test_binned_run_is_the_stored_matrix(real, run):
    X, seconds = bin_lcms(Path(os.environ["NMFMERGE_DATA"]) / f"faahko_{run}.CDF")
    np.testing.assert_allclose(X / X.max(), datasets.load_lcms(run).X, rtol=1e-12)
    assert np.all(np.diff(seconds) > 0)


def test_a_missing_file_says_what_to_put_where(monkeypatch, tmp_path):
    monkeypatch.setenv("NMFMERGE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(FileNotFoundError, match=r"mhll.npz was not found in .*data and .*cache"):
        datasets.load_mhll()
    with pytest.raises(ValueError, match="run='wt16' is not known"):
        datasets.load_lcms("wt16")
    folder = tmp_path / "cache" / "nmfmerge"
    folder.mkdir(parents=True)
    np.savez(folder / "mhll.npz", X=np.ones((257, 3)))
    assert datasets.load_mhll().X.shape == (257, 3)


def test_only_images_fold():
    with pytest.raises(ValueError, match="'melody' does not consist of images"):
        datasets.melody(65, 40).picture(np.ones(65))


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
