"""A sketch has the products of X where X has few directions, and nearly its best ones elsewhere."""

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge.inputs import check
from nmfmerge.matrices import sketch as module
from nmfmerge.matrices.sketch import sketch

R = 6


def counts(m=700, n=600, seed=0):
    """Counts of sparse components under much noise, as of single cells."""
    rng = np.random.default_rng(seed)
    W, H = rng.gamma(0.3, 1.0, (m, R)), rng.gamma(0.3, 1.0, (R, n))
    return rng.poisson(W @ H).astype(np.float64)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix, sp.csc_matrix])
def test_products_are_those_of_x_of_low_rank(kind):
    rng = np.random.default_rng(1)
    X = rng.random((900, R)) @ rng.random((R, 800))
    data = check.check_X(kind(X))
    found, H, Wt = sketch(data, R), rng.random((3, 800)), rng.random((3, 900))
    assert found is not None
    scale = found.unit**2
    assert np.allclose(found.HXt(H, np.empty((3, 900))) * scale, H @ X.T)
    assert np.allclose(found.WtX(Wt, np.empty((3, 800))) * scale, Wt @ X)
    assert found.residual_norm2(Wt[:2] * 0, H[:2]) == pytest.approx(data.norm2)


def test_sketch_leaves_out_hardly_more_than_the_best_one_of_its_size(monkeypatch):
    monkeypatch.setattr(module, "_GAIN", 1)
    X = counts()
    found = sketch(check.check_X(X), R)
    k = len(found.U)
    left = np.linalg.norm(X - found.unit**2 * found.U.T @ found.V) ** 2
    assert left < 1.02 * (np.linalg.svd(X, compute_uv=False)[k:] ** 2).sum()


def test_there_is_no_sketch_where_products_with_x_are_short():
    assert sketch(check.check_X(np.random.default_rng(0).random((200, 96))), R) is None
    assert sketch(check.check_X(sp.random(3000, 2000, 0.001, random_state=0).tocsr()), R) is None
