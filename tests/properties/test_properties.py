"""What must hold for every input, tried on many."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from nmfmerge import merge_components, nmf, nmf_merge
from nmfmerge.losses import FROBENIUS, Problem
from nmfmerge.losses.frobenius_merging import merge_weights, pair_penalty
from nmfmerge.matrices import wrap
from nmfmerge.solvers import SOLVERS, Batch, Limits, Loop

pytestmark = pytest.mark.filterwarnings("ignore:n_extra=. was reduced")

seeds = st.integers(0, 2**32 - 1)
solvers = st.sampled_from(sorted(SOLVERS))
scales = st.sampled_from([1e-9, 1e-3, 0.37, 1.0, 42.0, 1e6])


@st.composite
def matrices(draw, max_side=14):
    """Nonnegative matrices with zeros, zero rows, ties, and all manner of scales."""
    rng = np.random.default_rng(draw(seeds))
    m, n = draw(st.integers(1, max_side)), draw(st.integers(1, max_side))
    X = rng.random((m, n)) * (rng.random((m, n)) < draw(st.sampled_from([0.2, 0.6, 1.0])))
    if draw(st.booleans()):
        X[rng.integers(m)] = 0
    if draw(st.booleans()):
        X = np.round(3 * X)
    return X * draw(scales)


def start(X, r, seed=0):
    rng = np.random.default_rng(seed)
    size = np.sqrt(X.max()) or 1.0
    return size * (rng.random((X.shape[0], r)) + 0.1), size * (rng.random((r, X.shape[1])) + 0.1)


def some_iterations(X, solver, W, H, n):
    batch = Batch(Problem(wrap(X), FROBENIUS), np.array(W.T, order="C")[None], H.copy()[None])
    errors = []
    limits = Limits(max_iter=n, callback=lambda p: errors.append(p.fitting_error))
    loop = Loop(SOLVERS[solver], batch, stage="final", tol=0, limits=limits)
    loop.run()
    return loop.batch.Wt[0].T, loop.batch.H[0], np.array(errors)


@given(
    X=matrices(),
    solver=solvers,
    r=st.integers(1, 5),
    dtype=st.sampled_from(["f4", "f8"]),
    init=st.sampled_from(["random", "nndsvd", "nndsvda", "nndsvdar"]),
    sparse=st.booleans(),
)
@settings(max_examples=150)
def test_factors_are_nonnegative_and_finite_always(X, solver, r, dtype, init, sparse):
    X = X.astype(dtype)
    r = min(r, *X.shape)
    given_X = sp.csr_array(X) if sparse else X
    result = nmf_merge(given_X, r, solver=solver, init=init, tol=1e-2, max_iter=20_000)
    for F in (result.W, result.H):
        assert F.dtype == X.dtype
        assert np.isfinite(F).all()
        assert (F >= 0).all()
    assert 0 <= result.fitting_error <= 100 * (1 + 1e-6)


def exact_errors(X, solver, W, H, n):
    """½‖X − WH‖² after each of n iterations, from the residual itself, and how far WH moved.

    Both in float64; W and H move in turn, so the moves of one may undo those of the other.
    """
    data = (X.toarray() if sp.issparse(X) else X).astype(np.float64)
    errors, moves, last = [], [], [W.astype(np.float64), H.astype(np.float64)]

    def note(progress):
        W, H = progress.W.astype(np.float64), progress.H.astype(np.float64)
        errors.append(0.5 * np.sum((data - W @ H) ** 2))
        moves.append(np.linalg.norm((W - last[0]) @ H) + np.linalg.norm(last[0] @ (H - last[1])))
        last[:] = W, H

    factors = np.array(W.T[None], dtype=X.dtype, order="C"), H.astype(X.dtype)[None]
    batch = Batch(Problem(wrap(X), FROBENIUS), *factors)
    limits = Limits(max_iter=n, callback=note)
    Loop(SOLVERS[solver], batch, stage="final", tol=0, limits=limits).run()
    return np.array(errors), np.array(moves)


@given(
    X=matrices(max_side=40),
    solver=solvers,
    r=st.integers(1, 8),
    seed=seeds,
    dtype=st.sampled_from(["f4", "f8"]),
    kind=st.sampled_from([np.asarray, sp.csr_array, sp.csc_array]),
)
@settings(max_examples=120)
def test_objective_never_rises(X, solver, r, seed, dtype, kind):
    check_never_rises(X.astype(dtype), kind, solver, r, seed, 40)


@given(
    X=matrices(max_side=40),
    r=st.integers(2, 8),
    seed=seeds,
    dtype=st.sampled_from(["f4", "f8"]),
    kind=st.sampled_from([np.asarray, sp.csr_array, sp.csc_array]),
)
@settings(max_examples=60)
def test_objective_never_rises_with_momentum(X, r, seed, dtype, kind):
    """Momentum grows in hundreds of iterations to where steps have to be taken back."""
    check_never_rises(X.astype(dtype), kind, "accelerated", r, seed, 500)


def check_never_rises(X, kind, solver, r, seed, n_iter):
    W, H = start(X, min(r, *X.shape), seed)
    errors, moves = exact_errors(kind(X), solver, W, H, n_iter)
    # Rounding of factors moves WH by eps·WH, and by that much the residual. Near an exact fit the
    # gradient is rounding, eps·X, so what a move costs is known to eps·X·move at best.
    eps, norm2 = np.finfo(X.dtype).eps, np.sum(X.astype(np.float64) ** 2)
    noise = 10 * eps * np.sqrt(norm2) * (np.sqrt(errors[:-1]) + moves[1:])
    noise += (10 * eps) ** 2 * norm2
    assert np.all(np.diff(errors) <= noise)


@given(X=matrices(), solver=solvers, r=st.integers(1, 4), seed=seeds)
def test_permuting_rows_and_columns_permutes_the_factors(X, solver, r, seed):
    rng = np.random.default_rng(seed)
    X = X + (X.max() or 1.0) * rng.random(X.shape)  # no ties: rounding decides those
    rows, columns = rng.permutation(X.shape[0]), rng.permutation(X.shape[1])
    W, H = start(X, min(r, *X.shape), seed)
    W1, H1, _ = some_iterations(X, solver, W, H, 5)
    W2, H2, _ = some_iterations(X[rows][:, columns], solver, W[rows], H[:, columns], 5)
    np.testing.assert_allclose(W2, W1[rows], rtol=1e-6, atol=1e-8 * W1.max(initial=0))
    np.testing.assert_allclose(H2, H1[:, columns], rtol=1e-6, atol=1e-8 * H1.max(initial=0))


@given(X=matrices(), solver=solvers, r=st.integers(1, 4), power=st.sampled_from([-20, -6, 4, 16]))
def test_scaling_the_data_scales_the_factors(X, solver, r, power):
    """NNDSVD starts scale with √s, and everything after them follows to the bit for s = 4ᵖ."""
    r = min(r, *X.shape)
    options = {"solver": solver, "tol": 1e-2, "max_iter": 20_000}
    plain, scaled = nmf_merge(X, r, **options), nmf_merge(X * 2.0**power, r, **options)
    assert scaled.n_iter == plain.n_iter
    assert scaled.fitting_error == pytest.approx(plain.fitting_error, rel=1e-9, abs=1e-12)
    expected = 2.0**power * (plain.W @ plain.H)
    np.testing.assert_allclose(
        scaled.W @ scaled.H, expected, rtol=1e-9, atol=1e-12 * expected.max()
    )


@given(X=matrices(), solver=solvers, init=st.sampled_from(["random", "nndsvdar"]))
def test_a_second_call_gives_the_same_bits(X, solver, init):
    r = min(3, *X.shape)
    options = {"solver": solver, "init": init, "tol": 1e-2, "max_iter": 20_000}
    first, second = (nmf_merge(X, r, **options) for _ in range(2))
    np.testing.assert_array_equal(first.W, second.W)
    np.testing.assert_array_equal(first.H, second.H)


@given(seed=seeds, solver=st.sampled_from(["accelerated", "hals", "gcd"]))
@settings(max_examples=10)
def test_threads_of_the_blas_change_nothing_that_matters(seed, solver):
    rng = np.random.default_rng(seed)
    X = rng.random((300, 8)) @ rng.random((8, 257)) + 0.1 * rng.random((300, 257))
    W, H = start(X, 6, seed)
    results = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            results.append(some_iterations(X, solver, W, H, 100)[:2])
    for one, two in zip(*results, strict=True):
        np.testing.assert_allclose(two, one, rtol=0, atol=1e-8 * one.max())


@st.composite
def factor_pairs(draw):
    rng = np.random.default_rng(draw(seeds))
    m, n, r = draw(st.integers(1, 9)), draw(st.integers(1, 9)), draw(st.integers(1, 7))
    density = draw(st.sampled_from([0.3, 0.7, 1.0]))
    W = rng.random((m, r)) * (rng.random((m, r)) < density)
    H = rng.random((r, n)) * (rng.random((r, n)) < density)
    return W * draw(scales), H * draw(scales)


@given(factors=factor_pairs())
def test_merging_to_the_same_number_changes_nothing(factors):
    W, H = factors
    W2, H2, tree = merge_components(W, H, len(H))
    np.testing.assert_array_equal(W2, W)
    np.testing.assert_array_equal(H2, H)
    assert tree.n_components == len(H)


@given(factors=factor_pairs(), data=st.data())
def test_replay_equals_merge(factors, data):
    W, H = factors
    n_components = data.draw(st.integers(1, len(H)))
    W_m, H_m, tree = merge_components(W, H, n_components)
    W_r, H_r = merge_components(W, H)[2].replay(W, H, n_components)
    np.testing.assert_allclose(W_r, W_m, rtol=1e-12)
    np.testing.assert_allclose(H_r, H_m, rtol=1e-12)
    assert np.isfinite(tree.penalties).all()
    assert min(W_m.min(), H_m.min(), tree.penalties.min(initial=0)) >= 0


@given(factors=factor_pairs())
def test_each_merge_moves_the_product_by_its_penalty(factors):
    W, H = factors
    _, _, tree = merge_components(W, H)
    size = np.sum((W @ H) ** 2)
    for n_components in range(len(H) - 1, 0, -1):
        before = np.matmul(*tree.replay(W, H, n_components + 1))
        after = np.matmul(*tree.replay(W, H, n_components))
        penalty = tree.penalties[len(H) - n_components - 1]
        assert np.sum((before - after) ** 2) == pytest.approx(penalty, rel=1e-7, abs=1e-12 * size)


@given(seed=seeds, density=st.sampled_from([0.3, 1.0]))
def test_no_other_rank_one_replacement_is_better(seed, density):
    rng = np.random.default_rng(seed)
    w = rng.random((2, 8)) * (rng.random((2, 8)) < density)
    h = rng.random((2, 6)) * (rng.random((2, 6)) < density)
    w[0, 0] += 0.1
    w[1, 1] += 0.1
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    pair = w.T @ h
    c, a, d, g = w[0] @ w[1], h[0] @ h[0], h[1] @ h[1], h[0] @ h[1]
    penalty = pair_penalty(c, a, d, g)
    alpha, beta = merge_weights(c, a, d, g)
    for _ in range(30):
        other_w = alpha * w[0] + beta * w[1] + 0.1 * rng.standard_normal(8)
        other_h = other_w @ pair / (other_w @ other_w)  # the best h for this w
        assert np.sum((pair - np.outer(other_w, other_h)) ** 2) >= penalty - 1e-12


@given(X=matrices(), r=st.integers(1, 4))
def test_callback_reports_the_error_of_the_factors_it_sees(X, r):
    r = min(r, *X.shape)
    size = np.sum(X**2)

    def look(progress):
        residual = np.sum((X - progress.W @ progress.H) ** 2)
        if size > 0:
            assert progress.fitting_error == pytest.approx(100 * residual / size, abs=1e-8)

    nmf(X, r, tol=1e-2, callback=look, max_iter=20_000)
