"""Each bad input gets a message that names the argument, what was expected, what came, the fix."""

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge import NMFMerge, merge_components, nmf, nmf_merge, recover_components

GOOD = np.arange(1.0, 31).reshape(6, 5)


def with_entry(value):
    X = GOOD.copy()
    X[2, 3] = value
    return X


BAD_X = [
    (with_entry(-0.5), ValueError, r"Negative values.*X\[2, 3\] is -0.5.*must be nonnegative"),
    (with_entry(np.inf), ValueError, r"X contains infinity \(X\[2, 3\] is inf\); expected finite"),
    (with_entry(-np.inf), ValueError, r"X contains infinity \(X\[2, 3\] is -inf\)"),
    (np.empty((0, 5)), ValueError, r"X is empty: its shape is \(0, 5\)"),
    (np.empty((5, 0)), ValueError, "X is empty"),
    (np.arange(5.0), ValueError, r"X has 1 dimension.*expected a 2-D array.*reshape"),
    (np.ones((2, 3, 4)), ValueError, "X has 3 dimension"),
    (GOOD + 1j, TypeError, r"X is complex; expected real values: take abs\(X\)"),
    (sp.csr_array(GOOD + 1j), TypeError, "X is complex"),
    (GOOD.astype(object), TypeError, r"X has dtype object.*X.astype\(float\)"),
    (np.full((6, 5), "a"), TypeError, "X has dtype <U1"),
]


@pytest.mark.parametrize(("X", "error", "message"), BAD_X)
@pytest.mark.parametrize("function", [nmf, nmf_merge])
def test_bad_data(function, X, error, message):
    with pytest.raises(error, match=message):
        function(X, 2)


@pytest.mark.parametrize("value", [-1.0, -np.inf, np.inf])
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array])
def test_bad_sparse_data_name_the_entry(kind, value):
    X = np.zeros((6, 5))
    X[2, 3] = value
    with pytest.raises(ValueError, match=r"X\[2, 3\] is"):
        nmf(kind(X), 2)


BAD_ARGUMENTS = [
    ({"n_components": 0}, ValueError, "n_components=0 is out of range; expected a whole number"),
    ({"n_components": -3}, ValueError, "n_components=-3 is out of range"),
    ({"n_components": 6}, ValueError, "n_components=6 is too large for X with n_samples=6 rows and "
     "n_features=5 columns: use at most 5"),
    ({"n_components": 2.5}, TypeError, "n_components=2.5 is a float; expected a whole number"),
    ({"n_components": True}, TypeError, "n_components=True is a bool"),
    ({"n_components": None}, TypeError, "n_components=None is a NoneType"),
    ({"n_extra": -1}, ValueError, "n_extra=-1 is out of range; expected a whole .* at least 0"),
    ({"n_extra": 1.5}, TypeError, "n_extra=1.5 is a float"),
    ({"solver": "hasl"}, ValueError, "solver='hasl' is not known; expected one of 'acc"),
    ({"solver": None}, ValueError, "solver=None is not known"),
    ({"init": "svd"}, ValueError, "init='svd' is not known; expected one of 'nndsvd', 'nndsvda'"),
    ({"init": 3}, TypeError, r"init=3 is a int; expected one of .* or a pair of arrays"),
    ({"init": (np.ones((6, 3)), np.ones((2, 5)))}, ValueError, r"\(W0\) has shape \(6, 3\)"),
    ({"init": (np.ones((5, 2)), np.ones((2, 5)))}, ValueError, r"expected \(6, 2\) and \(2, 5\)"),
    ({"init": (-np.ones((6, 2)), np.ones((2, 5)))}, ValueError, r"\(W0\) has negative values"),
    ({"init": (np.ones((6, 2)), np.nan * np.ones((2, 5)))}, ValueError, r"\(H0\) contains NaN"),
    ({"tol": -1}, ValueError, "tol=-1 is out of range; expected a number of at least 0"),
    ({"tol": np.nan}, ValueError, "tol=nan is out of range"),
    ({"tol": "small"}, TypeError, "tol='small' is a str"),
    ({"tol_intermediate": -1.0}, ValueError, "tol_intermediate=-1.0 is out of range"),
    ({"max_iter": 0}, ValueError, "max_iter=0 is out of range; expected a whole .* at least 1"),
    ({"max_iter": 1e4}, TypeError, "max_iter=10000.0 is a float"),
    ({"max_time": 0}, ValueError, "max_time=0 is out of range; expected a number above 0"),
    ({"random_state": "x"}, TypeError, "random_state='x' is a str; expected None"),
    ({"random_state": -1}, ValueError, "random_state=-1 is out of range"),
    ({"callback": 3}, TypeError, "callback=3 is a int; expected a function"),
    ({"verbose": -1}, ValueError, "verbose=-1 is out of range"),
    ({"verbose": "x"}, TypeError, "verbose='x' is a str"),
    ({"init": (np.full((6, 2), 1e200), np.ones((2, 5)))}, ValueError, "too large beside X"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "error", "message"), BAD_ARGUMENTS)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        nmf_merge(GOOD, **{"n_components": 2, **arguments})
    with pytest.raises(error, match=message):
        NMFMerge(**{"n_components": 2, **arguments}).fit(GOOD)


def test_arguments_are_checked_before_anything_is_computed(monkeypatch):
    def computed(*args, **kwargs):
        raise AssertionError("computed before all arguments were checked")

    monkeypatch.setattr("nmfmerge.matrices.dense.lapack_svd", computed)
    monkeypatch.setattr("nmfmerge.method.course.Loop", computed)
    for arguments, error, message in BAD_ARGUMENTS:
        with pytest.raises(error, match=message):
            nmf_merge(GOOD, **{"n_components": 2, **arguments})


def test_bad_factors():
    W, H = np.ones((6, 3)), np.ones((2, 5))
    with pytest.raises(ValueError, match=r"W has shape \(6, 3\) and H has shape \(2, 5\)"):
        merge_components(W, H)
    with pytest.raises(ValueError, match=r"W has shape \(6, 3\) and H has shape \(2, 5\)"):
        recover_components(GOOD, W, H, 1)
    with pytest.raises(ValueError, match="H has negative values"):
        merge_components(W, -np.ones((3, 5)))
    with pytest.raises(ValueError, match="W contains NaN"):
        merge_components(W * np.nan, np.ones((3, 5)))
    with pytest.raises(TypeError, match="order=3 is a int; expected a function"):
        merge_components(W, np.ones((3, 5)), order=3)
    with pytest.raises(ValueError, match="max_penalty=-1 is out of range"):
        merge_components(W, np.ones((3, 5)), max_penalty=-1)
    with pytest.raises(ValueError, match=r"W and H have shapes \(4, 3\).*expected \(6, 3\)"):
        recover_components(GOOD, np.ones((4, 3)), np.ones((3, 5)), 1)
    with pytest.raises(ValueError, match="n_extra=0 is out of range; expected a whole number"):
        recover_components(GOOD, W, np.ones((3, 5)), 0)


def test_sparse_duplicates_are_summed_without_touching_the_users_matrix():
    X = sp.csr_array((np.ones(4), np.array([0, 0, 1, 1]), np.array([0, 2, 4])), shape=(2, 2))
    result = nmf(X, 1)
    dense = nmf(np.array([[2.0, 0], [0, 2]]), 1)
    assert result.objective == pytest.approx(dense.objective)
    assert X.nnz == 4


def test_foreign_byte_order_and_half_precision_are_understood():
    big_endian = GOOD.astype(">f8")
    np.testing.assert_array_equal(nmf(big_endian, 2).W, nmf(GOOD, 2).W)
    assert nmf(GOOD.astype(np.float16), 2, tol=1e-2).W.dtype == np.float32
