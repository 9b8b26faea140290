"""Component 1 is the one with the largest share, everywhere."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from nmfmerge import NMFMerge, datasets, merge_components, metrics, nmf, nmf_merge, rank_path
from nmfmerge.losses import FROBENIUS
from nmfmerge.matrices import wrap
from nmfmerge.metrics import shares


@pytest.fixture(scope="module")
def X():
    return datasets.lcms_like(60, 80, 8).X


def is_sorted(result):
    share = shares(result.W, result.H)
    return (np.diff(share) <= 1e-9 * share[:-1]).all()


@pytest.mark.parametrize("function", [nmf, nmf_merge])
@pytest.mark.parametrize("solver", ["hals", "accelerated", "mu", "gcd", "alspgrad"])
@pytest.mark.parametrize("n_init", [1, 3])
def test_components_are_sorted_by_share(X, function, solver, n_init):
    result = function(X, 5, solver=solver, n_init=n_init, tol=1e-2, return_all=True)
    assert is_sorted(result)
    assert all(is_sorted(solution) for solution in result.solutions)


def test_sparse_and_small_precision_are_sorted_too(X):
    assert is_sorted(nmf_merge(sp.csr_matrix(X), 5))
    assert is_sorted(nmf_merge(X.astype(np.float32), 5))
    assert is_sorted(nmf_merge(X * 1e-150, 5))


def test_every_rank_of_a_path_is_sorted(X):
    assert all(is_sorted(result) for result in rank_path(X, 7).values())


def _unit(F):
    return F / np.linalg.norm(F, axis=1, keepdims=True)


def _similarity(first, second):
    """For each component of the first, the largest product of cosines with one of the second."""
    in_W = _unit(first.W.T) @ _unit(second.W.T).T
    return (in_W * (_unit(first.H) @ _unit(second.H).T)).max(axis=1)


@pytest.fixture(scope="module")
def uneven():
    """A fit of which one component is not found from every start."""
    X = datasets.lcms_like(60, 80, 8, random_state=2).X
    result = nmf_merge(X, 6, return_all=True)
    assert 0 < len(result.found_always()) < 6
    return result


def test_similarities_go_with_their_components(uneven):
    for start, solution in zip(uneven.starts, uneven.solutions, strict=True):
        found = start.similarity >= 0.9
        expected = _similarity(uneven, solution)
        np.testing.assert_allclose(start.similarity[found], expected[found], rtol=1e-6)
        assert (expected[~found] < 0.9).all()


def test_the_spread_goes_with_its_components(uneven):
    varies = np.ones(6, dtype=bool)
    varies[uneven.found_always()] = False
    share = np.linalg.norm(uneven.spread.H, axis=1) / np.linalg.norm(uneven.H, axis=1)
    assert share[varies].min() > share[~varies].max()


def test_sorting_does_not_change_the_fit(X):
    result = nmf_merge(X, 6)
    assert metrics.fitting_error(X, result.W, result.H) == pytest.approx(result.fitting_error)


def test_the_order_is_the_users_where_components_are_given(X):
    W, H = nmf(X, 5).W[:, ::-1], nmf(X, 5).H[::-1]
    kept = nmf(X, 5, init=(W, H), max_iter=10)
    assert not is_sorted(kept)
    np.testing.assert_array_equal(metrics.match_components(W, kept.W)[0], np.arange(5))
    held = nmf_merge(X, 5, init=(W, H), hold={"H": [0, 1]})
    np.testing.assert_allclose(held.H[:2], H[:2])
    assert is_sorted(nmf_merge(X, 5, init=(W, H)))


def test_merges_lead_to_the_components_that_they_made(X):
    result = nmf_merge(X, 5, n_extra=3, n_init=1)
    assert sorted(result.merge_ids) == list(result.merges.roots)
    W, _, tree = merge_components(X[:, :9], np.ones((9, 20)), 4)
    assert len(tree.roots) == W.shape[1] == 4


def test_the_estimator_has_them_in_the_same_order(X):
    model = NMFMerge(5).fit(X)
    np.testing.assert_array_equal(model.components_, nmf_merge(X, 5).H)


def test_reordering_twice_is_reordering_once(X):
    result = nmf_merge(X, 5, n_init=2, init="random")
    there = result.reordered([2, 0, 1, 4, 3])
    back = there.reordered([1, 2, 0, 4, 3])
    np.testing.assert_array_equal(back.W, result.W)
    np.testing.assert_array_equal(back.spread.H, result.spread.H)
    assert back.merge_ids == result.merge_ids
    assert there.merge_ids == tuple(result.merge_ids[k] for k in (2, 0, 1, 4, 3))
    np.testing.assert_array_equal(
        there.starts[1].similarity, result.starts[1].similarity[[2, 0, 1, 4, 3]]
    )


@given(st.integers(1, 6), st.integers(0, 10_000))
def test_shares_from_grams_are_those_of_the_metric(r, seed):
    rng = np.random.default_rng(seed)
    W, H = rng.random((7, r)), rng.random((r, 9)) * rng.random((r, 1))
    ours = FROBENIUS.shares(wrap(W @ H), np.ascontiguousarray(W.T)[None], H[None])[0]
    np.testing.assert_allclose(100 * ours / ours.sum(), shares(W, H), rtol=1e-9)
