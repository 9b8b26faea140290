"""Structure of the residual: about 1 for noise of any kind, large where a component is missing."""

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge.inputs.check import check_X
from nmfmerge.ranks.residual import ResidualStructure


def structure(X, W, H):
    data = check_X(X)
    return ResidualStructure(data).structure(W.T / data.unit, H / data.unit)


def exact(R, rng):
    """The same ratio by full decompositions and many draws of signs."""
    flips = [np.linalg.norm(R * rng.choice([-1, 1], R.shape), 2) ** 2 for _ in range(30)]
    return np.linalg.norm(R, 2) ** 2 / np.mean(flips)


@pytest.mark.parametrize("shape", [(50, 70), (120, 200), (400, 90)])
def test_it_is_the_ratio_of_largest_singular_values(rng, shape):
    W, H = rng.random((shape[0], 3)), rng.random((3, shape[1]))
    X = W @ H + 0.3 * rng.random(shape) + np.outer(rng.random(shape[0]), rng.random(shape[1]))
    assert structure(X, W, H) == pytest.approx(exact(X - W @ H, rng), rel=0.05)


@pytest.mark.parametrize("kind", ["white", "by row and column", "counts"])
def test_noise_has_none_and_a_missing_component_has_much(rng, kind):
    m, n = 150, 200
    W, H = rng.gamma(1, 1, (m, 4)), rng.gamma(1, 1, (4, n))
    L = W @ H
    if kind == "counts":
        X = rng.poisson(L).astype(float)
    else:
        size = np.outer(rng.random(m), rng.random(n)) if kind != "white" else 0.3
        X = np.maximum(L + size * rng.standard_normal((m, n)), 0)
    assert structure(X, W, H) < 1.25
    assert structure(X, W[:, :3], H[:3]) > 2


def test_sparse_data_and_any_order_of_dense_data_agree(rng):
    X = rng.poisson(0.3, (120, 90)).astype(float)
    W, H = rng.random((120, 2)), rng.random((2, 90))
    expected = structure(X, W, H)
    for same in (np.asfortranarray(X), sp.csr_array(X), sp.csc_array(X), 4.0**40 * X):
        scale = same.max() / X.max()
        assert structure(same, scale * W, H) == pytest.approx(expected, rel=1e-9)


def test_of_large_data_the_heaviest_rows_and_columns_are_looked_at(rng, monkeypatch):
    monkeypatch.setattr("nmfmerge.ranks.residual._MAX_ENTRIES", 2000)
    X = rng.random((100, 80)) * np.linspace(0, 1, 100)[:, None] ** 20
    for data in (check_X(X), check_X(sp.csr_array(X))):
        rows, columns, part, _ = data.sample(2000)
        assert part.size == pytest.approx(2000, rel=0.05)
        assert set(rows) == set(range(100 - len(rows), 100))
        np.testing.assert_allclose(part * data.unit**2, X[np.ix_(rows, columns)])


def test_a_residual_of_zeros_has_no_structure():
    X = np.outer(np.arange(1.0, 91), np.ones(80))
    assert structure(X, X[:, :1], np.ones((1, 80))) == 1.0
