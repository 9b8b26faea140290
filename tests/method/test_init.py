import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition._nmf import _initialize_nmf

from nmfmerge import nmf_merge
from nmfmerge.matrices import wrap
from nmfmerge.method.init import INITS


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_factors_are_nonnegative_and_of_the_right_kind(init, dtype, kind, low_rank):
    data = wrap(kind(low_rank.astype(dtype)))
    Wt, H = INITS[init](data, 5, np.random.default_rng(0))
    assert Wt.shape == (5, 60)
    assert H.shape == (5, 45)
    assert Wt.dtype == H.dtype == dtype
    assert Wt.flags.c_contiguous
    assert H.flags.c_contiguous
    assert min(Wt.min(), H.min()) >= 0


@pytest.mark.parametrize("init", ["nndsvd", "nndsvda"])
def test_nndsvd_family_agrees_with_scikit_learn(init, low_rank):
    Wt, H = INITS[init](wrap(low_rank), 5, np.random.default_rng(0))
    W_sk, H_sk = _initialize_nmf(low_rank, 5, init=init, eps=0.0, random_state=0)
    np.testing.assert_allclose(Wt.T, W_sk, atol=1e-6)
    np.testing.assert_allclose(H, H_sk, atol=1e-6)


def test_nndsvdar_fills_zeros_with_small_seeded_numbers(low_rank):
    data = wrap(low_rank)
    plain, _ = INITS["nndsvd"](data, 5, np.random.default_rng(0))
    filled, H = INITS["nndsvdar"](data, 5, np.random.default_rng(3))
    again, _ = INITS["nndsvdar"](data, 5, np.random.default_rng(3))
    zero = plain == 0
    assert zero.any()
    np.testing.assert_array_equal(filled, again)
    np.testing.assert_array_equal(filled[~zero], plain[~zero])
    assert filled[zero].max() <= low_rank.mean() / 100
    assert np.unique(filled[zero]).size == zero.sum()
    assert (H > 0).all()


def test_random_start_has_columns_of_sum_one_and_follows_its_seed(low_rank):
    data = wrap(low_rank)
    Wt, H = INITS["random"](data, 5, np.random.default_rng(1))
    np.testing.assert_allclose(Wt.sum(axis=1), 1)
    assert 0.4 < H.mean() < 0.6
    other, _ = INITS["random"](data, 5, np.random.default_rng(2))
    assert not np.array_equal(Wt, other)


@pytest.mark.parametrize("init", INITS)
def test_zero_and_rank_deficient_matrices_give_finite_starts(init):
    for X in (np.zeros((9, 7)), np.outer(np.arange(9.0), np.ones(7))):
        Wt, H = INITS[init](wrap(X), 4, np.random.default_rng(0))
        assert np.isfinite(Wt).all()
        assert np.isfinite(H).all()


@pytest.mark.parametrize("kind", [np.array, sp.csr_array])
def test_nndsvd_of_a_matrix_of_lower_rank_leaves_no_component_dead(kind):
    """Four nonnegative components are needed for this matrix of rank three (Thomas 1974)."""
    X = np.array([[1.0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 1]])
    assert np.linalg.matrix_rank(X) == 3
    X = np.kron(X, np.ones((40, 30)))
    Wt, H = INITS["nndsvd"](wrap(kind(X)), 4, np.random.default_rng(0))
    assert np.all(Wt.max(axis=1) > 0)
    assert np.all(H.max(axis=1) > 0)
    assert nmf_merge(kind(X), 4, tol=1e-8).fitting_error < 1e-9
