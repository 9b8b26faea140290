"""Fits of one X that begin with a sketch, several of them at once: they still converge on X."""

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge import consensus, nmf, transform
from nmfmerge.consensus.fit import Method
from nmfmerge.consensus.fits import Fits
from nmfmerge.matrices import sketch, sparse
from nmfmerge.metrics import match_components

RANK = 5


@pytest.fixture
def cells(monkeypatch):
    """Sparse counts under much noise, as of single cells, treated as if they were many."""
    monkeypatch.setattr(sketch, "_GAIN", 0.1)
    monkeypatch.setattr(sparse, "_SHORT", 0)  # no compiled passes: fits are made together
    rng = np.random.default_rng(0)
    W, H = rng.gamma(0.3, 1.0, (300, RANK)), rng.gamma(0.3, 1.0, (RANK, 200))
    return sp.csr_matrix(rng.poisson(W @ H).astype(np.float32))


@pytest.fixture
def sizes(monkeypatch):
    """The batches: how many fits, and whether they have a sketch."""
    found, made = [], Method.fits

    def counted(self, data, rank, seeds, limits, sketch=None):
        found.append((len(seeds), sketch is not None))
        return made(self, data, rank, seeds, limits, sketch)

    monkeypatch.setattr(Method, "fits", counted)
    return found


def test_fits_converge_on_x_itself(cells, sizes):
    at = consensus(cells, RANK, n_fits=6, tol=1e-5, n_jobs=1)[RANK]
    assert sizes == [(6, True)]
    best = nmf(cells, RANK, init="random", n_init=6, tol=1e-5, random_state=1)
    assert at.errors.min() == pytest.approx(best.fitting_error, rel=1e-3)
    for components, error in zip(at.components, at.errors, strict=True):
        again = nmf(cells, RANK, init=(transform(cells, components), components), tol=1e-5)
        assert again.fitting_error == pytest.approx(error, rel=1e-5)
        assert match_components(components.T, again.H.T)[1].min() > 0.999


def test_bits_of_a_fit_do_not_depend_on_those_made_with_it(cells, sizes, monkeypatch):
    expected = consensus(cells, "4-5", n_fits=7, n_jobs=1)[RANK].components
    fewer = consensus(cells, RANK, n_fits=2)[RANK].components
    monkeypatch.setitem(Fits._read_together.__globals__, "_COLUMNS", 3 * RANK)
    threes = consensus(cells, RANK, n_fits=7, n_jobs=1)[RANK].components
    assert {size for size, _ in sizes} >= {7, 3, 1}
    assert np.array_equal(fewer, expected[:2])
    assert np.array_equal(threes, expected)


def test_other_solvers_and_merging_begin_with_x(cells, sizes):
    consensus(cells, 2, n_fits=2, tol=1e-2, solver="gcd", n_jobs=1)
    consensus(cells, 3, n_fits=2, tol=1e-2, merge=True, n_jobs=1)
    assert not any(has_sketch for _, has_sketch in sizes)
