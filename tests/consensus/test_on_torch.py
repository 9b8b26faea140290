"""Fits on a device: batches of starts there agree with fits in memory."""

from threading import get_ident

import numpy as np
import pytest

from nmfmerge import consensus
from nmfmerge.inputs import tensors
from nmfmerge.metrics import match_components

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.tensors, pytest.mark.usefixtures("_one_torch_thread")]


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    means = rng.gamma(0.5, 900.0, (24, 3)) @ rng.gamma(0.3, 1.0, (3, 30))
    return rng.poisson(means).astype(float)


@pytest.fixture
def cpu_as_device(monkeypatch):
    """The CPU through PyTorch, as another device is used."""
    monkeypatch.setattr(tensors, "is_host", lambda device: False)


@pytest.mark.parametrize("given", [{}, {"resample": "poisson"}, {"merge": True}, {"side": "W"}])
def test_the_same_consensus_as_in_memory(X, given, monkeypatch):
    here = consensus(X, "2-3", n_fits=5, **given)
    monkeypatch.setattr(tensors, "is_host", lambda device: False)
    there = consensus(X, "2-3", n_fits=5, device="cpu", **given)
    for rank in here:
        assert isinstance(there[rank].H, np.ndarray)
        assert match_components(here[rank].H.T, there[rank].H.T)[1].min() > 0.999
        assert there[rank].fitting_error == pytest.approx(here[rank].fitting_error, rel=1e-2)
        assert np.allclose(there[rank].errors, here[rank].errors, rtol=1e-2)


@pytest.mark.usefixtures("cpu_as_device")
def test_fits_of_x_itself_are_one_batch(X, monkeypatch):
    sizes = []
    from nmfmerge.consensus.fit import Method

    fits = Method.fits

    def counted(self, data, rank, seeds, limits, sketch=None):
        sizes.append((rank, len(seeds)))
        return fits(self, data, rank, seeds, limits, sketch)

    monkeypatch.setattr(Method, "fits", counted)
    consensus(X, "2-3", n_fits=5, tol=1e-2, device="cpu")
    assert sorted(sizes) == [(2, 5), (3, 5)]


@pytest.mark.usefixtures("cpu_as_device")
def test_under_the_kullback_leibler_divergence(X):
    result = consensus(X, 3, n_fits=3, tol=1e-2, device="cpu", beta_loss="kl")
    assert result[3].agreement == 1


@pytest.mark.parametrize("resample", [None, "poisson"])
@pytest.mark.usefixtures("cpu_as_device")
def test_a_device_is_used_by_one_thread(X, resample, monkeypatch):
    threads = set()
    from nmfmerge.consensus.fit import Method

    fits = Method.fits

    def seen(*arguments):
        threads.add(get_ident())
        return fits(*arguments)

    monkeypatch.setattr(Method, "fits", seen)
    consensus(X, "2-4", n_fits=4, tol=1e-2, device="cpu", resample=resample)
    assert threads == {get_ident()}
