import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import eigh

from nmfmerge import datasets, metrics, nmf, recover_components
from nmfmerge.losses import frobenius


def truth(rng, m=60, n=45, r=5):
    return rng.random((m, r)) ** 3, rng.random((r, n)) ** 3


def test_generalized_singular_values_are_eigenvalues_of_the_pencil(rng):
    """λ = 1/s² are the generalized eigenvalues of (Σ², BᵀB)."""
    W, H = truth(rng)
    X = W @ H + 0.1 * rng.random((60, 45))
    Wt, H = rng.random((4, 60)), rng.random((4, 45))
    values = recover_components(X, Wt.T, H, 4)[2]
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    B = (U[:, :4].T @ Wt.T) @ (H @ Vt[:4].T)
    expected = eigh(np.diag(s[:4] ** 2), B.T @ B, eigvals_only=True)[::-1]
    np.testing.assert_allclose(values, expected, rtol=1e-8)


def test_a_missing_component_is_recovered(rng):
    W, H = truth(rng)
    W[:12, 4] += 5
    W[12:, 4] = 0
    W[:12, :4] = 0  # the last component has rows of its own
    X = W @ H
    W5, H5, values = recover_components(X, W[:, :4], H[:4], 1)
    order, cosine = metrics.match_components(W, W5)
    assert order[4] == 4
    assert cosine[4] > 0.99
    assert values[0] > 100
    assert metrics.fitting_error(X, W5, H5) < 0.2 * metrics.fitting_error(X, W[:, :4], H[:4])


@pytest.mark.parametrize("k", [1, 2, 4])
def test_recovery_does_not_worsen_the_fit(rng, k):
    W, H = truth(rng, r=7)
    X = W @ H + 0.05 * rng.random((60, 45))
    start = nmf(X, 4, tol=1e-2)
    W_new, H_new, values = recover_components(X, start.W, start.H, k)
    assert W_new.shape == (60, 4 + k)
    assert H_new.shape == (4 + k, 45)
    assert len(values) == k
    assert min(W_new.min(), H_new.min()) >= 0
    assert np.all(np.diff(values) <= 0)
    assert metrics.fitting_error(X, W_new, H_new) <= start.fitting_error + 1e-9


def test_more_than_r_components_come_in_rounds(rng):
    X = rng.random((40, 35))
    start = nmf(X, 2, tol=1e-2)
    W, H, values = recover_components(X, start.W, start.H, 9)
    assert W.shape == (40, 11)
    assert len(values) == 9
    assert metrics.fitting_error(X, W, H) < start.fitting_error


def test_an_exact_fit_survives_recovery(rng):
    W, H = truth(rng, r=4)
    for k in (1, 3, 4):
        W_new, H_new, _ = recover_components(W @ H, W, H, k)
        assert metrics.fitting_error(W @ H, W_new, H_new) < 1e-10


@pytest.mark.parametrize("seed", range(20))
def test_as_many_new_components_as_old_do_not_spoil_a_good_fit(seed):
    rng = np.random.default_rng(seed)
    X = rng.random((40, 4)) @ rng.random((4, 35)) + 1e-3 * rng.random((40, 35))
    start = nmf(X, 4, tol=1e-3)
    W, H, _ = recover_components(X, start.W, start.H, 4)
    assert metrics.fitting_error(X, W, H) <= start.fitting_error * (1 + 1e-9)


def test_rank_deficient_and_zero_data_are_finite(rng):
    rank_two = rng.random((30, 2)) @ rng.random((2, 20))
    cases = {"rank two": rank_two, "zero": np.zeros((30, 20)), "one entry": np.eye(30, 20, 5)}
    for X in cases.values():
        W, H = rng.random((30, 5)), rng.random((5, 20))
        W_new, H_new, values = recover_components(X, W, H, 4)
        assert W_new.shape == (30, 9)
        assert len(values) == 4
        assert np.isfinite(W_new).all()
        assert np.isfinite(H_new).all()
        assert not np.isnan(values).any()


def test_rank_deficient_model_has_an_infinite_value(rng):
    W, H = truth(rng, r=4)
    X = W @ H
    W_zero = W.copy()
    W_zero[:, 2] = 0
    _, _, values = recover_components(X, W_zero, H, 2)
    assert values[0] == np.inf
    assert np.isfinite(values[1])


@pytest.mark.parametrize("kind", [np.asfortranarray, sp.csr_array, sp.csc_array])
def test_kinds_of_data_agree(kind, low_rank):
    start = nmf(low_rank, 4, tol=1e-2)
    expected = recover_components(low_rank, start.W, start.H, 2)
    found = recover_components(kind(low_rank), start.W, start.H, 2)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)


def test_float32_stays_float32(low_rank):
    X = low_rank.astype(np.float32)
    start = nmf(X, 4, tol=1e-2)
    W, H, _ = recover_components(X, start.W, start.H, 2)
    assert W.dtype == H.dtype == np.float32


def test_too_many_extra_components_are_refused(low_rank):
    start = nmf(low_rank, 4, tol=1e-1)
    with pytest.raises(ValueError, match=r"n_extra=42 is too large.*use at most 41"):
        recover_components(low_rank, start.W, start.H, 42)


@pytest.mark.parametrize("rank", [1, 3])
def test_rounds_end_when_there_is_nothing_left_to_recover(rank, rng, monkeypatch):
    """X has far fewer directions than are asked for: what is left is zero, found in no time."""
    X = rng.random((120, rank)) @ rng.random((rank, 110))
    exact = nmf(X, rank, tol=1e-10)
    rounds = []
    original = frobenius.recover_round
    monkeypatch.setattr(
        frobenius, "recover_round", lambda *args: rounds.append(1) or original(*args)
    )
    W, H, values = recover_components(X, exact.W, exact.H, 90)
    assert len(rounds) <= 2
    assert W.shape == (120, rank + 90)
    assert H.shape == (rank + 90, 110)
    assert metrics.fitting_error(X, W, H) < 1e-10
    assert values.shape == (90,)
    assert np.all(values[-80:] == 1)


def test_gaussian_features_recover_the_tenth():
    """METHOD section 8: rank 9 at 1e-2, recover one, HALS at 1e-4: relative error below 1e-9."""
    X = datasets.gaussian_features().X
    nine = nmf(X, 9, tol=1e-2, solver="hals")
    assert nine.fitting_error > 5
    W, H, _ = recover_components(X, nine.W, nine.H, 1)
    ten = nmf(X, 10, init=(W, H), tol=1e-4, solver="hals")
    assert ten.fitting_error / 100 < 1e-9
