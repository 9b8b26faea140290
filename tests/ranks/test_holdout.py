"""Held-out entries: no fit sees them, their error is that of the definition, and it finds ranks."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import kl_div

from nmfmerge import plot, rank_path
from nmfmerge.inputs.check import check_X
from nmfmerge.losses import FROBENIUS, KULLBACK_LEIBLER
from nmfmerge.ranks.holdout import _Mask
from nmfmerge.storage.records import pack_path, unpack_path

rng = np.random.default_rng(2)
W, H = rng.gamma(0.5, size=(40, 3)), rng.gamma(0.5, size=(3, 30))
X = W @ H + 0.1 * rng.random((40, 30))
OBSERVED = rng.random(X.shape) < 0.6
M = np.where(OBSERVED, rng.random(X.shape) + 0.2, 0)

DATA = {
    "dense": (X, {}),
    "sparse": (sp.csc_array(np.where(OBSERVED, X, 0)), {}),
    "holes": (np.where(OBSERVED, X, np.nan), {}),
    "ratings": (sp.csr_array(np.where(OBSERVED, X, 0)), {"absent": "zeros"}),
    "weights": (X, {"weights": M}),
    "NaN stored": (sp.csr_array(np.where(OBSERVED, X, np.nan)), {}),
}


@pytest.mark.parametrize("name", DATA)
def test_hidden_entries_are_missing_and_all_others_stay(name):
    given, options = DATA[name]
    data = check_X(given, **options)
    mask = _Mask(data, 0.2, np.random.default_rng(0))
    known = given.toarray() if sp.issparse(given) else given
    known = np.nan_to_num(known) / data.unit**2
    before = np.ones(X.shape) if data.weights is None else data.weights.rows(slice(None))
    after = mask.data.weights.rows(slice(None))
    hidden = np.zeros(X.shape, dtype=bool)
    hidden[mask.rows, mask.columns] = True
    assert 0.05 * before.size < np.count_nonzero(hidden) < 0.25 * before.size
    assert (before[hidden] > 0).all()
    assert hidden.sum() == len(mask.rows)
    np.testing.assert_array_equal(after, np.where(hidden, 0, before))
    left = mask.data.X.toarray() if sp.issparse(mask.data.X) else mask.data.X
    np.testing.assert_allclose(left, np.where(after > 0, known, 0), rtol=1e-15)
    np.testing.assert_allclose(mask.x, known[mask.rows, mask.columns], rtol=1e-15)
    np.testing.assert_allclose(mask.m, before[mask.rows, mask.columns], rtol=1e-15)
    assert (after.sum(axis=0) > 0).all()
    assert (after.sum(axis=1) > 0).all()


def test_held_out_errors_are_those_of_the_definition():
    data = check_X(X, weights=M)
    mask = _Mask(data, 0.1, np.random.default_rng(0))
    at = mask.rows, mask.columns
    x, m = X[at] / data.unit**2, data.weights.rows(slice(None))[at]
    y = (W @ H)[at] / data.unit**2
    Wt, Hs = W.T / data.unit, H / data.unit
    expected = 100 * np.sum(m * (x - y) ** 2) / np.sum(m * x**2)
    assert mask.error(FROBENIUS, Wt, Hs) == pytest.approx(expected, rel=1e-10)
    w, h = mask.data.margins()
    y, margins = (np.maximum(fit, 1e-3 * x.mean()) for fit in (y, (w.T @ h)[at]))
    expected = 100 * np.sum(m * kl_div(x, y)) / np.sum(m * kl_div(x, margins))
    assert mask.error(KULLBACK_LEIBLER, Wt, Hs) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("loss", ["frobenius", "kullback-leibler"])
def test_the_rank_of_counts_predicts_entries_best(loss):
    counts = rng.poisson(30 * W @ H) + 0.0
    counts[counts.sum(axis=1) == 0, 0] = 1
    path = rank_path(counts, 6, holdout=0.1, beta_loss=loss)
    assert path.ranks[np.argmin(path.held_out)] == 3
    assert (path.held_out_error > 0).all()
    assert "held out" in repr(path)
    again = unpack_path(*pack_path(path))
    np.testing.assert_array_equal(again.held_out, path.held_out)
    labels = [ax.get_ylabel() for ax in plot.rank_path(path).axes]
    assert "held-out error (%)" in labels
    plain = rank_path(counts, 6, beta_loss=loss)
    np.testing.assert_array_equal(plain.fitting_errors, path.fitting_errors)
    assert np.isnan(plain.held_out).all()
    assert "held out" not in repr(plain)


def test_data_in_chunks_have_no_held_out_entries():
    da = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match=r"holdout=0.1 needs X in memory"):
        rank_path(da.from_array(X, chunks=(20, 30)), 3, holdout=0.1)
