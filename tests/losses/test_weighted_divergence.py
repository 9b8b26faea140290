"""The weighted divergence: values, sweeps, size, gradient, merges, against the definition."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import xlogy

from nmfmerge import metrics, transform
from nmfmerge.inputs.check import check_X
from nmfmerge.losses import KULLBACK_LEIBLER, Problem
from nmfmerge.losses.kl_recovery import score_svd
from nmfmerge.losses.kullback_leibler import divergence_of

M, N, R = 22, 18, 3
rng = np.random.default_rng(5)
X = rng.poisson(3 * rng.random((M, 4)) @ rng.random((4, N))).astype(float)
X[0] += 1
X[:, 0] += 1
HOLES = rng.random(X.shape) < 0.3
SOME = np.where(HOLES, 0, rng.random(X.shape) + 0.2)

DATA = {
    "few missing": (np.where(HOLES, np.nan, X), {}),
    "most missing": (np.where(rng.random(X.shape) < 0.45, X, np.nan), {}),
    "weights": (X, {"weights": SOME}),
    "sparse weights": (X, {"weights": sp.csr_array(SOME)}),
    "ratings": (sp.csr_array(np.where(HOLES, 0, X)), {"absent": "zeros"}),
    "sparse": (sp.csr_array(np.where(HOLES, np.nan, X)), {}),
}


def made(name, dtype=np.float64):
    given, options = DATA[name]
    data = check_X(given.astype(dtype), **options)
    weights = data.weights.rows(slice(None)).astype(float)
    known = data.X.toarray() if sp.issparse(data.X) else data.X
    return data, known.astype(float) / data.unit**2, weights


def start(n=2):
    own = np.random.default_rng(1)
    return own.random((n, R, M)), own.random((n, R, N))


def loss(x, weights, Wt, H):
    y = Wt.T @ H
    return np.sum(weights * (xlogy(x, x) - xlogy(x, y) - x + y))


@pytest.mark.parametrize("name", DATA)
def test_values_are_those_of_what_is_observed(name):
    data, x, weights = made(name)
    Wt, H = start()
    values = [loss(x, weights, *pair) for pair in zip(Wt, H, strict=True)]
    divergence = divergence_of(data)
    np.testing.assert_allclose(divergence.value(Wt, H), values, rtol=1e-11)
    np.testing.assert_allclose(divergence.exact_values(Wt, H), values, rtol=1e-12)
    single = check_X(DATA[name][0].astype(np.float32), **DATA[name][1])
    Wt, H = Wt.astype(np.float32), H.astype(np.float32)
    np.testing.assert_allclose(divergence_of(single).exact_values(Wt, H), values, rtol=1e-5)


@pytest.mark.parametrize("name", DATA)
def test_values_are_accurate_where_the_fit_is_huge_at_a_missing_entry(name):
    data, x, weights = made(name)
    i, j = np.argwhere(weights == 0)[0]
    Wt, H = start(1)
    Wt[0, 0], H[0, 0] = np.eye(M)[i], 1e15 * np.eye(N)[j]
    value = divergence_of(data).exact_values(Wt, H)[0]
    assert value == pytest.approx(loss(x, weights, Wt[0], H[0]), rel=1e-8)


@pytest.mark.parametrize("name", DATA)
def test_a_sweep_never_raises_the_loss_and_ends_where_its_gradient_is_zero(name):
    data, x, weights = made(name)
    Wt, H = start(n=1)
    divergence, last = divergence_of(data), np.inf
    for _ in range(300):
        divergence.sweep_("W", Wt, H)
        seen = divergence.sweep_("H", H, Wt, value=True)[2]
        now = loss(x, weights, Wt[0], H[0])
        assert now <= last * (1 + 1e-12)
        np.testing.assert_allclose(divergence.value(Wt, H, seen)[0], now, rtol=1e-9)
        last = now
    for _ in range(3000):
        divergence.sweep_("W", Wt, H)
    assert np.isfinite(last)
    for at in np.ndindex(Wt.shape):
        kept, slope = Wt[at], []
        step = 1e-6 * max(kept, 1e-3)
        for sign in (1, -1):
            Wt[at] = max(kept + sign * step, 0)
            slope.append(loss(x, weights, Wt[0], H[0]))
            Wt[at] = kept
        gradient = (slope[0] - slope[1]) / (2 * step if kept > 0 else step)
        assert gradient > -1e-4
        assert kept < 1e-6 or gradient < 1e-4


@pytest.mark.parametrize("name", DATA)
def test_a_multiplicative_update_is_that_of_the_definition(name):
    data, x, weights = made(name)
    Wt, H = start()
    expected = []
    for W1, H1 in zip(Wt, H, strict=True):
        psi = H1 @ (weights * x / (W1.T @ H1)).T
        expected.append(W1 * psi / (H1 @ weights.T + 0.3 + 0.2 * W1))
    divergence_of(data).mu_step_("W", Wt, H, l1=0.3, l2=0.2)
    np.testing.assert_allclose(Wt, expected, rtol=1e-10)


@pytest.mark.parametrize("name", DATA)
def test_the_size_is_what_the_best_fit_of_rank_one_leaves(name):
    data, x, weights = made(name)
    divergence = divergence_of(data)
    Wt, H = np.ones((1, 1, M)), np.ones((1, 1, N))
    for _ in range(500):
        divergence.sweep_("W", Wt, H)
        divergence.sweep_("H", H, Wt)
    assert divergence.size == pytest.approx(loss(x, weights, Wt[0], H[0]), rel=1e-9)


@pytest.mark.parametrize("name", DATA)
def test_rises_of_merges_are_those_of_the_loss(name):
    data, x, weights = made(name)
    (Wt, _), (H, _) = start()
    w_steps, h_steps = 0.1 * rng.random((4, M)) * Wt[0], 0.1 * rng.random((4, N)) * H[0]
    before = np.sum(weights * (Wt.T @ H - xlogy(x, Wt.T @ H)))
    expected = []
    for w, h in zip(w_steps, h_steps, strict=True):
        y = Wt.T @ H - np.outer(w, h)
        expected.append(np.sum(weights * (y - xlogy(x, y))) - before)
    rises = divergence_of(data).rises(Wt, H, w_steps, h_steps)
    np.testing.assert_allclose(rises, expected, rtol=1e-7)


@pytest.mark.parametrize("name", DATA)
def test_the_score_is_zero_where_nothing_is_observed(name):
    data, x, weights = made(name)
    (Wt, _), (H, _) = start()
    scores = weights * (x / (Wt.T @ H) - 1)
    rows, columns = (np.sqrt((weights * x).sum(axis=axis)) for axis in (1, 0))
    expected = np.linalg.svd(rows[:, None] * scores * columns, compute_uv=False)[:2]
    found = score_svd(divergence_of(data), Wt, H, 2)
    np.testing.assert_allclose(found.s, expected, rtol=1e-3)


def test_known_components_and_metrics_are_of_what_is_observed():
    H = np.random.default_rng(2).random((R, N)) + 0.1
    W = transform(X, H, weights=SOME, beta_loss="kl")
    for i in (0, 7):
        alone = transform(X[i : i + 1], H, weights=SOME[i : i + 1], beta_loss="kl")
        np.testing.assert_allclose(W[i : i + 1], alone, rtol=1e-4, atol=1e-6)
    best = loss(X, SOME, W.T, H)
    for factor in (0.99, 1.01):
        assert loss(X, SOME, factor * W.T, H) > best
    data = check_X(X, weights=SOME)
    size = divergence_of(data).size * data.unit**2 * data.weight_unit
    error = metrics.fitting_error(X, W, H, weights=SOME, beta_loss="kl")
    assert error == pytest.approx(100 * best / size, rel=1e-9)


def test_the_share_that_would_move_is_zero_at_the_end():
    data, _, _ = made("weights")
    Wt, H = start(n=1)
    problem = Problem(data, KULLBACK_LEIBLER)
    for _ in range(2000):
        problem.entrywise.sweep_("W", Wt, H)
        problem.entrywise.sweep_("H", H, Wt)
    assert divergence_of(data).kkt_residual(Wt[0], H[0]) < 1e-6
