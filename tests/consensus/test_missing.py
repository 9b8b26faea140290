"""`consensus` of data with missing values and weights: nothing is seen of what is missing."""

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge import consensus, transform
from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.consensus.resample import Resampler
from nmfmerge.inputs.check import check_X
from nmfmerge.metrics import fitting_error, match_components
from nmfmerge.storage.checkpoint import OtherRun

RANK, LOSSES = 3, ["frobenius", "kullback-leibler"]
KINDS = [None, "poisson", "rows", "columns"]
rng = np.random.default_rng(0)
W, H = rng.gamma(0.5, 1.0, (36, RANK)), rng.gamma(0.5, 1.0, (RANK, 30))
X = rng.poisson(100 * W @ H).astype(float)
OBSERVED = rng.random(X.shape) < 0.8
HOLES = np.where(OBSERVED, X, np.nan)
WEIGHTS = np.where(OBSERVED, 0.5 + rng.random(X.shape), 0)


def quick(X, **given):
    return consensus(X, RANK, **({"n_fits": 5, "tol": 1e-3} | given))[RANK]


def same(first, second):
    np.testing.assert_array_equal(first.W, second.W)
    np.testing.assert_array_equal(first.H, second.H)
    np.testing.assert_array_equal(first.errors, second.errors)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", KINDS)
def test_components_are_found_and_missing_entries_may_hold_anything(loss, kind):
    given = {"beta_loss": loss, "resample": kind}
    at = quick(HOLES, **given)
    pair = (W, at.W) if at.side == "W" else (H.T, at.H.T)
    assert match_components(*pair)[1].min() > 0.98
    assert at.fitting_error == pytest.approx(fitting_error(HOLES, at.W, at.H, beta_loss=loss))
    assert at.factorization.n_missing == np.count_nonzero(~OBSERVED)
    same(at, quick(np.where(OBSERVED, X, 1e6), weights=OBSERVED, **given))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("side", ["H", "W"])
def test_the_other_factor_is_refitted_with_the_weights(loss, side):
    at = quick(X, weights=WEIGHTS, beta_loss=loss, side=side)
    known = (X, at.H, WEIGHTS) if side == "H" else (X.T, at.W.T, WEIGHTS.T)
    refitted = transform(*known[:2], weights=known[2], beta_loss=loss)
    np.testing.assert_allclose(at.W if side == "H" else at.H.T, refitted, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", KINDS)
def test_ratings_are_fitted_as_dense_data_with_holes(loss, kind):
    given = {"beta_loss": loss, "resample": kind, "tol": 1e-5}
    positive = np.where(OBSERVED, X + 1, 0)
    sparse = quick(sp.csr_array(positive), missing="zeros", **given)
    dense = quick(np.where(OBSERVED, X + 1, np.nan), **given)
    pair = (sparse.W, dense.W) if sparse.side == "W" else (sparse.H.T, dense.H.T)
    assert match_components(*pair)[1].min() > (0.99 if kind == "poisson" else 0.9999)


def test_merging_fits_take_the_weights_too():
    at = quick(HOLES, merge=True)
    assert match_components(H.T, at.H.T)[1].min() > 0.98


@pytest.mark.parametrize("given", [{"weights": WEIGHTS}, {}])
def test_missing_entries_of_drawn_counts_stay_missing(given):
    data = check_X(X if given else HOLES, **given)
    counts = Resampler(data, "poisson", 0).matrix(1)
    everywhere = slice(None)
    np.testing.assert_array_equal(data.weights.rows(everywhere), counts.weights.rows(everywhere))
    assert (counts.in_full()[~OBSERVED] == 0).all()
    assert (counts.in_full() != data.in_full()).any()
    assert counts.weight_unit == data.weight_unit


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("form", [np.array, sp.csr_array])
def test_every_line_is_observed_in_every_part(axis, form):
    """Each line of the other side has one observation, of a few lines that are hence needed."""
    ratings = np.zeros((40, 20))
    ratings[:, 0] = 1
    ratings[rng.permutation(40)[:19], np.arange(1, 20)] = 2
    ratings = ratings if axis == 0 else ratings.T
    data = check_X(form(ratings), **({"weights": ratings} if form is np.array else {}),
                   absent="nan" if form is np.array else "zeros")  # fmt: skip
    resampler = Resampler(data, ["rows", "columns"][axis], 0)
    shapes = set()
    for fit in range(5):
        part = resampler.matrix(fit)
        assert len(part.weights.unobserved("W")) == len(part.weights.unobserved("H")) == 0
        shapes.add(part.shape[axis])
    assert 36 <= min(shapes) <= max(shapes) < 40


def test_lines_without_observations_are_refused():
    empty = HOLES.copy()
    empty[:, 4] = np.nan
    with pytest.raises(ArgumentError, match="no observed entry in column 4"):
        consensus(empty, 2)


def test_a_checkpoint_is_of_the_weights(tmp_path):
    file = tmp_path / "fits.npz"
    first = quick(X, weights=WEIGHTS, checkpoint=file)
    same(first, quick(X, weights=WEIGHTS, checkpoint=file))
    with pytest.raises(OtherRun):
        quick(X, weights=2 * WEIGHTS + 0.1, checkpoint=file)
