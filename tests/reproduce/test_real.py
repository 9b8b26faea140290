"""Loaders of the real data sets; with the data they are checked against the recordings."""

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge.datasets.convert import bin_lcms, read_wav, spectrogram
from reproduce import real as loaders

LOADERS = {
    "mhll": (loaders.load_mhll, (257, 294), 3),
    "pf1": (loaders.load_pf1, (513, 647), 13),
    "cbcl": (loaders.load_cbcl, (361, 2429), 49),
    "orl": (loaders.load_orl, (10304, 400), 25),
    "lcms_wt15": (loaders.load_lcms, (400, 600), 17),
    "lcms_ko15": (lambda: loaders.load_lcms("ko15"), (400, 600), 23),
    "samson": (loaders.load_samson, (156, 9025), 3),
    "brca21": (loaders.load_brca21, (96, 21), 4),
    "pbmc3k": (loaders.load_pbmc3k, (13714, 2700), 10),
    "tdt2": (loaders.load_tdt2, (9394, 19528), 20),
    "swimmer": (loaders.load_swimmer, (220, 256), 17),
    "ca_mouse": (loaders.load_ca_mouse, (4096, 500), 10),
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
    for data in (loaders.load_cbcl(), loaders.load_orl()):
        mean = data.picture(data.X.mean(axis=1))
        mean = mean - mean.mean()
        sideways = np.vdot(mean, mean[:, ::-1])
        assert sideways > 0.8 * np.vdot(mean, mean)
        assert sideways > np.vdot(mean, mean[::-1])


def test_axes_of_the_recordings(real):
    assert loaders.load_mhll().columns.values[-1] == pytest.approx(75_200 / 16_000, abs=0.1)
    assert loaders.load_pf1().columns.values[-1] == pytest.approx(30, abs=0.1)


def test_scaling_is_the_papers(real):
    assert loaders.load_cbcl().X.min() == 1 / 256
    assert loaders.load_orl().X.max() <= 1
    assert loaders.load_lcms().X.max() == 1


def test_spectrogram_of_the_recording_is_the_stored_matrix(real):
    rate, sound = read_wav(Path(os.environ["NMFMERGE_DATA"]) / "mary.wav")
    assert rate == 16_000
    X = spectrogram(sound, 512, 256, pad=256)
    np.testing.assert_allclose(X, loaders.load_mhll().X, rtol=1e-12)


@pytest.mark.parametrize("run", ["wt15", "ko15"])
def test_binned_run_is_the_stored_matrix(real, run):
    X, seconds = bin_lcms(Path(os.environ["NMFMERGE_DATA"]) / f"faahko_{run}.CDF")
    np.testing.assert_allclose(X / X.max(), loaders.load_lcms(run).X, rtol=1e-12)
    assert np.all(np.diff(seconds) > 0)


def test_a_missing_file_says_what_to_put_where(monkeypatch, tmp_path):
    monkeypatch.setenv("NMFMERGE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(FileNotFoundError, match=r"mhll.npz was not found in .*data and .*cache"):
        loaders.load_mhll()
    with pytest.raises(ValueError, match="run='wt16' is not known"):
        loaders.load_lcms("wt16")
    folder = tmp_path / "cache" / "nmfmerge"
    folder.mkdir(parents=True)
    np.savez(folder / "mhll.npz", X=np.ones((257, 3)))
    assert loaders.load_mhll().X.shape == (257, 3)
