"""Truncated SVDs against LAPACK: by residuals, orthogonality and σ, for vectors may be mixed."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from nmfmerge.matrices import DenseData, SparseData, wrap
from nmfmerge.matrices.svd import TOLERANCE, truncated_svd


def orthonormal(rng, m, k):
    return np.linalg.qr(rng.standard_normal((m, k)))[0]


def with_spectrum(rng, m, n, spectrum):
    k = min(m, n)
    return (orthonormal(rng, m, k) * spectrum(k)) @ orthonormal(rng, n, k).T


def blocks(rng, m, n):
    return (rng.integers(0, 6, m)[:, None] == rng.integers(0, 6, n)).astype(float)


def clusters(rng, m, n):
    return with_spectrum(rng, m, n, lambda k: np.sort(rng.choice([10, 9.999999, 5, 1], k))[::-1])


CLASSES = {
    "zero": lambda rng, m, n: np.zeros((m, n)),
    "constant": lambda rng, m, n: np.full((m, n), rng.choice([0.1, 1, 3])),
    "two levels": lambda rng, m, n: np.ones((m, n)) + (np.arange(m) < m // 2)[:, None],
    "blocks": blocks,
    "rank one": lambda rng, m, n: np.outer(rng.random(m), rng.random(n)),
    "low rank": lambda rng, m, n: rng.random((m, 5)) @ rng.random((5, n)),
    "repeated columns": lambda rng, m, n: rng.random((m, n))[:, rng.integers(0, min(n, 4), n)],
    "identity": lambda rng, m, n: np.eye(m, n)[rng.permutation(m)],
    "clusters": clusters,
    "fast decay": lambda rng, m, n: with_spectrum(rng, m, n, lambda k: 0.1 ** np.arange(k)),
    "slow decay": lambda rng, m, n: with_spectrum(rng, m, n, lambda k: 0.9 ** np.arange(k)),
    "graded rows": lambda rng, m, n: rng.random((m, n)) * 0.5 ** np.arange(m)[:, None],
    "uniform": lambda rng, m, n: rng.random((m, n)),
    "wide range": lambda rng, m, n: 10 ** rng.uniform(-8, 8, (m, n)),
    "sparse counts": lambda rng, m, n: rng.poisson(0.05, (m, n)).astype(float),
    "binary": lambda rng, m, n: (rng.random((m, n)) < 0.1).astype(float),
}


def noise_of(X):
    """Rounding errors of a good SVD, relative to the first singular value."""
    return 10 * np.sqrt(max(X.shape)) * np.finfo(X.dtype).eps


def assert_right(svd, X, r, tolerance):
    """Residuals and σ to ``tolerance`` · σ or rounding; vectors orthonormal to rounding."""
    assert svd.Ut.dtype == svd.s.dtype == svd.Vt.dtype == X.dtype
    noise = noise_of(X)
    X, U, s, V = (A.astype(np.float64) for A in (X, svd.Ut, svd.s, svd.Vt))
    assert U.shape == (r, X.shape[0])
    assert V.shape == (r, X.shape[1])
    exact = np.linalg.svd(X, compute_uv=False)[:r]
    allowed = np.maximum(tolerance * exact, noise * exact[0])
    assert np.all(np.abs(s - exact) <= allowed)
    assert np.all(s[:-1] >= s[1:])
    assert np.all(np.linalg.norm(V @ X.T - s[:, None] * U, axis=1) <= 1.1 * allowed)
    assert np.all(np.linalg.norm(U @ X - s[:, None] * V, axis=1) <= 1.1 * allowed)
    for vectors in (U, V):
        assert np.abs(vectors @ vectors.T - np.eye(r)).max() <= 2 * noise  # LAPACK: 1.1 noise


@st.composite
def problems(draw):
    """A matrix of one of the classes, in one precision, and a number of triplets."""
    small = draw(st.booleans())
    m, n = (draw(st.integers(1, 12 if small else 150)) for _ in range(2))
    make = CLASSES[draw(st.sampled_from(sorted(CLASSES)))]
    X = make(np.random.default_rng(draw(st.integers(0, 99))), m, n)
    side = min(m, n)
    r = draw(st.one_of(st.integers(1, side), st.sampled_from([1, max(1, side - 1), side])))
    return X.astype(draw(st.sampled_from([np.float32, np.float64]))), r


def products(X):
    data = wrap(X)
    return data.HXt, data.WtX, data.shape, data.dtype


@settings(max_examples=300, deadline=None)
@given(problems(), st.sampled_from([1e-10, 1e-4, TOLERANCE]), st.sampled_from(["dense", "csr"]))
def test_truncated_svd_agrees_with_lapack(problem, tolerance, kind):
    X, r = problem
    svd = truncated_svd(
        *products(X if kind == "dense" else sp.csr_array(X)), r, tolerance=tolerance
    )
    assert_right(svd, X, r, tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("r", [1, 9, 40])
@pytest.mark.parametrize("name", CLASSES)
def test_svd_of_every_kind_of_data_agrees_with_lapack(name, r, dtype):
    X = CLASSES[name](np.random.default_rng(3), 250, 224).astype(dtype)
    for matrix in (X, X.T, np.asfortranarray(X), sp.csr_array(X), sp.csc_array(X)):
        dense = matrix.toarray() if sp.issparse(matrix) else matrix
        assert_right(wrap(matrix).svd(r), dense, r, TOLERANCE)


@pytest.mark.parametrize("shape", [(3, 2), (2, 3), (1, 1), (1, 5), (5, 1), (40, 33)])
@pytest.mark.parametrize("name", CLASSES)
def test_as_many_triplets_as_there_are(name, shape):
    X = CLASSES[name](np.random.default_rng(4), *shape)
    for r in range(1, min(shape) + 1):
        assert_right(truncated_svd(*products(sp.csr_array(X)), r), X, r, 0)


def test_low_rank_needs_few_products():
    for X in (np.ones((118, 143)), np.outer(np.arange(1.0, 301), np.ones(300))):
        calls = []
        truncated_svd(*products(sp.csr_array(X)), 2, check=lambda calls=calls: calls.append(1))
        assert len(calls) <= 5


@pytest.mark.parametrize("rank", [0, 1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rank_is_found(rank, dtype):
    rng = np.random.default_rng(6)
    X = (rng.random((90, rank)) @ rng.random((rank, 70))).astype(dtype)
    for data in (DenseData(X), SparseData(sp.csr_array(X))):
        assert data.svd(6).rank(X.shape) == rank


def test_svd_is_the_same_every_time_on_any_number_of_threads():
    rng = np.random.default_rng(0)
    X = sp.random(900, 700, density=0.3, format="csr", random_state=rng)
    first = SparseData(X).svd(5)
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            again = [SparseData(X).svd(5) for _ in range(2)]
        np.testing.assert_array_equal(again[0].Ut, again[1].Ut)
        np.testing.assert_array_equal(again[0].Vt, again[1].Vt)
        np.testing.assert_allclose(again[0].Ut, first.Ut, atol=1e-10)
        np.testing.assert_allclose(again[0].Vt, first.Vt, atol=1e-10)
    assert all(u[np.argmax(np.abs(u))] > 0 for u in first.Ut)


class Stop(Exception):
    pass


@pytest.mark.parametrize("after", [1, 2, 3, 10])
def test_check_stops_within_one_product(after):
    X = np.random.default_rng(0).random((900, 800))
    data, calls, multiplied = SparseData(sp.csr_array(X)), [], []

    def check():
        calls.append(1)
        if len(calls) == after:
            raise Stop

    for name in ("HXt", "WtX"):
        product = getattr(data, name)
        setattr(data, name, lambda F, out, f=product: (multiplied.append(1), f(F, out))[1])
    with pytest.raises(Stop):
        data.svd(5, check)
    assert len(multiplied) == after - 1
    assert len(data.svd(5).s) == 5  # nothing half done is kept


@pytest.mark.parametrize("shape", [(50, 40), (200, 150), (900, 800)])
def test_check_is_called_for_dense_data_too(shape):
    def check():
        raise Stop

    with pytest.raises(Stop):
        DenseData(np.ones(shape)).svd(5, check)


@pytest.mark.parametrize("k", [-40, -3, 1, 40])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "svd_of",
    [
        lambda X: DenseData(X).svd(6),
        lambda X: DenseData(X)._svd_by_gram(6),
        lambda X: truncated_svd(*products(X), 6),
        lambda X: SparseData(sp.csr_array(X)).svd(6),
    ],
    ids=["dense", "gram", "truncated", "sparse"],
)
@pytest.mark.parametrize("name", ["uniform", "slow decay", "blocks", "sparse counts"])
def test_scaling_by_a_power_of_four_scales_singular_values_only(svd_of, name, dtype, k):
    k = k // 4 if dtype == np.float32 else k
    X = CLASSES[name](np.random.default_rng(1), 180, 130).astype(dtype)
    plain, scaled = svd_of(X), svd_of(X * dtype(4.0) ** k)
    np.testing.assert_array_equal(scaled.s, plain.s * dtype(4.0) ** k)
    np.testing.assert_array_equal(scaled.Ut, plain.Ut)
    np.testing.assert_array_equal(scaled.Vt, plain.Vt)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("r", [1, 21, 43])  # 3 · 43 < 130: as many as go by a Gram
@pytest.mark.parametrize("last", [1.0, 1e-2, 2e-5, 5e-6, 1e-9])
@pytest.mark.parametrize("shape", [(300, 130), (130, 300)])
def test_dense_svd_is_right_however_small_the_last_singular_value(shape, last, r, dtype):
    """From 1 to ``last``: some by way of a Gram, some too badly conditioned for that."""
    rng = np.random.default_rng(2)
    X = with_spectrum(rng, *shape, lambda k: last ** (np.arange(k) / (r - 0.5)))
    X = X.astype(dtype)
    svd = DenseData(X).svd(r)
    assert_right(svd, X, r, 1e-5 if dtype == np.float64 else 0)


def test_no_warning_on_close_singular_values():
    X = clusters(np.random.default_rng(0), 600, 500)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_right(truncated_svd(*products(X), 30), X, 30, TOLERANCE)
