"""The weighted squared error: its sweeps, values, gradient, known weights, completed data."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import nnls

from nmfmerge import metrics, transform
from nmfmerge.inputs.check import check_X
from nmfmerge.losses import FROBENIUS, WEIGHTED_SQUARES, Penalty, Problem
from nmfmerge.solvers import Batch

M, N, R = 23, 17, 3
rng = np.random.default_rng(7)
X = rng.random((M, N))
HOLES = rng.random(X.shape) < 0.3
SOME = np.where(HOLES, 0, rng.random(X.shape) + 0.2)

DATA = {
    "few missing": (np.where(HOLES, np.nan, X), {}),
    "most missing": (np.where(rng.random(X.shape) < 0.45, X, np.nan), {}),
    "weights": (X, {"weights": SOME}),
    "sparse weights": (X, {"weights": sp.csr_array(SOME)}),
    "ratings": (sp.csr_array(np.where(HOLES, 0, X)), {"absent": "zeros"}),
    "sparse": (sp.csr_array(np.where(HOLES, np.nan, X * (X > 0.5))), {}),
    "columns": (np.asfortranarray(np.where(HOLES, np.nan, X)), {}),
}


FEW = np.where(np.add.outer(np.arange(M), np.arange(N)) % 4, X, np.nan), {}


def made(name, dtype=np.float64):
    given, options = FEW if name == "a few missing" else DATA[name]
    data = check_X(given.astype(dtype), **options)
    weights = data.weights.rows(slice(None)).astype(float)
    known = data.X.toarray() if sp.issparse(data.X) else data.X
    return data, known.astype(float) / data.unit**2, weights


def start(dtype=np.float64, n=2):
    own = np.random.default_rng(1)
    return own.random((n, R, M)).astype(dtype), own.random((n, R, N)).astype(dtype)


def loss(x, weights, Wt, H):
    return 0.5 * np.sum(weights * (x - Wt.T.astype(float) @ H) ** 2)


def swept(x, weights, F, fixed, l1=0.0, l2=0.0):
    """One coordinate descent sweep, from the definition."""
    F = F.astype(float).copy()
    for i in range(F.shape[1]):
        for t in range(len(F)):
            m, f = weights[i], fixed[t]
            rest = x[i] - F[:, i] @ fixed + F[t, i] * f
            F[t, i] = max(0, (np.sum(m * f * rest) - l1) / (np.sum(m * f * f) + l2))
    return F


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", DATA)
def test_a_sweep_moves_each_coordinate_to_its_minimum(name, dtype):
    data, x, weights = made(name, dtype)
    Wt, H = start(dtype)
    passes, near = (
        Problem(data, FROBENIUS).entrywise,
        {"rtol": 1e-4 if dtype is np.float32 else 1e-9},
    )
    expected = [swept(x, weights, *pair, l1=0.01, l2=0.1) for pair in zip(Wt, H, strict=True)]
    before = Wt.copy()
    moved, total, seen = passes.sweep_("W", Wt, H, value=True, l1=0.01, l2=0.1)
    np.testing.assert_allclose(Wt, expected, **near, atol=1e-6 if dtype == np.float32 else 1e-12)
    for norms, change in ((moved, Wt - before), (total, Wt + before)):
        np.testing.assert_allclose(norms, np.square(change).sum(axis=2), rtol=1e-4)
    values = [loss(x, weights, *pair) for pair in zip(Wt, H, strict=True)]
    np.testing.assert_allclose(passes.value(Wt, H, seen), values, rtol=1e-4)
    np.testing.assert_allclose(passes.value(Wt, H), values, rtol=1e-4)
    expected = [swept(x.T, weights.T, H1, W1) for W1, H1 in zip(Wt, H, strict=True)]
    passes.sweep_("H", H, Wt)
    np.testing.assert_allclose(H, expected, **near, atol=1e-6 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("name", DATA)
def test_a_multiplicative_update_is_that_of_the_definition(name):
    data, x, weights = made(name)
    Wt, H = start()
    expected = [
        W1 * ((weights * x) @ H1.T).T / ((weights * (W1.T @ H1)) @ H1.T + 0.3 + 0.2 * W1.T).T
        for W1, H1 in zip(Wt, H, strict=True)
    ]
    Problem(data, FROBENIUS).entrywise.mu_step_("W", Wt, H, l1=0.3, l2=0.2)
    np.testing.assert_allclose(Wt, expected, rtol=1e-10)


@pytest.mark.parametrize("name", DATA)
def test_values_and_sizes_are_of_what_is_observed(name):
    data, x, weights = made(name)
    Wt, H = start()
    problem = Problem(data, FROBENIUS)
    assert problem.loss is WEIGHTED_SQUARES
    assert problem.size == pytest.approx(0.5 * np.sum(weights * x**2), rel=1e-12)
    values = [loss(x, weights, *pair) for pair in zip(Wt, H, strict=True)]
    np.testing.assert_allclose(problem.exact_losses(Wt, H), values, rtol=1e-12)
    np.testing.assert_allclose(Batch(problem, Wt, H).value(), values, rtol=1e-12)


@pytest.mark.parametrize("name", DATA)
def test_values_are_accurate_where_the_fit_is_huge_at_a_missing_entry(name):
    data, x, weights = made(name)
    i, j = np.argwhere(weights == 0)[0]
    Wt, H = start(n=1)
    Wt[0, 0], H[0, 0] = np.eye(M)[i], 1e8 * np.eye(N)[j]
    value = Problem(data, FROBENIUS).exact_losses(Wt, H)[0]
    assert value == pytest.approx(loss(x, weights, Wt[0], H[0]), rel=1e-8)


@pytest.mark.parametrize("name", DATA)
def test_the_distance_from_completed_data_bounds_the_loss_and_agrees_at_the_factors(name):
    data, x, weights = made(name)
    (Wt, other), (H, another) = start()
    completed = data.completed(Wt, H)
    X_hat = weights * x + (1 - weights) * (Wt.T @ H)
    np.testing.assert_allclose(completed.HXt(H, np.empty_like(Wt)), H @ X_hat.T, rtol=1e-12)
    np.testing.assert_allclose(completed.WtX(Wt, np.empty_like(H)), Wt @ X_hat, rtol=1e-12)
    assert completed.norm2 == pytest.approx(np.sum(X_hat**2), rel=1e-12)
    rise = loss(x, weights, other, another) - loss(x, weights, Wt, H)
    bound = completed.residual_norm2(other, another) - completed.residual_norm2(Wt, H)
    assert rise <= 0.5 * bound + 1e-12


@pytest.mark.parametrize("name", DATA)
def test_margins_have_the_sums_of_what_is_observed(name):
    data, x, weights = made(name)
    w, h = data.margins()
    fit = weights * (w.T @ h)
    for axis in (0, 1):
        np.testing.assert_allclose(fit.sum(axis=axis), (weights * x).sum(axis=axis), rtol=1e-4)


@pytest.mark.parametrize("name", sorted(set(DATA) - {"most missing"}))  # which converges slowly
def test_the_residual_of_optimality_is_zero_where_the_gradient_is_by_finite_differences(name):
    data, x, weights = made(name)
    Wt, H = start(n=1)
    problem = Problem(data, FROBENIUS)
    for _ in range(2000):
        problem.entrywise.sweep_("W", Wt, H, n_sweeps=2)
        problem.entrywise.sweep_("H", H, Wt, n_sweeps=2)
    assert problem.loss.kkt_residual(Batch(problem, Wt, H))[0] < 1e-6
    for F in (Wt, H):
        for at in np.ndindex(F.shape):
            kept, slope = F[at], []
            for step in (1e-6, -1e-6):
                F[at] = kept + step
                slope.append(loss(x, weights, Wt[0], H[0]))
                F[at] = kept
            gradient = (slope[0] - slope[1]) / 2e-6
            assert gradient > -1e-5
            assert kept == 0 or gradient < 1e-5


@pytest.mark.parametrize("name", DATA)
def test_known_components_get_the_weights_of_scipys_nnls(name):
    given, options = DATA[name]
    _, x, weights = made(name)
    data = check_X(given, **options)
    H = np.random.default_rng(2).random((R, N))
    expected = [
        nnls(np.sqrt(m)[:, None] * H.T, np.sqrt(m) * row)[0]
        for m, row in zip(weights, x, strict=True)
    ]
    options = {"missing" if key == "absent" else key: value for key, value in options.items()}
    found = transform(given, H, **options)
    np.testing.assert_allclose(found, np.array(expected) * data.unit**2, atol=1e-12)


def test_lines_of_which_little_is_known_lose_no_digits():
    A = np.ones((3, 40))
    A[0, 1:] = np.nan
    data = check_X(A)
    H = np.full((1, 1, 40), 1.0)
    H[0, 0, 0] = 1e-9  # where the first row is known
    Wt = np.ones((1, 1, 3))
    Problem(data, FROBENIUS).entrywise.sweep_("W", Wt, H)
    np.testing.assert_allclose(Wt[0, 0, 0], 1e9 / data.unit**2, rtol=1e-12)


def test_a_penalty_is_beside_the_weights_that_the_user_gave():
    H = np.random.default_rng(2).random((R, N))
    options = {"alpha_W": 0.01, "l1_ratio": 0.5}
    once = transform(X, H, weights=8 * SOME, **options)
    of_rows = transform(X, H, weights=SOME, alpha_W=0.01 / 8, l1_ratio=0.5)
    np.testing.assert_allclose(once, of_rows, atol=1e-12)
    problem = Problem(check_X(X), FROBENIUS, Penalty())
    assert problem.loss is FROBENIUS


def test_metrics_count_what_is_observed():
    Wt, H = start(n=1)
    W, H = Wt[0].T, H[0]
    error = 100 * np.sum(SOME * (X - W @ H) ** 2) / np.sum(SOME * X**2)
    assert metrics.fitting_error(X, W, H, weights=SOME) == pytest.approx(error, rel=1e-12)
    assert metrics.kkt_residual(X, W, H, weights=SOME) > 0.01


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("side", ["W", "H"])
def test_sweeps_where_few_are_missing_are_those_of_completed_data_and_lower_the_loss(side, dtype):
    data, x, weights = made("a few missing", dtype)
    assert data.weights.few_missing
    Wt, H = start(dtype)
    before = [loss(x, weights, *pair) for pair in zip(Wt, H, strict=True)]
    full = [np.where(weights > 0, x, W.T.astype(float) @ h) for W, h in zip(Wt, H, strict=True)]
    F, fixed = (Wt, H) if side == "W" else (H, Wt)
    expected = [
        swept(X if side == "W" else X.T, np.ones(X.shape if side == "W" else X.T.shape), *pair)
        for X, pair in zip(full, zip(F, fixed, strict=True), strict=True)
    ]
    free = np.array([True, False, True])
    held = F[:, 1].copy()
    problem = Problem(data, FROBENIUS)
    passes = problem.loss.entrywise(data)
    only = F.copy()
    passes.sweep_(side, only, fixed, free=free)
    np.testing.assert_array_equal(only[:, 1], held)
    seen = passes.sweep_(side, F, fixed, value=True)[2]
    tolerance = 1e-12 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(F, expected, rtol=tolerance, atol=tolerance)
    after = [loss(x, weights, *pair) for pair in zip(Wt, H, strict=True)]
    np.testing.assert_allclose(passes.value(Wt, H, seen), after, rtol=10 * tolerance)
    assert all(a < b for a, b in zip(after, before, strict=True))


def test_where_much_of_a_line_is_missing_sweeps_go_line_by_line():
    holes = X.copy()
    holes[0, : N // 2 + 1] = np.nan
    assert not check_X(holes).weights.few_missing
    holes[0, 0] = X[0, 0]
    assert check_X(holes).weights.few_missing


@pytest.mark.parametrize("form", [np.array, sp.csr_array])
def test_numbers_near_the_end_of_their_range_lose_no_digits_to_weights(form):
    rng = np.random.default_rng(4)
    X, weights = rng.integers(0, 2**12, (9, 7)) * 1.0, rng.random((9, 7))
    tiny = check_X(form(np.ldexp(X, -1070)), weights=weights)  # of denormal numbers
    plain = check_X(form(X), weights=weights)
    F = rng.random((1, 2, 7))
    np.testing.assert_array_equal(tiny.cross("W", F), plain.cross("W", F))
    assert tiny.norm2 == plain.norm2
