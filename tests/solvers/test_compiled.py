"""Compiled passes are the single operations, one after another."""

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge import datasets, nmf, nmf_merge
from nmfmerge.backends import threads
from nmfmerge.backends.numba import hals_passes_
from nmfmerge.losses import FROBENIUS, Problem
from nmfmerge.matrices import DenseData, SparseData, wrap
from nmfmerge.solvers import SOLVERS, Batch, Limits, Loop

KINDS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "csr": sp.csr_array,
    "csc": sp.csc_array,
}
SETTINGS = {
    "plain": {},
    "L1": {"alpha_W": 1e-4, "l1_ratio": 1.0},
    "L1 and L2": {"alpha_W": 3e-4, "alpha_H": 1e-4, "l1_ratio": 0.5},
}


def some_data():
    X = datasets.lcms_like(50, 70, 5, noise=0.05).X
    return np.where(X < 0.1, 0, X)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("solver", ["hals", "accelerated"])
def test_they_give_the_iterates_of_single_operations(kind, settings, solver, request):
    X = KINDS[kind](some_data())
    options = {"solver": solver, "init": "random", "tol": 1e-3, **SETTINGS[settings]}
    compiled = nmf(X, 6, **options)
    request.getfixturevalue("single_operations")
    single = nmf(X, 6, **options)
    rtol = 1e-2 if kind == "float32" else 1e-6  # rounding grows over hundreds of iterations
    if kind != "float32":
        assert compiled.n_iter == single.n_iter
        steps = [one.stages[-1].history.step for one in (compiled, single)]
        np.testing.assert_allclose(*steps, rtol=1e-5)
    assert compiled.objective == pytest.approx(single.objective, rel=rtol)
    np.testing.assert_allclose(compiled.W, single.W, rtol=rtol, atol=rtol * single.W.max())


@pytest.mark.parametrize("kind", ["C", "csr"])
def test_they_hold_components(kind, request, rng):
    X = KINDS[kind](some_data())
    start = rng.random((50, 5)), rng.random((5, 70))
    options = {"init": start, "hold": {"W": [0], "H": [0, 2]}, "tol": 1e-3}
    compiled = nmf(X, 5, **options)
    np.testing.assert_array_equal(compiled.H[[0, 2]], start[1][[0, 2]])
    np.testing.assert_array_equal(compiled.W[:, 0], start[0][:, 0])
    request.getfixturevalue("single_operations")
    single = nmf(X, 5, **options)
    assert compiled.n_iter == single.n_iter
    np.testing.assert_allclose(compiled.H, single.H, rtol=1e-6, atol=1e-9)


def test_they_go_on_near_an_exact_fit(request, rng):
    """There the objective cancels, and its rise is summed from parts."""
    X = rng.random((40, 3)) @ rng.random((3, 50))
    options = {"init": "random", "tol": 1e-9, "max_iter": 3000}
    compiled = nmf(X, 3, **options)
    request.getfixturevalue("single_operations")
    single = nmf(X, 3, **options)
    assert compiled.converged
    assert compiled.fitting_error < 1e-12
    assert single.fitting_error < 1e-12
    assert compiled.n_iter == pytest.approx(single.n_iter, rel=0.1)


@pytest.mark.parametrize("solver", ["hals", "accelerated"])
def test_how_many_are_done_in_a_row_changes_no_bit(solver, rng):
    data = wrap(some_data())
    start = rng.random((1, 6, 50)), rng.random((1, 6, 70))

    def run(**limits):
        batch = Batch(Problem(data, FROBENIUS), *(F.copy() for F in start))
        loop = Loop(SOLVERS[solver], batch, stage="final", tol=1e-3, limits=Limits(), **limits)
        loop.run()
        return loop.batch.Wt, loop.outcomes()[0].history.step

    (Wt, steps), (others_Wt, others_steps) = run(), run(look_every=1)
    np.testing.assert_array_equal(Wt, others_Wt)
    np.testing.assert_array_equal(steps, others_steps)


@pytest.mark.parametrize("kind", ["C", "csr"])
def test_the_objective_that_they_know_is_that_of_the_factors(kind, rng):
    data = wrap(KINDS[kind](some_data()))
    problem = Problem(data, FROBENIUS)
    batch = Batch(problem, rng.random((2, 6, 50)), rng.random((2, 6, 70)))
    SOLVERS["hals"](batch).passes(batch, 0.0, 5)
    known = batch.value()
    fresh = Batch(problem, batch.Wt, batch.H).value()
    np.testing.assert_allclose(known, fresh, rtol=1e-10)


def test_long_products_are_single_operations():
    assert wrap(some_data()).for_passes(5) is not None
    large = np.ones((1, 1))
    large = np.lib.stride_tricks.as_strided(large, (4000, 4000), (0, 0))
    assert DenseData.for_passes(wrap_as(large), 5) is None


def wrap_as(X):
    """A data matrix of a shape, for what asks for nothing else."""
    data = DenseData.__new__(DenseData)
    data.X, data.scale = X, 1.0
    return data


@pytest.mark.parametrize("kind", ["C", "csr"])
@pytest.mark.parametrize("fit", [nmf, nmf_merge])
def test_a_start_has_the_same_bits_alone_and_among_others(kind, fit, three_threads, monkeypatch):
    X = KINDS[kind](datasets.lcms_like(60, 90, 5, noise=0.02).X)
    several = fit(X, 5, init="random", n_init=4, return_all=True, random_state=3)
    for i, start in enumerate(several.starts):
        alone = fit(X, 5, init="random", n_init=1, random_state=start.seed)
        np.testing.assert_array_equal(alone.W, several.solutions[i].W)
    monkeypatch.setattr(threads, "available_threads", lambda: 1)
    one_by_one = fit(X, 5, init="random", n_init=4, random_state=3)
    np.testing.assert_array_equal(one_by_one.H, several.H)


def test_sparse_products_in_several_threads_have_room_of_their_own(
    single_operations, three_threads
):
    """Starts of a large sparse X multiply with it at the same time."""
    X = sp.csr_array(np.where(some_data() > 0.3, some_data(), 0))
    several = nmf(X, 5, init="random", n_init=6, return_all=True, tol=1e-3)
    for start, solution in zip(several.starts, several.solutions, strict=True):
        alone = nmf(X, 5, init="random", random_state=start.seed, tol=1e-3)
        np.testing.assert_array_equal(alone.W, solution.W)
    assert isinstance(wrap(X), SparseData)


def test_a_whole_number_as_a_tolerance_compiles_nothing_again():
    X = some_data()
    nmf(X, 4, n_init=1, tol=1.0)
    compiled = list(hals_passes_.signatures)
    nmf(X, 4, n_init=1, tol=1)
    assert hals_passes_.signatures == compiled
