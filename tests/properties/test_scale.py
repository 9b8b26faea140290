"""X times a power of four: everything scales with it, and nothing else changes, to the bit."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from nmfmerge import (
    NMFMerge,
    datasets,
    merge_components,
    metrics,
    nmf,
    nmf_merge,
    recover_components,
    transform,
)
from nmfmerge.method.init import INITS
from nmfmerge.solvers import SOLVERS

pytestmark = pytest.mark.filterwarnings(
    f"ignore::{ConvergenceWarning.__module__}.{ConvergenceWarning.__name__}"
)

# X stays among normal numbers; float32 has exponents of two from −126 to 127.
EXPONENTS = {"f8": st.integers(-250, 250), "f4": st.integers(-45, 60)}

kinds = st.sampled_from([np.array, np.asfortranarray, sp.csr_array, sp.csc_array])


@st.composite
def cases(draw):
    """X, and an exponent of four that fits its kind of numbers."""
    seed = draw(st.integers(0, 10**6))
    rng = np.random.default_rng(seed)
    m, n, r = draw(st.integers(4, 90)), draw(st.integers(4, 90)), draw(st.integers(1, 4))
    X = rng.random((m, r)) @ rng.random((r, n)) + draw(st.sampled_from([0, 0.1])) * rng.random(
        (m, n)
    )
    X[rng.random((m, n)) < draw(st.sampled_from([0, 0.5]))] = 0
    X *= draw(st.sampled_from([1.0, 0.3, 7.0]))
    dtype = draw(st.sampled_from(sorted(EXPONENTS)))
    return X.astype(dtype), draw(EXPONENTS[dtype])


def times(X, k, kind=np.array):
    return kind(np.ldexp(X, 2 * k))


def assert_scaled(scaled, result, k):
    np.testing.assert_array_equal(scaled.W, np.ldexp(result.W, k))
    np.testing.assert_array_equal(scaled.H, np.ldexp(result.H, k))
    assert scaled.fitting_error == result.fitting_error
    assert [(s.name, s.n_iter, s.fitting_error, s.status) for s in scaled.stages] == [
        (s.name, s.n_iter, s.fitting_error, s.status) for s in result.stages
    ]
    with np.errstate(over="ignore", under="ignore"):
        assert scaled.objective == np.ldexp(result.objective, 4 * k)
        if result.merges is not None:
            expected = np.ldexp(result.merges.penalties, 4 * k)
            np.testing.assert_array_equal(scaled.merges.penalties, expected)


@given(
    case=cases(),
    kind=kinds,
    solver=st.sampled_from(sorted(SOLVERS)),
    init=st.sampled_from(sorted(INITS)),
    r=st.integers(1, 4),
    n_extra=st.integers(0, 3),
)
@settings(max_examples=80)
@pytest.mark.filterwarnings("ignore:n_extra")
def test_a_fit_scales_with_X_and_nothing_else_changes(case, kind, solver, init, r, n_extra):
    X, k = case
    options = {"n_extra": n_extra, "solver": solver, "init": init, "max_iter": 30, "tol": 1e-3}
    result = nmf_merge(times(X, 0, kind), r, **options)
    assert_scaled(nmf_merge(times(X, k, kind), r, **options), result, k)


@given(case=cases(), kind=kinds, half=st.integers(-30, 30))
@settings(max_examples=40)
def test_single_steps_and_metrics_scale_too(case, kind, half):
    X, k = case
    start = nmf(X, 2, max_iter=5, tol=1e-2)
    if min(X.shape) > 2:
        W, H, values = recover_components(times(X, 0, kind), start.W, start.H, 1)
        scaled = recover_components(
            times(X, k, kind), np.ldexp(start.W, k), np.ldexp(start.H, k), 1
        )
        np.testing.assert_array_equal(scaled[0], np.ldexp(W, k))
        np.testing.assert_array_equal(scaled[1], np.ldexp(H, k))
        np.testing.assert_array_equal(scaled[2], values)
    W, H = np.ldexp(start.W, k), np.ldexp(start.H, k)
    for metric in (metrics.fitting_error, metrics.kkt_residual):
        assert metric(times(X, k, kind), W, H) == metric(times(X, 0, kind), start.W, start.H)
    np.testing.assert_array_equal(
        transform(times(X, k, kind), H), np.ldexp(transform(times(X, 0, kind), start.H), k)
    )


@given(
    seed=st.integers(0, 10**6),
    k=st.integers(-250, 250),
    balance=st.integers(-250, 250),
    r=st.integers(2, 8),
)
@settings(max_examples=100)
def test_a_merge_scales_with_its_factors(seed, k, balance, r):
    """W · 4ᵏ⁺ᵇ and H · 4ᵏ⁻ᵇ, up to where their product leaves the range of numbers."""
    rng = np.random.default_rng(seed)
    W, H = (rng.random(shape) * (rng.random(shape) > 0.4) for shape in ((12, r), (r, 10)))
    up, down = k + balance, k - balance
    if max(abs(up), abs(down)) > 230:
        up, down = up // 3, down // 3
    merged = merge_components(W, H)
    scaled = merge_components(np.ldexp(W, 2 * up), np.ldexp(H, 2 * down))
    np.testing.assert_array_equal(scaled[0], np.ldexp(merged[0], 2 * up))
    np.testing.assert_array_equal(scaled[1], np.ldexp(merged[1], 2 * down))
    np.testing.assert_array_equal(scaled[2].pairs, merged[2].pairs)
    with np.errstate(over="ignore", under="ignore"):
        expected = np.ldexp(merged[2].penalties, 4 * (up + down))
    np.testing.assert_array_equal(scaled[2].penalties, expected)


@given(seed=st.integers(0, 10**6), r=st.integers(2, 8))
@settings(max_examples=50)
def test_a_merge_does_not_depend_on_how_components_share_their_size(seed, r):
    rng = np.random.default_rng(seed)
    W, H = (rng.random(shape) * (rng.random(shape) > 0.4) for shape in ((12, r), (r, 10)))
    d = 10.0 ** rng.uniform(-140, 140, r)
    expected, found = merge_components(W, H), merge_components(W * d, H / d[:, None])
    np.testing.assert_array_equal(found[2].pairs, expected[2].pairs)
    np.testing.assert_allclose(found[2].penalties, expected[2].penalties, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(
        found[0] @ found[1], expected[0] @ expected[1], rtol=1e-8, atol=1e-12
    )


@given(seed=st.integers(0, 10**6), low=st.floats(-300, 150), high=st.floats(-300, 150))
@settings(max_examples=50)
def test_metrics_of_two_solutions_do_not_depend_on_the_sizes_of_columns(seed, low, high):
    rng = np.random.default_rng(seed)
    W1, W2 = rng.random((15, 4)), rng.random((15, 4))
    sizes1, sizes2 = (10.0 ** rng.uniform(*sorted((low, high)), 4) for _ in range(2))
    for metric in (metrics.subspace_mismatch, metrics.permutation_mismatch):
        assert metric(W1 * sizes1, W2 * sizes2) == pytest.approx(
            metric(W1, W2), rel=1e-6, abs=1e-12
        )
    order, similarity = metrics.match_components(W1 * sizes1, W2 * sizes2)
    np.testing.assert_array_equal(order, metrics.match_components(W1, W2)[0])
    np.testing.assert_allclose(similarity, metrics.match_components(W1, W2)[1])
    assert np.all((similarity >= 0) & (similarity <= 1 + 1e-12))


@pytest.mark.parametrize("k", [-250, -3, 2, 250])
def test_the_estimator_scales_with_X(k):
    X = datasets.lcms_like(30, 40, 3).X
    model, scaled = NMFMerge(3, tol=1e-3), NMFMerge(3, tol=1e-3)
    W = model.fit_transform(X)
    np.testing.assert_array_equal(scaled.fit_transform(times(X, k)), np.ldexp(W, k))
    np.testing.assert_array_equal(scaled.components_, np.ldexp(model.components_, k))
    assert scaled.reconstruction_err_ == np.ldexp(model.reconstruction_err_, 2 * k)
    assert scaled.score(times(X, k)) == model.score(X)


@pytest.mark.parametrize("solver", sorted(SOLVERS))
@pytest.mark.parametrize("init", sorted(INITS))
@pytest.mark.parametrize(
    ("scale", "dtype"),
    [(1e9, "f4"), (1e10, "f4"), (1e-10, "f4"), (1e30, "f4"), (1e-36, "f4"),
     (1e-40, "f8"), (1e100, "f8"), (1e300, "f8"), (1e-290, "f8")],
)  # fmt: skip
def test_a_matrix_of_low_rank_is_fitted_at_any_scale(solver, init, scale, dtype):
    rng = np.random.default_rng(0)
    X = (rng.random((20, 4)) @ rng.random((4, 15)) * scale).astype(dtype)
    result = nmf(X, 4, solver=solver, init=init)
    assert np.isfinite(result.W).all()
    assert np.isfinite(result.H).all()
    assert result.fitting_error < 1  # MU from NNDSVD is the worst of them


def test_a_callback_sees_factors_of_X_itself():
    X = 1e6 * datasets.lcms_like(30, 40, 3).X
    errors = []

    def compare(progress):
        residual = X - progress.W @ progress.H
        errors.append((progress.fitting_error, 100 * np.sum(residual**2) / np.sum(X**2)))

    nmf(X, 3, callback=compare, tol=1e-2)
    np.testing.assert_allclose(*np.transpose(errors), rtol=1e-9)


def test_large_data_are_not_copied_for_their_scale():
    X = 255 * np.random.default_rng(0).random((300, 200))
    from nmfmerge.inputs.check import check_X

    assert np.shares_memory(check_X(X).X, X)
