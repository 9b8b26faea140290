"""The Kullback–Leibler kernels against NumPy twins, scikit-learn and what theory says of them."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import non_negative_factorization

from nmfmerge.backends import reference_kl as reference
from nmfmerge.backends import threads
from nmfmerge.backends.numba.blocks import kernel
from nmfmerge.backends.numba.kl_lines import log_
from nmfmerge.backends.numba.kl_sums import kl_line_sums
from nmfmerge.losses.kl_divergence import Divergence
from nmfmerge.matrices.dense import DenseData
from nmfmerge.matrices.sparse import SparseData

KINDS = {
    "C": lambda X: DenseData(np.ascontiguousarray(X)),
    "F": lambda X: DenseData(np.asfortranarray(X)),
    "CSR": lambda X: SparseData(sp.csr_array(X)),
    "CSC": lambda X: SparseData(sp.csc_array(X)),
}
RTOL = {np.float64: 1e-11, np.float32: 2e-4}


@pytest.fixture(params=[0.15, 0.9, 1.0], ids=["mostly zero", "a few zeros", "no zeros"])
def X(request):
    rng = np.random.default_rng(0)
    X = (1 + rng.poisson(3, (70, 133))) * (rng.random((70, 133)) < request.param) / 8.0
    X[5], X[:, 7] = 0, 0
    return X


@pytest.fixture
def factors():
    rng = np.random.default_rng(1)
    Wt, H = rng.random((3, 5, 70)), rng.random((3, 5, 133))
    Wt[:, 1, ::3] = H[:, 2, 1::4] = 0
    Wt[1, 3] = 0  # a component that is zero
    return Wt, H


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture(params=[np.float64, np.float32])
def dtype(request):
    return request.param


@pytest.mark.parametrize(("l1", "l2"), [(0, 0), (0.3, 0), (0, 0.7), (0.2, 0.4)])
def test_a_sweep_is_its_twin(X, factors, kind, dtype, l1, l2):
    divergence = Divergence(kind(X.astype(dtype)))
    for side, (F, fixed), lines in (("W", factors, X), ("H", factors[::-1], X.T)):
        new = F.astype(dtype)
        moved, total, _ = divergence.sweep_(side, new, fixed.astype(dtype), l1=l1, l2=l2)
        for start in range(3):
            expected = F[start].copy()
            norms = reference.sweep_(expected, fixed[start], lines, l1, l2)
            np.testing.assert_allclose(new[start], expected, rtol=RTOL[dtype], atol=RTOL[dtype])
            np.testing.assert_allclose((moved[start], total[start]), norms, rtol=10 * RTOL[dtype])


def test_several_sweeps_at_once_are_several_sweeps(X, factors, kind):
    divergence = Divergence(kind(X))
    Wt, H = factors
    at_once, one_by_one = Wt.copy(), Wt.copy()
    divergence.sweep_("W", at_once, H, n_sweeps=3)
    for _ in range(3):
        divergence.sweep_("W", one_by_one, H)
    np.testing.assert_allclose(at_once, one_by_one, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("l2", [0, 0.5])
@pytest.mark.parametrize("seed", range(20))
def test_no_sweep_raises_the_objective(l2, seed):
    """From starts in which coordinates are far too large, where a plain Newton step overshoots."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(rng.gamma(0.3, 5, (12, 9))).astype(float)
    divergence = Divergence(DenseData(X))
    Wt, H = np.exp(rng.normal(0, 4, (1, 4, 12))), np.exp(rng.normal(0, 4, (1, 4, 9)))

    def objective():
        return divergence.exact_values(Wt, H)[0] + 0.5 * l2 * (Wt**2).sum() + 0.1 * H.sum()

    before = objective()
    for _ in range(30):
        for side, F, fixed, penalty in (("W", Wt, H, {"l2": l2}), ("H", H, Wt, {"l1": 0.1})):
            divergence.sweep_(side, F, fixed, **penalty)
            after = objective()
            assert after <= before * (1 + 1e-13)
            before = after


def test_sweeps_of_one_side_end_where_no_coordinate_wants_to_move(X, kind):
    divergence = Divergence(kind(X))
    rng = np.random.default_rng(2)
    Wt, H = rng.random((1, 5, 70)), rng.random((1, 5, 133))
    divergence.sweep_("W", Wt, H, n_sweeps=3000)
    W = np.delete(Wt[0].T, 5, axis=0)
    scale = H[0].sum(axis=1)
    gradient = scale - np.delete(X, 5, axis=0) / (W @ H[0]) @ H[0].T
    assert np.abs(W * gradient / scale).max() < 1e-7
    assert (gradient / scale).min() > -1e-7
    assert not Wt[0, :, 5].any()  # beside a row of X that is zero


def test_held_components_stay(X, factors, kind):
    divergence = Divergence(kind(X))
    Wt, H = factors[0].copy(), factors[1]
    free = np.array([True, False, True, False, True])
    divergence.sweep_("W", Wt, H, free=free)
    np.testing.assert_array_equal(Wt[:, ~free], factors[0][:, ~free])
    assert (Wt[:, free] != factors[0][:, free]).any(axis=(0, 2)).all()


def test_values_are_the_divergence(X, factors, kind, dtype):
    divergence = Divergence(kind(X.astype(dtype)))
    Wt, H = (F + 0.1 for F in factors)  # WH > 0
    expected = [reference.divergence(X, W.T @ h) for W, h in zip(Wt, H, strict=True)]
    Wt, H = Wt.astype(dtype), H.astype(dtype)
    rtol = 1e-12 if dtype is np.float64 else 1e-6
    np.testing.assert_allclose(divergence.value(Wt, H), expected, rtol=rtol)
    np.testing.assert_allclose(divergence.exact_values(Wt, H), expected, rtol=rtol)
    swept = H.copy()
    x_log_y = divergence.sweep_("H", swept, Wt, value=True)[2]
    expected = [reference.divergence(X, W.T @ h) for W, h in zip(Wt, swept, strict=True)]
    np.testing.assert_allclose(divergence.value(Wt, swept, x_log_y), expected, rtol=rtol)


def test_an_exact_fit_has_no_divergence(kind):
    rng = np.random.default_rng(3)
    Wt, H = rng.random((1, 3, 40)), rng.random((1, 3, 50))
    divergence = Divergence(kind(Wt[0].T @ H[0]))
    assert abs(divergence.exact_values(Wt, H)[0]) < 1e-14 * divergence.total


def test_a_hundred_percent_is_the_divergence_from_the_margins(X, kind):
    divergence = Divergence(kind(X))
    margins = np.outer(X.sum(axis=1), X.sum(axis=0)) / X.sum()
    assert divergence.size == pytest.approx(reference.divergence(X, margins), rel=1e-12)


def test_sums_of_lines(X, kind):
    data = kind(X)
    for side, axis in (("W", 1), ("H", 0)):
        length = X.shape[axis]
        sums = kl_line_sums(data.lines(side), X.size // length, length)
        x_log_x = X * np.log(np.where(X > 0, X, 1))
        np.testing.assert_allclose(sums[:, 0], X.sum(axis=axis), rtol=1e-13)
        np.testing.assert_allclose(sums[:, 1], x_log_x.sum(axis=axis), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("alpha", "l1_ratio"), [(0, 0), (0.01, 0.3)])
def test_multiplicative_updates_are_those_of_scikit_learn(X, kind, alpha, l1_ratio):
    """Step for step: W first, then H."""
    rng = np.random.default_rng(4)
    W, H = rng.random((70, 4)) + 0.1, rng.random((4, 133)) + 0.1
    divergence = Divergence(kind(X))
    Wt, own_H = W.T[None].copy(), H[None].copy()
    for n_iter in (1, 2, 3):
        with pytest.warns(match="Maximum number of iterations"):
            expected = non_negative_factorization(
                X, W.copy(), H.copy(), 4, init="custom", solver="mu", tol=1e-30,
                beta_loss="kullback-leibler", max_iter=n_iter, alpha_W=alpha, l1_ratio=l1_ratio,
            )  # fmt: skip
        l1, l2 = alpha * l1_ratio, alpha * (1 - l1_ratio)
        divergence.mu_step_("W", Wt, own_H, l1=l1 * 133, l2=l2 * 133)
        divergence.mu_step_("H", own_H, Wt, l1=l1 * 70, l2=l2 * 70)
        np.testing.assert_allclose(Wt[0].T, expected[0], rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(own_H[0], expected[1], rtol=1e-10, atol=1e-13)


def test_explained_is_the_mass_after_an_em_step(X, kind, factors):
    Wt, H = (F + 0.1 for F in factors)
    divergence = Divergence(kind(X))
    explained = divergence.explained(Wt, H)
    np.testing.assert_allclose(explained.sum(axis=1), X.sum(), rtol=1e-12)
    stepped = Wt.copy()
    divergence.mu_step_("W", stepped, H)
    np.testing.assert_allclose(explained, divergence.masses(stepped, H), rtol=1e-12)


def test_logarithms():
    z = np.exp(np.random.default_rng(5).uniform(-700, 700, 10_001))
    z[:5] = [1.0, np.sqrt(0.5), np.sqrt(2), 1 + 1e-15, 1 - 1e-15]
    own = z.copy()
    _logs(own, np.empty(z.size))
    np.testing.assert_allclose(own, np.log(z), rtol=3e-16, atol=2e-16)


@kernel
def _logs(z, k):
    log_(z, k, z.size)


@pytest.mark.parametrize("n_threads", [2, 3, 5])
def test_bits_do_not_depend_on_threads(kind, n_threads, monkeypatch):
    rng = np.random.default_rng(6)
    X = rng.poisson(0.5, (300, 400)).astype(float)
    divergence = Divergence(kind(X))

    def fit(n):
        monkeypatch.setattr(threads, "available_threads", lambda: n)
        rng = np.random.default_rng(7)
        Wt, H = rng.random((2, 3, 300)), rng.random((2, 3, 400))
        divergence.mu_step_("W", Wt, H)
        notes = [*divergence.sweep_("W", Wt, H), *divergence.sweep_("H", H, Wt, value=True)]
        return [Wt, H, *notes, divergence.explained(Wt, H), divergence.exact_values(Wt, H)]

    for one, several in zip(fit(1), fit(n_threads), strict=True):
        np.testing.assert_array_equal(one, several)
