"""Penalties: the steps of scikit-learn, the value by its definition, and no effect of scale."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import non_negative_factorization

from nmfmerge import NMFMerge, metrics, nmf, nmf_merge
from nmfmerge.arguments.errors import option_style, written
from nmfmerge.losses import FROBENIUS, Penalty, Problem
from nmfmerge.matrices import wrap
from nmfmerge.solvers import Batch

WEIGHTS = [
    {"alpha_W": 0.01, "l1_ratio": 1.0},
    {"alpha_W": 0.01, "l1_ratio": 0.0},
    {"alpha_W": 0.004, "alpha_H": 0.02, "l1_ratio": 0.3},
]


@pytest.fixture
def case(rng):
    X = rng.random((40, 5)) @ rng.random((5, 30)) + 0.1 * rng.random((40, 30))
    return X, rng.random((40, 4)), rng.random((4, 30))


def value(X, W, H, alpha_W=0.0, alpha_H="same", l1_ratio=0.0):
    """The objective as scikit-learn's documentation states it."""
    m, n = X.shape
    alpha_H = alpha_W if alpha_H == "same" else alpha_H
    on_W = l1_ratio * W.sum() + 0.5 * (1 - l1_ratio) * np.sum(W**2)
    on_H = l1_ratio * H.sum() + 0.5 * (1 - l1_ratio) * np.sum(H**2)
    return 0.5 * np.sum((X - W @ H) ** 2) + alpha_W * n * on_W + alpha_H * m * on_H


@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
@pytest.mark.parametrize(("solver", "theirs"), [("hals", "cd"), ("mu", "mu")])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_penalised_steps_are_those_of_scikit_learn(case, weights, solver, theirs):
    X, W, H = case
    if solver == "mu":  # scikit-learn updates W first
        X, W, H = X.T, H.T, W.T
        alpha_H = weights.get("alpha_H", weights["alpha_W"])
        ours = {**weights, "alpha_W": weights["alpha_W"], "alpha_H": alpha_H}
        found = nmf(
            X.T,
            4,
            init=(H.T, W.T),
            solver="mu",
            max_iter=20,
            tol=0,
            **{
                "alpha_W": ours["alpha_H"],
                "alpha_H": ours["alpha_W"],
                "l1_ratio": ours["l1_ratio"],
            },
        )
        found_W, found_H = found.H.T, found.W.T
    else:
        found = nmf(X, 4, init=(W, H), solver=solver, max_iter=20, tol=0, **weights)
        found_W, found_H = found.W, found.H
    W_sk, H_sk, _ = non_negative_factorization(
        X, W=W.copy(), H=H.copy(), init="custom", n_components=4, solver=theirs, tol=0,
        max_iter=20, **weights,
    )  # fmt: skip
    rtol = 1e-10 if solver == "hals" else 1e-5  # offsets in denominators differ
    np.testing.assert_allclose(found_W, W_sk, rtol=rtol, atol=rtol * W_sk.max())
    np.testing.assert_allclose(found_H, H_sk, rtol=rtol, atol=rtol * H_sk.max())


@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
@pytest.mark.parametrize("scale", [1.0, 4.0**7, 3e-5])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_objective_of_a_result_has_the_penalty_in_it(case, weights, scale):
    X, W, H = case
    X = scale * X
    result = nmf(X, 4, init=(W, H), max_iter=7, **weights)
    assert result.objective == pytest.approx(value(X, result.W, result.H, **weights), rel=1e-10)
    assert result.fitting_error == pytest.approx(metrics.fitting_error(X, result.W, result.H))


@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
def test_the_value_of_a_batch_is_the_objective(case, weights):
    X, W, H = case
    data = wrap(X)
    penalty = Penalty.of(
        weights["alpha_W"], weights.get("alpha_H", "same"), weights["l1_ratio"], X.shape
    )
    problem = Problem(data, FROBENIUS, penalty)
    batch = Batch(problem, np.ascontiguousarray(W.T)[None], H[None].copy())
    for prepare in (lambda: None, lambda: batch.cross("W"), lambda: batch.cross("H")):
        batch.forget_products()
        prepare()
        assert batch.value()[0] == pytest.approx(value(X, W, H, **weights), rel=1e-12)
    assert batch.fitting_errors()[0] == pytest.approx(metrics.fitting_error(X, W, H), rel=1e-9)


@pytest.mark.parametrize("solver", ["accelerated", "hals", "gcd", "alspgrad"])
@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
def test_a_penalised_fit_is_a_stationary_point(case, solver, weights):
    X, *start = case
    result = nmf(X, 4, init=tuple(start), solver=solver, tol=1e-9, max_iter=100_000, **weights)
    W, H, R = result.W, result.H, result.W @ result.H - X
    (m, n), alpha_W, l1 = X.shape, weights["alpha_W"], weights["l1_ratio"]
    alpha_H = weights.get("alpha_H", alpha_W)
    gradients = (
        (W, R @ H.T + alpha_W * n * (l1 + (1 - l1) * W)),
        (H, W.T @ R + alpha_H * m * (l1 + (1 - l1) * H)),
    )
    for F, gradient in gradients:
        moved = F - np.maximum(0, F - gradient)  # zero at a stationary point only
        assert np.abs(moved).max() < 1e-5


def test_without_weights_nothing_changes(case):
    X, *_ = case
    plain, zero = nmf_merge(X, 4), nmf_merge(X, 4, alpha_W=0.0, l1_ratio=0.7)
    assert np.array_equal(plain.W, zero.W)
    assert plain.objective == zero.objective


def test_l1_makes_merged_fits_sparse_and_several_starts_keep_the_least_objective(case):
    X, *_ = case
    result = nmf_merge(X, 4, alpha_W=0.02, l1_ratio=1.0, return_all=True)
    assert np.mean(result.H == 0) > np.mean(nmf_merge(X, 4).H == 0)
    assert result.objective == min(solution.objective for solution in result.solutions)


def test_sparse_x_is_penalised_as_dense(case):
    X, W, H = case
    X = np.where(np.median(X) < X, X, 0)
    dense, sparse = (nmf(A, 4, init=(W, H), alpha_W=0.01) for A in (X, sp.csr_array(X)))
    np.testing.assert_allclose(sparse.W @ sparse.H, dense.W @ dense.H, atol=1e-3)
    assert sparse.objective == pytest.approx(dense.objective, rel=1e-6)


def test_held_components_stay_while_others_are_penalised(case):
    X, W, H = case
    result = nmf(X, 4, init=(W, H), hold={"H": [0, 1]}, alpha_W=0.01, l1_ratio=0.5)
    assert np.array_equal(result.H[:2], H[:2])
    expected = value(X, result.W, result.H, alpha_W=0.01, l1_ratio=0.5)
    assert result.objective == pytest.approx(expected, rel=1e-10)


def test_a_penalty_on_one_factor_alone_is_warned_of(case):
    X, W, H = case
    with pytest.warns(UserWarning, match="on W alone.*alpha_H='same'") as warned:
        nmf(X, 4, alpha_W=0.01, alpha_H=0.0, max_iter=10_000, tol=1e-2)
    typed = written(warned[0].message, option_style({"alpha_H": "--alpha-H"}))
    assert "penalise both (--alpha-H 'same')" in typed
    nmf(X, 4, init=(W, H), hold={"H": range(4)}, alpha_W=0.01, alpha_H=0.0)  # H cannot grow


def test_transform_penalises_weights_as_the_fit_does(case):
    X, *_ = case
    model = NMFMerge(4, alpha_W=0.02, l1_ratio=0.5, tol=1e-6)
    W = model.fit_transform(X)
    assert np.array_equal(W, model.transform(X))
    weights = {"alpha_W": 0.02, "l1_ratio": 0.5}
    best = value(X, W, model.components_, **weights)
    for step in (0.99, 1.01):
        assert best < value(X, step * W, model.components_, **weights)


@pytest.mark.parametrize("scale", [1e-310, 1e-290, 1e290])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_data_of_any_size_are_fitted_without_a_penalty(case, scale):
    X, *_ = case
    np.testing.assert_allclose(
        nmf(scale * X, 3, max_iter=20).fitting_error,
        nmf(X, 3, max_iter=20).fitting_error,
        rtol=1e-3,
    )
