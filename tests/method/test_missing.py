"""Fits of data with missing values and weights."""

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge import (
    NMFMerge,
    nmf,
    nmf_merge,
    rank_path,
    recover_components,
    transform,
)
from nmfmerge.inputs.check import check_X
from nmfmerge.metrics import kkt_residual
from nmfmerge.storage.records import pack_result, unpack_result

rng = np.random.default_rng(11)
W_TRUE, H_TRUE = rng.random((40, 3)), rng.random((3, 30))
W_TRUE[rng.random(W_TRUE.shape) < 0.4] = 0
H_TRUE[rng.random(H_TRUE.shape) < 0.4] = 0
X = W_TRUE @ H_TRUE
OBSERVED = rng.random(X.shape) < 0.7
HOLES = np.where(OBSERVED, X, np.nan)
NOISY = X + 0.1 * rng.random(X.shape)
FEW = np.where(np.add.outer(np.arange(40), np.arange(30)) % 9, NOISY, np.nan)  # of every line
M = np.where(OBSERVED, rng.random(X.shape) + 0.2, 0)
START = rng.random((40, 3)) + 0.1, rng.random((3, 30)) + 0.1


class Killed(Exception):
    pass


def same(one, other):
    np.testing.assert_array_equal(one.W, other.W)
    np.testing.assert_array_equal(one.H, other.H)
    assert one.objective == other.objective
    assert one.fitting_error == other.fitting_error


@pytest.mark.parametrize("fit", [nmf, nmf_merge])
@pytest.mark.parametrize("weights", [OBSERVED, M, sp.csr_array(M)], ids=["0/1", "dense", "sparse"])
def test_missing_entries_may_hold_anything_without_changing_a_bit(fit, weights):
    first = fit(NOISY, 3, weights=weights, tol=1e-3)
    for value in (0.0, 1e300, np.inf, -5.0, np.nan):
        same(fit(np.where(OBSERVED, NOISY, value), 3, weights=weights, tol=1e-3), first)


def test_weights_of_zero_and_one_are_missing_values():
    missing = nmf_merge(np.where(OBSERVED, NOISY, np.nan), 3)
    same(nmf_merge(NOISY, 3, weights=OBSERVED), missing)
    same(nmf_merge(NOISY, 3, weights=OBSERVED.astype(float)), missing)


def test_a_weight_of_two_is_a_row_that_comes_twice():
    twice = np.ones(len(NOISY))
    twice[4] = 2
    start = START[0].copy(), START[1].copy()
    once = nmf(NOISY, 3, weights=twice, init=start, tol=1e-10, max_iter=100_000)
    longer = np.vstack([NOISY, NOISY[4:5]]), np.vstack([start[0], start[0][4:5]])
    repeated = nmf(longer[0], 3, init=(longer[1], start[1]), tol=1e-10, max_iter=100_000)
    assert once.objective == pytest.approx(repeated.objective, rel=1e-9)
    np.testing.assert_allclose(once.W @ once.H, (repeated.W @ repeated.H)[:-1], atol=1e-6)


def test_weights_of_rows_are_those_of_a_rescaled_matrix():
    of_rows = rng.random(len(NOISY)) + 0.2
    root = np.sqrt(of_rows)[:, None]
    options = {"tol": 1e-10, "max_iter": 100_000}
    weighted = nmf(NOISY, 3, weights=of_rows, init=START, **options)
    rescaled = nmf(root * NOISY, 3, init=(root * START[0], START[1]), **options)
    assert weighted.objective == pytest.approx(rescaled.objective, rel=1e-9)
    assert weighted.fitting_error == pytest.approx(rescaled.fitting_error, rel=1e-9)
    np.testing.assert_allclose(root * (weighted.W @ weighted.H), rescaled.W @ rescaled.H, atol=1e-6)


@pytest.mark.parametrize("given", [HOLES, sp.csr_array(HOLES)], ids=["dense", "sparse"])
def test_a_matrix_of_low_rank_is_recovered_where_it_is_missing(given):
    found = nmf_merge(given, 3, tol=1e-7, max_iter=20_000)
    np.testing.assert_allclose(found.W @ found.H, X, atol=1e-6 * X.max())
    filled = found.impute(given)
    np.testing.assert_array_equal(filled[OBSERVED], X[OBSERVED])
    np.testing.assert_allclose(filled, X, atol=1e-6 * X.max())


def test_ratings_are_recovered_from_the_entries_that_are_stored():
    ratings = np.where(OBSERVED, X + 0.01, 0)
    found = nmf_merge(sp.csr_array(ratings), 4, missing="zeros", tol=1e-6, max_iter=20_000)
    np.testing.assert_allclose(found.W @ found.H, X + 0.01, atol=1e-4 * X.max())
    filled = found.impute(sp.csr_array(ratings), missing="zeros")
    np.testing.assert_array_equal(filled[OBSERVED], ratings[OBSERVED])
    np.testing.assert_allclose(filled, X + 0.01, atol=1e-4 * X.max())


@pytest.mark.parametrize("solver", ["accelerated", "mu"])
def test_objectives_are_weighted_and_stationary(solver):
    found = nmf(NOISY, 3, weights=8 * M, solver=solver, tol=1e-6, max_iter=100_000)
    expected = 4 * np.sum(M * (NOISY - found.W @ found.H) ** 2)
    assert found.objective == pytest.approx(expected, rel=1e-10)
    error = 100 * np.sum(M * (NOISY - found.W @ found.H) ** 2) / np.sum(M * NOISY**2)
    assert found.fitting_error == pytest.approx(error, rel=1e-10)
    assert kkt_residual(NOISY, found.W, found.H, weights=8 * M) < 1e-3


@pytest.mark.parametrize(
    "more",
    [{}, {"alpha_W": 1e-3, "alpha_H": 2e-3, "l1_ratio": 0.4}, {"hold": {"H": [0], "W": [2]}}],
)
@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sp.csr_array])
def test_few_missing_values_lead_to_the_optimum_of_weights(kind, more):
    """Sweeps over completed data and line by line are two ways to one end."""
    options = {"init": START, "tol": 1e-10, "max_iter": 100_000, **more}
    completed = nmf(kind(FEW), 3, **options)
    assert check_X(kind(FEW)).weights.few_missing
    almost = np.where(np.isnan(FEW), 0, 1.0)
    almost[0, 1] = 1 - 1e-12  # weights of their own keep sweeps line by line
    by_lines = nmf(NOISY, 3, weights=almost, **options)
    assert completed.objective == pytest.approx(by_lines.objective, rel=1e-8)
    np.testing.assert_allclose(completed.W @ completed.H, by_lines.W @ by_lines.H, atol=1e-5)
    if not more:
        assert kkt_residual(FEW, completed.W, completed.H) < 1e-8


@pytest.mark.parametrize("n_jobs", [2, 5])
def test_the_bits_of_completed_data_do_not_depend_on_threads(n_jobs):
    own = np.random.default_rng(0)
    large = np.where(own.random((900, 700)) < 0.1, np.nan, own.random((900, 700)))
    options = {"init": "random", "tol": 1e-2}
    same(nmf(large, 20, n_jobs=n_jobs, **options), nmf(large, 20, n_jobs=1, **options))


def test_the_objective_never_rises():
    errors = []
    nmf(NOISY, 4, weights=M, tol=1e-5, callback=lambda p: errors.append(p.fitting_error))
    errors = np.array([e for e in errors if np.isfinite(e)])
    assert len(errors) > 5
    assert (np.diff(errors) <= 1e-9 * errors[:-1]).all()


def test_penalties_and_held_components_go_with_weights():
    options = {"weights": M, "alpha_W": 0.01, "l1_ratio": 0.5}
    found = nmf(NOISY, 3, init=START, hold={"H": [1]}, **options)
    np.testing.assert_array_equal(found.H[1], START[1][1])
    W, H = found.W, found.H
    penalty = sum(
        0.01 * size * (0.5 * F.sum() + 0.25 * np.sum(F**2)) for F, size in ((W, 30), (H, 40))
    )
    loss = 0.5 * np.sum(M * (NOISY - W @ H) ** 2)
    assert found.objective == pytest.approx(loss + penalty, rel=1e-10)
    np.testing.assert_allclose(
        nmf(NOISY, 3, init=START, weights=4 * M, alpha_W=0.04, l1_ratio=0.5).W,
        nmf(NOISY, 3, init=START, **options).W,
        rtol=1e-8,
    )


@pytest.mark.parametrize("given", [HOLES + 0.0, FEW, sp.csr_array(np.where(OBSERVED, NOISY, 0))])
def test_a_run_that_was_stopped_continues_to_the_same_bits(given, tmp_path):
    options = {"missing": "zeros" if sp.issparse(given) else "nan", "tol": 1e-7}
    whole = nmf_merge(given, 4, **options)
    file, seen = tmp_path / "run", []

    def callback(progress):
        seen.append(progress)
        if len(seen) == 40:
            raise Killed

    with pytest.raises(Killed):
        nmf_merge(given, 4, checkpoint=file, callback=callback, **options)
    same(nmf_merge(given, 4, checkpoint=file, **options), whole)
    with pytest.raises(ValueError, match=r"other|another"):
        nmf_merge(NOISY, 4, checkpoint=file, weights=M, tol=1e-7)


def test_recovered_components_never_make_the_fit_worse():
    W, H = (np.array(F) for F in (START[0][:, :2], START[1][:2]))
    before = np.sum(M * (NOISY - W @ H) ** 2)
    W, H, strengths = recover_components(NOISY, W, H, 1, weights=M)
    assert np.sum(M * (NOISY - W @ H) ** 2) < before
    assert strengths.shape == (1,)


def test_a_path_has_the_errors_of_what_is_observed():
    path = rank_path(HOLES, 4)
    assert path[3].fitting_error < 1e-4 < path[2].fitting_error
    assert (np.diff(path.fitting_errors) <= 0).all()


def test_the_estimator_takes_missing_values_and_weights():
    model = NMFMerge(3, tol=1e-8, max_iter=50_000)
    W = model.fit_transform(HOLES)
    np.testing.assert_allclose(W @ model.components_, X, atol=1e-5)
    assert model.__sklearn_tags__().input_tags.allow_nan
    assert not NMFMerge(solver="gcd").__sklearn_tags__().input_tags.allow_nan
    np.testing.assert_array_equal(model.transform(HOLES), W)
    np.testing.assert_array_equal(model.transform(X, weights=OBSERVED), W)
    np.testing.assert_array_equal(transform(np.ma.masked_array(X, ~OBSERVED), model.components_), W)
    np.testing.assert_array_equal(model.transform(np.ma.masked_array(X, ~OBSERVED)), W)
    assert model.score(HOLES) == pytest.approx(1, abs=1e-8)
    weighted = NMFMerge(3).fit(NOISY, weights=9 * M)
    W = weighted.transform(NOISY, weights=M)
    norm = np.sqrt(9 * np.sum(M * (NOISY - W @ weighted.components_) ** 2))
    assert weighted.reconstruction_err_ == pytest.approx(norm, rel=1e-9)
    ratings = NMFMerge(3, missing="zeros").fit(sp.csr_array(np.where(OBSERVED, NOISY, 0)))
    np.testing.assert_allclose(
        ratings.components_,
        NMFMerge(3).fit(NOISY, weights=sp.csr_array(1.0 * OBSERVED)).components_,
    )


def test_a_row_may_have_an_entry_that_no_other_row_has():
    H = NMFMerge(3).fit(HOLES).components_
    alone = transform(HOLES[5:6], H)
    np.testing.assert_allclose(alone, transform(HOLES, H)[5:6], rtol=1e-10)
    with pytest.raises(ValueError, match="X has no observed entry in row 0"):
        transform(np.full((1, 30), np.nan), H)


def test_scores_of_dask_arrays_with_missing_values_need_the_squared_error():
    da = pytest.importorskip("dask.array")
    holes = da.from_array(HOLES, chunks=(20, 30))
    model = NMFMerge(3, beta_loss="kullback-leibler").fit(X)
    with pytest.raises(ValueError, match=r"X has missing values, which score of a Dask array"):
        model.score(holes)
    with pytest.raises(ValueError, match=r"cannot be used for the score of a Dask array"):
        model.score(da.from_array(X, chunks=(20, 30)), weights=M)
    model.set_params(missing="zeros")
    for use in (model.score, model.transform):
        with pytest.raises(ValueError, match=r"is for a sparse X in memory, and X is a Dask array"):
            use(da.from_array(X, chunks=(20, 30)))


COUNTS = rng.poisson(20 * X + 0.5).astype(float)
KL = {"beta_loss": "kl"}


@pytest.mark.parametrize("weights", [OBSERVED, M, sp.csr_array(M)], ids=["0/1", "dense", "sparse"])
def test_missing_counts_may_be_anything_without_changing_a_bit(weights):
    first = nmf_merge(COUNTS, 3, weights=weights, tol=1e-3, **KL)
    for value in (0.0, np.inf, -5.0, np.nan):
        given = np.where(OBSERVED, COUNTS, value)
        same(nmf_merge(given, 3, weights=weights, tol=1e-3, **KL), first)
    if weights is OBSERVED:
        same(nmf_merge(np.where(OBSERVED, COUNTS, np.nan), 3, tol=1e-3, **KL), first)


def test_a_weight_of_two_is_a_row_of_counts_that_comes_twice():
    twice = np.ones(len(COUNTS))
    twice[4] = 2
    options = {"tol": 1e-9, "max_iter": 100_000, **KL}
    once = nmf(COUNTS, 3, weights=twice, init=START, **options)
    longer = np.vstack([COUNTS, COUNTS[4:5]]), np.vstack([START[0], START[0][4:5]])
    repeated = nmf(longer[0], 3, init=(longer[1], START[1]), **options)
    assert once.objective == pytest.approx(repeated.objective, rel=1e-8)
    assert once.fitting_error == pytest.approx(repeated.fitting_error, rel=1e-6)


@pytest.mark.parametrize("solver", ["accelerated", "mu"])
def test_weights_of_rows_of_counts_are_those_of_a_rescaled_matrix(solver):
    of_rows = rng.random((len(COUNTS), 1)) + 0.2
    options = {"tol": 1e-8, "max_iter": 100_000, "solver": solver, **KL}
    weighted = nmf(COUNTS, 3, weights=of_rows, init=START, **options)
    rescaled = nmf(of_rows * COUNTS, 3, init=(of_rows * START[0], START[1]), **options)
    assert weighted.objective == pytest.approx(rescaled.objective, rel=1e-6)


@pytest.mark.parametrize("given", [HOLES, sp.csr_array(HOLES)], ids=["dense", "sparse"])
def test_a_matrix_of_low_rank_is_recovered_under_the_divergence(given):
    found = nmf_merge(given, 3, tol=1e-8, max_iter=50_000, **KL)
    np.testing.assert_allclose(found.W @ found.H, X, atol=1e-4 * X.max())


def test_penalties_and_held_components_go_with_weights_of_counts():
    found = nmf(COUNTS, 3, init=START, hold={"H": [1]}, weights=M, alpha_W=0.01, **KL)
    np.testing.assert_array_equal(found.H[1], START[1][1])
    y = found.W @ found.H
    known = (COUNTS > 0) & (M > 0)
    logs = np.log(np.where(known, COUNTS, 1) / np.where(known, y, 1))
    divergence = COUNTS * logs - COUNTS + y
    penalty = 0.005 * (30 * np.sum(found.W**2) + 40 * np.sum(found.H**2))
    assert found.objective == pytest.approx(np.sum(M * divergence) + penalty, rel=1e-9)


def test_paths_and_estimators_take_missing_counts():
    given = np.where(OBSERVED, COUNTS, np.nan)
    path = rank_path(given, 4, **KL)
    assert (np.diff(path.fitting_errors) <= 0).all()
    model = NMFMerge(3, **KL)
    W = model.fit_transform(given)
    np.testing.assert_array_equal(model.transform(given), W)
    assert 0.3 < model.score(given) < 1


def test_results_say_that_errors_are_of_what_was_observed(tmp_path):
    found = nmf(HOLES, 3)
    share = 100 * np.mean(~OBSERVED)
    assert f" % of the observed entries ({share:.3g} % of all are missing), " in repr(found)
    assert unpack_result(*pack_result(found)).n_missing == np.count_nonzero(~OBSERVED)
    assert "observed" not in repr(nmf(NOISY, 3))
