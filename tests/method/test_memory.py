"""Peak memory beside X: the factors, their products and what the solvers keep."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge import nmf, nmf_merge


def peak_of(function, X, r, **options):
    function(X[:100, :100], 4, **options)  # compiles
    tracemalloc.start()
    function(X, r, **options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("solver", ["hals", "accelerated"])
@pytest.mark.parametrize(("m", "n"), [(3000, 1000), (1000, 3000)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_three_times_the_factors_beside_X(order, solver, m, n):
    r = 40
    X = np.asarray(np.random.default_rng(0).random((m, n)), order=order)
    factors = 8 * r * (m + n)
    peak = peak_of(nmf, X, r, solver=solver, init="random", tol=1e-3, max_iter=20)
    assert peak < 3.4 * factors
    assert peak < 0.5 * X.nbytes  # no copy of X, nor of its size


@pytest.mark.parametrize(("function", "most"), [(nmf, 3.4), (nmf_merge, 5.0)])
@pytest.mark.parametrize(("m", "n"), [(6000, 2000), (2000, 6000)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_start_and_recovery_take_no_more_than_the_solver(function, most, m, n):
    """NMF-Merge has a fifth more components for a while, and keeps its first solution by them."""
    r = 40
    X = np.random.default_rng(0).random((m, n))
    peak = peak_of(function, X, r, n_init=1, tol=1e-3, max_iter=8)
    assert peak < most * 8 * r * (m + n)


@pytest.mark.parametrize("function", [nmf, nmf_merge])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_six_times_the_factors_for_each_of_several_starts(function):
    """Starts that leave the batch are kept aside, and the others copied to a smaller one."""
    r, m, n = 20, 3000, 1000
    X = np.random.default_rng(0).random((m, n))
    peak = peak_of(function, X, r, n_init=4, max_iter=60)
    assert peak < 6 * 4 * 8 * r * (m + n)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_sparse_data_are_not_copied():
    X = sp.random(4000, 3000, density=0.05, format="csr", random_state=0)
    stored = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    peak = peak_of(nmf_merge, X, 5, init="random", n_init=1, tol=1e-2, max_iter=30)
    assert peak < 1.5 * stored
