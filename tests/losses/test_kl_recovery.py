"""Recovery under Kullback–Leibler: the score by a full SVD, the mass, and what is found."""

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge.losses.kl_divergence import Divergence
from nmfmerge.losses.kl_recovery import kl_recover, score_svd
from nmfmerge.matrices.dense import DenseData
from nmfmerge.matrices.sparse import SparseData


@pytest.fixture(params=["dense", "CSR", "CSC"])
def problem(request):
    rng = np.random.default_rng(0)
    X = rng.poisson(2, (40, 60)).astype(float)
    X[3] = 0
    kinds = {
        "dense": lambda: DenseData(X),
        "CSR": lambda: SparseData(sp.csr_array(X)),
        "CSC": lambda: SparseData(sp.csc_array(X)),
    }
    return X, Divergence(kinds[request.param]()), rng.random((2, 4, 40)), rng.random((2, 4, 60))


def test_singular_values_are_those_of_the_score(problem):
    X, divergence, Wt, H = problem
    sizes = np.sqrt(np.outer(X.sum(axis=1), X.sum(axis=0)))
    score = sizes * (X / (Wt[0].T @ H[0]) - 1)
    s = np.linalg.svd(score, compute_uv=False)
    svd = score_svd(divergence, Wt[0], H[0], 3)
    np.testing.assert_allclose(svd.s, s[:3], rtol=1e-9)
    np.testing.assert_allclose(svd.Ut @ score @ svd.Vt.T, np.diag(s[:3]), atol=1e-8 * s[0])


def test_the_scales_explain_x_better_than_before(problem):
    X, divergence, Wt, H = problem
    more_Wt, more_H, values = kl_recover(divergence, Wt, H, 2)
    assert more_Wt.shape == (2, 6, 40)
    assert values.shape == (2, 2)
    assert (more_Wt >= 0).all()
    assert (more_H >= 0).all()
    np.testing.assert_allclose(divergence.masses(more_Wt, more_H).sum(axis=1), X.sum())
    assert (divergence.value(more_Wt, more_H) < divergence.value(Wt, H)).all()
    np.testing.assert_array_equal(more_H[:, :4], H)


def test_components_that_are_held_are_not_rescaled(problem):
    _, divergence, Wt, H = problem
    more_Wt, _, _ = kl_recover(divergence, Wt, H, 2, held=np.array([True, False, False, False]))
    np.testing.assert_array_equal(more_Wt[:, 0], Wt[:, 0])
    assert (more_Wt[:, 1] != Wt[:, 1]).any()


def test_a_component_that_is_missing_is_found():
    rng = np.random.default_rng(1)
    Wt, H = (rng.random((5, p)) + 0.5 for p in (50, 70))
    Wt[4], H[4] = rng.gamma(0.3, size=50), rng.gamma(0.3, size=70)
    divergence = Divergence(DenseData(Wt.T @ H))
    more_Wt, more_H, _ = kl_recover(divergence, Wt[None, :4], H[None, :4], 1)
    for new, missing in ((more_Wt[0, 4], Wt[4]), (more_H[0, 4], H[4])):
        assert new @ missing > 0.9 * np.linalg.norm(new) * np.linalg.norm(missing)


def test_what_is_fitted_already_gets_no_component_of_size():
    rng = np.random.default_rng(2)
    Wt, H = rng.random((1, 3, 30)), rng.random((1, 3, 40))
    divergence = Divergence(DenseData(Wt[0].T @ H[0]))
    more_Wt, more_H, _ = kl_recover(divergence, Wt, H, 1)
    assert np.isfinite(more_Wt).all()
    assert np.isfinite(more_H).all()
    for _ in range(200):
        divergence.sweep_("W", more_Wt, more_H)
        divergence.sweep_("H", more_H, more_Wt)
    assert divergence.exact_values(more_Wt, more_H)[0] < 1e-4 * divergence.size
