import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge.data import DenseData, SparseData, wrap
from nmfmerge.data.svd import block_lanczos_svd

KINDS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "csr": sp.csr_array,
    "csc": sp.csc_array,
    "csr_matrix": sp.csr_matrix,
}


def sample(m=50, n=30, dtype=np.float64):
    rng = np.random.default_rng(0)
    return (rng.random((m, n)) * (rng.random((m, n)) > 0.6)).astype(dtype)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_norm_and_residual_agree_with_numpy(kind, dtype):
    X = sample(dtype=dtype)
    data = wrap(KINDS[kind](X))
    rng = np.random.default_rng(1)
    Wt, H = rng.random((4, 50)).astype(dtype), rng.random((4, 30)).astype(dtype)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    HXt = data.HXt(H, out=np.empty((4, 50), dtype))
    WtX = data.WtX(Wt, out=np.empty((4, 30), dtype))
    assert HXt.dtype == WtX.dtype == data.dtype == dtype
    np.testing.assert_allclose(HXt, H @ X.T, rtol=tolerance)
    np.testing.assert_allclose(WtX, Wt @ X, rtol=tolerance)
    assert data.norm2 == pytest.approx(np.sum(X.astype(float) ** 2), rel=1e-12)
    assert data.mean == pytest.approx(X.mean(dtype=float), rel=1e-12)
    residual = np.sum((X.astype(float) - Wt.T.astype(float) @ H) ** 2)
    assert data.residual_norm2(Wt, H) == pytest.approx(residual, rel=1e-12)


@pytest.mark.parametrize("order", ["C", "F"])
def test_dense_data_is_not_copied(order):
    X = np.asarray(sample(), order=order)
    assert np.shares_memory(DenseData(X).X, X)


def test_residual_of_an_exact_fit_is_rounding_only():
    rng = np.random.default_rng(3)
    Wt, H = rng.random((3, 40)), rng.random((3, 50))
    data = wrap(Wt.T @ H)
    assert data.residual_norm2(Wt, H) < 1e-28 * data.norm2


@pytest.mark.parametrize("kind", ["C", "F", "csr", "csc"])
@pytest.mark.parametrize("shape", [(80, 60), (60, 80), (90, 130), (400, 100)])
def test_truncated_svd_agrees_with_lapack(kind, shape):
    X = sample(*shape)
    svd = wrap(KINDS[kind](X)).svd(7)
    U, s, Vt = np.linalg.svd(X)
    np.testing.assert_allclose(svd.s, s[:7], rtol=1e-10)
    for ours, theirs in ((svd.Ut, U[:, :7].T), (svd.Vt, Vt[:7])):
        cosine = np.abs(np.sum(ours * theirs, axis=1))
        np.testing.assert_allclose(cosine, 1, atol=1e-8)
    assert np.sum(svd.Ut * (X @ svd.Vt.T).T, axis=1) == pytest.approx(svd.s)


@pytest.mark.parametrize("shape", [(300, 120), (120, 300)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_block_lanczos_agrees_with_lapack(shape, dtype):
    X = sample(*shape, dtype=dtype)
    data = DenseData(X)
    svd = block_lanczos_svd(data.HXt, data.WtX, shape, data.dtype, 8)
    _, s, Vt = np.linalg.svd(X.astype(float), full_matrices=False)
    tight = dtype == np.float64
    np.testing.assert_allclose(svd.s, s[:8], rtol=1e-12 if tight else 1e-4)
    cosine = np.abs(np.sum(svd.Vt * Vt[:8], axis=1))
    np.testing.assert_allclose(cosine, 1, atol=1e-9 if tight else 2e-3)
    assert svd.Ut.dtype == svd.s.dtype == dtype


@pytest.mark.parametrize("n", [*range(5, 46, 4), 60])
def test_sparse_svd_is_right_however_small_the_smaller_side(n):
    X = sample(90, n)
    for matrix in (sp.csr_array(X), sp.csr_array(X.T)):
        svd = SparseData(matrix).svd(5)
        np.testing.assert_allclose(svd.s, np.linalg.svd(X, compute_uv=False)[:5], rtol=1e-11)
        np.testing.assert_allclose(svd.Vt @ svd.Vt.T, np.eye(5), atol=1e-10)


def test_rank_of_a_tall_single_precision_matrix():
    rng = np.random.default_rng(0)
    X = (rng.random((200_000, 8)) @ rng.random((8, 20))).astype(np.float32)
    assert DenseData(X).svd(12).rank(X.shape) == 8


def test_block_lanczos_finds_repeated_singular_values():
    rng = np.random.default_rng(5)
    U = np.linalg.qr(rng.standard_normal((200, 20)))[0]
    V = np.linalg.qr(rng.standard_normal((150, 20)))[0]
    s = np.array([5, 5, 5, 3, 3, 2, *np.linspace(1, 0.1, 14)])
    data = DenseData(U * s @ V.T)
    found = block_lanczos_svd(data.HXt, data.WtX, (200, 150), data.dtype, 6)
    np.testing.assert_allclose(found.s, s[:6], rtol=1e-12)
    np.testing.assert_allclose(found.Vt @ found.Vt.T, np.eye(6), atol=1e-10)


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_svd_beyond_the_rank_is_finite_and_says_the_rank(rank):
    rng = np.random.default_rng(6)
    X = rng.random((90, rank)) @ rng.random((rank, 70))
    for data in (DenseData(X), SparseData(sp.csr_array(X))):
        svd = data.svd(6)
        assert np.isfinite(svd.Ut).all()
        assert np.isfinite(svd.Vt).all()
        assert svd.rank(X.shape) == rank


def test_svd_is_the_same_every_time_and_fixes_signs():
    X = sp.csr_array(sample(200, 150))
    first, second = SparseData(X).svd(5), SparseData(X).svd(5)
    np.testing.assert_array_equal(first.Ut, second.Ut)
    np.testing.assert_array_equal(first.Vt, second.Vt)
    assert all(u[np.argmax(np.abs(u))] > 0 for u in first.Ut)


def test_svd_is_kept_until_forgotten():
    data = DenseData(sample())
    assert data.svd(4).Ut.base is data.svd(4).Ut.base
    kept = data.svd(4)
    np.testing.assert_array_equal(data.svd(2).s, kept.s[:2])
    data.forget_svd()
    np.testing.assert_array_equal(data.svd(4).s, kept.s)


def test_small_singular_values_are_not_lost_in_a_gram():
    rng = np.random.default_rng(8)
    U = np.linalg.qr(rng.standard_normal((150, 6)))[0]
    V = np.linalg.qr(rng.standard_normal((100, 6)))[0]
    s = 10.0 ** -np.arange(0, 12, 2)
    svd = DenseData(U * s @ V.T).svd(6)
    np.testing.assert_allclose(svd.s, s, rtol=1e-4)
    np.testing.assert_allclose(np.abs(np.sum(svd.Vt * V.T, axis=1)), 1, atol=1e-4)


def test_sparse_products_never_make_a_dense_matrix_of_the_shape_of_X():
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(200_000)[:2000], rng.integers(0, 100_000, 2000)
    X = sp.csr_array((rng.random(2000), (rows, columns)), shape=(200_000, 100_000))
    data = SparseData(X)  # dense, this would be 160 GB
    Wt, H = np.ones((2, 200_000)), np.ones((2, 100_000))
    assert data.WtX(Wt, out=np.empty((2, 100_000))).sum() == pytest.approx(2 * X.sum())
    expected = X.data @ X.data - 4 * X.sum() + 4 * 2e10
    assert data.residual_norm2(Wt, H) == pytest.approx(expected)


def test_unknown_kind_of_data_is_refused():
    with pytest.raises(TypeError, match="no data matrix for X of type list"):
        wrap([[1.0]])
