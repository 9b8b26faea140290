import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge import metrics, nmf
from nmfmerge.metrics import permutation_measure


def test_fitting_error_is_percent_of_the_squared_norm(rng):
    X, W, H = rng.random((9, 7)), rng.random((9, 2)), rng.random((2, 7))
    expected = 100 * np.linalg.norm(X - W @ H) ** 2 / np.linalg.norm(X) ** 2
    assert metrics.fitting_error(X, W, H) == pytest.approx(expected)
    assert metrics.fitting_error(sp.csr_array(X), W, H) == pytest.approx(expected)
    assert metrics.fitting_error(W @ H, W, H) < 1e-28
    assert metrics.fitting_error(np.zeros((9, 7)), 0 * W, H) == 0
    assert metrics.fitting_error(np.zeros((9, 7)), W, H) == np.inf


def test_subspace_mismatch_is_zero_iff_the_spaces_agree(rng):
    W = rng.random((30, 4))
    assert metrics.subspace_mismatch(W, W @ rng.random((4, 4))) < 1e-20
    assert metrics.subspace_mismatch(W, W[:, ::-1] * [1, 2, 3, 4]) < 1e-20
    other = rng.random((30, 4))
    assert metrics.subspace_mismatch(W, other) > 0.1
    assert metrics.subspace_mismatch(W, other) == pytest.approx(metrics.subspace_mismatch(other, W))
    assert metrics.subspace_mismatch(np.eye(4)[:, :2], np.eye(4)[:, 2:]) == pytest.approx(4)


def test_permutation_mismatch_is_zero_iff_a_permutation(rng):
    W = rng.random((30, 4))
    assert metrics.permutation_mismatch(W, W[:, [2, 0, 3, 1]] * [5, 1, 2, 0.1]) < 1e-18
    assert metrics.permutation_mismatch(W, W @ rng.random((4, 4))) > 0.01
    # Orthogonal spaces give R = 0: eight row and column sums that miss 1.
    assert metrics.permutation_mismatch(np.eye(8)[:, :4], np.eye(8)[:, 4:]) == pytest.approx(8)


def factor_of_known_rank(rng, m, r, dtype):
    """A factor with zero, parallel and nearly parallel columns, and its rank."""
    W, rank = rng.random((m, r)), r
    for t in range(1, r):
        kind = rng.integers(4)
        if kind == 0:
            W[:, t] = 0
        elif kind == 1:
            W[:, t] = rng.uniform(0.1, 9) * W[:, 0]
        elif kind == 2:
            W[:, t] = W[:, 0] + 10 ** rng.uniform(-4, -1) * W[:, t]
        rank -= kind < 2
    return W.astype(dtype), rank


def pseudoinverse(W, rank):
    U, s, Vt = np.linalg.svd(W, full_matrices=False)
    return Vt[:rank].T / s[:rank] @ U[:, :rank].T


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_mismatches_are_those_of_the_pseudoinverse_whatever_the_rank(dtype):
    for seed in range(1000):
        rng = np.random.default_rng(seed)
        m, r = int(rng.integers(7, 60)), int(rng.integers(2, 7))
        (W1, rank1), (W2, rank2) = (factor_of_known_rank(rng, m, r, dtype) for _ in range(2))
        A, B = (W / np.maximum(np.linalg.norm(W, axis=0), 1e-300) for W in np.float64([W1, W2]))
        Ap, Bp = pseudoinverse(A, rank1), pseudoinverse(B, rank2)
        apart = np.linalg.norm(A - B @ Bp @ A) ** 2 + np.linalg.norm(B - A @ Ap @ B) ** 2
        away = (permutation_measure(Ap @ B) + permutation_measure(Bp @ A)) / 2
        rel = 1e-5 if dtype == np.float64 else 0.05  # parallel columns are rounded apart
        assert metrics.subspace_mismatch(W1, W2) == pytest.approx(apart, rel=rel), seed
        assert metrics.permutation_mismatch(W1, W2) == pytest.approx(away, rel=rel), seed


def test_matching_finds_the_order(rng):
    W = rng.random((50, 6)) ** 4
    shuffle = rng.permutation(6)
    order, similarity = metrics.match_components(W, W[:, shuffle] * rng.uniform(1, 9, 6))
    np.testing.assert_array_equal(shuffle[order], np.arange(6))
    np.testing.assert_allclose(similarity, 1)
    _, poor = metrics.match_components(W, np.roll(W, 25, axis=0))
    assert poor.mean() < 0.9


def test_zero_components_do_not_upset_the_comparison(rng):
    W = rng.random((20, 3))
    W[:, 1] = 0
    assert np.isfinite(metrics.subspace_mismatch(W, rng.random((20, 3))))
    assert np.isfinite(metrics.permutation_mismatch(W, rng.random((20, 3))))
    assert metrics.match_components(W, W)[1].tolist() == pytest.approx([1, 0, 1])


def test_kkt_residual_falls_with_the_tolerance_and_is_zero_at_a_stationary_point(low_rank):
    residuals = [
        metrics.kkt_residual(low_rank, result.W, result.H)
        for tol in (1e-2, 1e-4, 1e-6)
        for result in [nmf(low_rank, 3, tol=tol)]
    ]
    assert residuals[0] > 10 * residuals[1] > 100 * residuals[2]
    W, H = np.eye(6, 2), np.eye(2, 5)
    assert metrics.kkt_residual(W @ H, W, H) == 0


@pytest.mark.parametrize("scale", [1e-6, 0.3, 1e6])
def test_kkt_residual_does_not_change_with_scales(low_rank, scale, rng):
    result = nmf(low_rank, 4, tol=1e-2)
    expected = metrics.kkt_residual(low_rank, result.W, result.H)
    scaled = metrics.kkt_residual(scale * low_rank, scale * result.W, result.H)
    assert scaled == pytest.approx(expected, rel=1e-8)
    d = rng.uniform(0.01, 100, 4)
    moved = metrics.kkt_residual(low_rank, result.W * d, result.H / d[:, None])
    assert moved == pytest.approx(expected, rel=1e-8)


def test_kkt_residual_is_the_norm_of_the_projected_steps(rng):
    X, W, H = rng.random((12, 9)), rng.random((12, 3)), rng.random((3, 9))
    total = 0.0
    for A, B, Y in ((W, H, X), (H.T, W.T, X.T)):
        for t in range(3):
            g = B[t] @ B[t]
            gradient = (A @ B - Y) @ B[t]
            total += g * np.sum((A[:, t] - np.maximum(0, A[:, t] - gradient / g)) ** 2)
    expected = np.sqrt(total) / np.linalg.norm(X)
    assert metrics.kkt_residual(X, W, H) == pytest.approx(expected)


def test_shapes_that_do_not_fit_are_refused(rng):
    with pytest.raises(ValueError, match=r"W1 has shape \(5, 2\) and W2 has shape \(5, 3\)"):
        metrics.subspace_mismatch(rng.random((5, 2)), rng.random((5, 3)))
    with pytest.raises(ValueError, match=r"for X \(6, 4\)"):
        metrics.fitting_error(np.ones((6, 4)), np.ones((5, 2)), np.ones((2, 4)))


def test_shares_add_up_and_do_not_depend_on_scale(rng):
    W, H = rng.random((20, 4)), rng.random((4, 15))
    WH = W @ H
    expected = [100 * np.vdot(np.outer(W[:, k], H[k]), WH) / np.vdot(WH, WH) for k in range(4)]
    np.testing.assert_allclose(metrics.shares(W, H), expected)
    for big in (1e160, 1e-160):
        np.testing.assert_allclose(metrics.shares(W * big, H / big), expected)
        np.testing.assert_allclose(metrics.shares(W * big, H), expected)
    np.testing.assert_array_equal(metrics.shares(0 * W, H), np.zeros(4))
    assert metrics.shares(W[:, :0], H[:0]).shape == (0,)
