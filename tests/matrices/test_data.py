import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge.inputs.check import check_X
from nmfmerge.matrices import DenseData, SparseData, wrap

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


def test_rank_of_a_tall_single_precision_matrix():
    rng = np.random.default_rng(0)
    X = (rng.random((200_000, 8)) @ rng.random((8, 20))).astype(np.float32)
    assert DenseData(X).svd(12).rank(X.shape) == 8


def test_svd_is_kept_until_forgotten():
    data = DenseData(sample())
    assert data.svd(4).Ut.base is data.svd(4).Ut.base
    kept = data.svd(4)
    np.testing.assert_array_equal(data.svd(2).s, kept.s[:2])
    data.forget_svd()
    np.testing.assert_array_equal(data.svd(4).s, kept.s)


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


@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sp.csr_array, sp.csc_array])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_half_is_every_other_line_in_its_own_scale(kind, axis):
    A = np.random.default_rng(0).random((9, 7)) * 4.0**20
    A[0, 1::2] = 0
    data = check_X(kind(A))
    for first in (0, 1):
        part = A[first::2] if axis == 0 else A[:, first::2]
        half, expected = data.half(axis, first), check_X(part)
        assert half.shape == part.shape
        assert half.unit == expected.unit
        H = np.random.default_rng(1).random((2, part.shape[1]))
        products = (d.HXt(H, out=np.empty((2, len(part)))) for d in (half, expected))
        np.testing.assert_allclose(*products, rtol=1e-12)


def test_singular_vectors_do_not_depend_on_others_that_were_asked_for():
    data = DenseData(np.random.default_rng(0).random((97, 86), np.float32))
    alone = data.svd(6)
    data.forget_svd()
    with data.keeping_svd():
        data.svd(12)
        np.testing.assert_array_equal(data.svd(6).Ut, alone.Ut)
        np.testing.assert_array_equal(data.svd(6).Vt, alone.Vt)


def test_singular_vectors_of_lower_ranks_are_the_first_of_higher_ones_where_that_is_allowed():
    data = DenseData(np.random.default_rng(0).random((97, 86), np.float32))
    with data.keeping_svd(cut=True):
        kept = data.svd(12)
        with data.keeping_svd():
            assert np.shares_memory(data.svd(6).Ut, kept.Ut)


def test_singular_vectors_are_kept_as_long_as_they_are_asked_to():
    data = check_X(np.random.default_rng(0).random((9, 7)))
    with data.keeping_svd():
        kept = data.svd(3)
        data.forget_svd()
        assert np.shares_memory(data.svd(3).Ut, kept.Ut)
    assert not np.shares_memory(data.svd(3).Ut, kept.Ut)
