"""Compiled passes over the entries of X are the single operations, one after another."""

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge import nmf
from nmfmerge.losses import LOSSES, Problem
from nmfmerge.losses.kl_divergence import Divergence
from nmfmerge.matrices import wrap
from nmfmerge.solvers import Batch, Limits, Loop, solvers_of

KL = LOSSES["kullback-leibler"]
KINDS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "csr": sp.csr_array,
    "csc": sp.csc_array,
}
SETTINGS = {
    "plain": {},
    "L1 and L2": {"alpha_W": 3e-4, "alpha_H": 1e-4, "l1_ratio": 0.5},
}


@pytest.fixture
def single_operations(monkeypatch):
    monkeypatch.setattr(Divergence, "for_passes", lambda self, r: None)


def some_counts(n=90):
    rng = np.random.default_rng(3)
    return rng.poisson(rng.gamma(0.3, 3, (60, 4)) @ rng.gamma(0.3, 3, (4, n))).astype(float)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", SETTINGS)
def test_they_give_the_iterates_of_single_operations(kind, settings, request):
    X = KINDS[kind](some_counts())
    options = {"beta_loss": KL.name, "init": "random", "tol": 1e-3, **SETTINGS[settings]}
    compiled = nmf(X, 5, **options)
    request.getfixturevalue("single_operations")
    single = nmf(X, 5, **options)
    assert compiled.n_iter == single.n_iter
    steps = [one.stages[-1].history.step for one in (compiled, single)]
    np.testing.assert_allclose(*steps, rtol=1e-5)
    assert compiled.objective == pytest.approx(single.objective, rel=1e-9)
    np.testing.assert_allclose(compiled.W, single.W, rtol=1e-6, atol=1e-6 * single.W.max())


def test_they_hold_components(request, rng):
    X, start = some_counts(), (rng.random((60, 5)), rng.random((5, 90)))
    options = {"beta_loss": KL.name, "init": start, "hold": {"W": [0], "H": [0, 2]}, "tol": 1e-3}
    compiled = nmf(X, 5, **options)
    np.testing.assert_array_equal(compiled.H[[0, 2]], start[1][[0, 2]])
    request.getfixturevalue("single_operations")
    np.testing.assert_allclose(compiled.H, nmf(X, 5, **options).H, rtol=1e-6, atol=1e-9)


def test_how_many_are_done_in_a_row_changes_no_bit(rng):
    data = wrap(some_counts())
    start = rng.random((2, 5, 60)), rng.random((2, 5, 90))

    def run(**limits):
        batch = Batch(Problem(data, KL), *(F.copy() for F in start))
        solver = solvers_of(KL)["accelerated"]
        loop = Loop(solver, batch, stage="final", tol=1e-3, limits=Limits(), **limits)
        loop.run()
        return loop.batch.Wt, loop.outcomes()[1].history.step

    (Wt, steps), (others_Wt, others_steps) = run(), run(look_every=1)
    np.testing.assert_array_equal(Wt, others_Wt)
    np.testing.assert_array_equal(steps, others_steps)


@pytest.mark.parametrize("n", [30, 90])
def test_two_sweeps_a_side_on_tiny_data_never_raise_the_objective(n):
    """Of 60 × 30 at rank 5 a side is swept over twice before the other one follows."""
    errors = []
    nmf(
        some_counts(n), 5, beta_loss=KL.name, init="random", tol=1e-6, max_iter=400,
        callback=lambda progress: errors.append(progress.fitting_error),
    )  # fmt: skip
    assert np.diff(errors).max() <= 1e-10 * errors[0]


def test_the_objective_that_they_know_is_that_of_the_factors(rng):
    problem = Problem(wrap(some_counts()), KL)
    batch = Batch(problem, rng.random((2, 5, 60)), rng.random((2, 5, 90)))
    solvers_of(KL)["accelerated"](batch).passes(batch, 0.0, 5)
    fresh = Batch(problem, batch.Wt, batch.H).value()
    np.testing.assert_allclose(batch.value(), fresh, rtol=1e-10)


def test_large_data_are_swept_over_by_single_operations():
    divergence = Divergence(wrap(some_counts()))
    assert divergence.for_passes(5) is not None
    assert divergence.for_passes(1000) is None
