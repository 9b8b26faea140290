import numpy as np
import pytest

from nmfmerge import Interrupted, Status, datasets, metrics, nmf, nmf_merge
from nmfmerge.losses import FROBENIUS, Problem
from nmfmerge.matrices import wrap
from nmfmerge.method.init import INITS
from nmfmerge.solvers import Batch, Limits, Loop
from nmfmerge.solvers.accelerated import AcceleratedHALS


@pytest.fixture(scope="module")
def lcms():
    return datasets.lcms_like(120, 180, 8, random_state=4).X


def trace(X, r, solver="accelerated", **options):
    errors = []
    result = nmf(X, r, solver=solver, callback=lambda p: errors.append(p.fitting_error), **options)
    return result, np.array(errors)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", [(60, 90), (90, 60)])
def test_objective_of_accepted_points_never_rises(seed, shape):
    X = datasets.lcms_like(*shape, 6, random_state=seed).X
    _, errors = trace(X, 6, init="random", random_state=seed, tol=1e-6)
    assert len(errors) > 30
    assert np.all(np.diff(errors) <= 1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_it_never_returns_worse_than_the_plain_start(lcms, seed):
    """Stopped anywhere, the objective is at most that where plain HALS handed over."""
    handed_over = nmf(lcms, 8, solver="hals", tol=1e-2, init="random", random_state=seed)
    for n in (1, 2, 5, 17, 60):
        total = handed_over.n_iter + n
        result = nmf(
            lcms,
            8,
            solver="accelerated",
            tol=0,
            init="random",
            random_state=seed,
            callback=lambda p, total=total: p.iteration == total,
        )
        assert result.fitting_error <= handed_over.fitting_error * (1 + 1e-12)


def test_its_first_iterations_are_those_of_hals(lcms):
    loose = {"init": "random", "random_state": 1, "tol": 1e-2}
    plain, fast = (nmf(lcms, 8, solver=solver, **loose) for solver in ("hals", "accelerated"))
    np.testing.assert_array_equal(plain.W, fast.W)
    assert plain.n_iter == fast.n_iter


def test_it_needs_far_fewer_iterations_for_the_same_error(lcms):
    ratios = []
    for seed in range(8):
        start = {"init": "random", "random_state": seed}
        plain = nmf(lcms, 8, solver="hals", **start)
        _, errors = trace(lcms, 8, tol=1e-6, **start)
        reached = errors <= plain.fitting_error * (1 + 1e-9)
        ratios.append(plain.n_iter / (np.argmax(reached) + 1) if reached.any() else 1.0)
    assert np.exp(np.mean(np.log(ratios))) > 2.5


def test_tol_means_the_quality_that_it_means_for_hals():
    """Excess over the error of full convergence, start by start: mostly no more than HALS leaves.

    A few starts stop on a plateau with either solver, so means tell nothing.
    """
    ratios = []
    for seed in range(24):
        X = datasets.lcms_like(60, 80, 5, random_state=seed).X
        excess = []
        for solver in ("accelerated", "hals"):
            result = nmf(X, 5, solver=solver, init="random", random_state=seed)
            end = nmf(X, 5, solver="accelerated", init=(result.W, result.H), tol=1e-6)
            excess.append(max(result.fitting_error / end.fitting_error - 1, 1e-12))
        ratios.append(excess[0] / excess[1])
    assert np.median(ratios) < 1.1
    assert np.mean(np.array(ratios) < 1.5) > 0.75


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_near_exact_fits_converge(rng, dtype):
    """The objective is rounding noise there; restarts must not be decided by it."""
    X = (rng.random((60, 4)) @ rng.random((4, 50))).astype(dtype)
    tol = 1e-4 if dtype == np.float32 else 1e-9
    result = nmf(X, 4, solver="accelerated", tol=tol, max_iter=50_000)
    assert result.converged
    assert result.fitting_error < (1e-3 if dtype == np.float32 else 1e-10)


def spectra_mixture(noise, seed=0):
    """Six spectra mixed in 800 pixels; the error of a good fit is about the noise squared."""
    rng = np.random.default_rng(seed)
    X = rng.random((90, 6)) ** 3 @ rng.dirichlet(np.full(6, 0.3), 800).T
    return X * np.clip(1 + noise * rng.standard_normal(X.shape), 0, None)


@pytest.mark.parametrize("noise", [0.1, 0.03, 0.01, 0.003])
@pytest.mark.parametrize("seed", range(3))
def test_single_precision_ends_where_double_does(noise, seed):
    """Down to errors of 1e-3 %, which the objective in single precision cannot tell apart."""
    X = spectra_mixture(noise, seed)
    double, single = (nmf(X.astype(dtype), 6) for dtype in ("f8", "f4"))
    assert single.converged
    assert single.n_iter < 1.5 * double.n_iter
    assert single.fitting_error < 1.002 * double.fitting_error


def test_momentum_is_not_lost_where_the_objective_cancels():
    X = spectra_mixture(0.003).astype("f4")
    fast, plain = (nmf(X, 6, solver=solver) for solver in ("accelerated", "hals"))
    assert fast.fitting_error < 2e-3
    assert fast.fitting_error <= plain.fitting_error
    assert fast.n_iter < plain.n_iter


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_objective_never_rises_where_it_cancels(dtype):
    """Accepted points are compared in double precision, by their exact residuals."""
    X = spectra_mixture(1e-3 if dtype == "f4" else 1e-7).astype(dtype)
    points = []
    nmf(X, 6, callback=lambda p: points.append((p.W.copy(), p.H.copy())), tol=1e-6, max_iter=200)
    errors = np.array([metrics.fitting_error(X, W, H) for W, H in points])
    assert len(errors) > 40
    assert errors[-1] < 1e-3
    rounding = 1e-5 if dtype == "f4" else 1e-12
    assert np.all(np.diff(errors) <= rounding * errors[:-1])


@pytest.mark.parametrize("n_components", [3, 6, 10])
def test_single_precision_ends_where_double_does_on_a_hyperspectral_image(n_components, real):
    X = real("samson")
    double, single = (nmf(X.astype(dtype), n_components) for dtype in ("f8", "f4"))
    assert double.fitting_error > 1e-3
    assert single.fitting_error < 1.002 * double.fitting_error


def test_converged_solution_is_a_stationary_point(lcms):
    result = nmf(lcms, 8, solver="accelerated", tol=1e-9, max_iter=50_000)
    assert metrics.kkt_residual(lcms, result.W, result.H) < 1e-7


def test_an_iteration_cut_off_leaves_the_better_of_two_points(lcms, monkeypatch, single_operations):
    data = wrap(lcms)
    rng = np.random.default_rng(0)
    starts = [INITS[init](data, 8, rng) for init in ("nndsvd", "random", "random")]
    batch = Batch(Problem(data, FROBENIUS), *(np.stack(side) for side in zip(*starts, strict=True)))
    first = Loop(AcceleratedHALS, batch, stage="final", tol=0, limits=Limits(max_iter=60))
    first.run()
    before = first.batch.value()
    calls = []
    original = Batch.fit

    def interrupted(self, *arguments):
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return original(self, *arguments)

    monkeypatch.setattr(Batch, "fit", interrupted)
    loop = Loop(
        AcceleratedHALS, first.batch, stage="final", tol=0, limits=Limits(max_iter=65),
        before=first.state(),
    )  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        loop.run()
    loop.cut_off()
    monkeypatch.undo()
    assert {outcome.status for outcome in loop.outcomes()} == {Status.INTERRUPTED}
    fresh = Batch(Problem(data, FROBENIUS), loop.batch.Wt, loop.batch.H)
    assert (fresh.value() <= before * (1 + 1e-12)).all()


def test_ctrl_c_in_the_accelerated_phase(lcms):
    def callback(progress):
        if progress.iteration == 80:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        nmf(lcms, 8, solver="accelerated", tol=0, callback=callback)
    result = caught.value.factorization
    assert metrics.fitting_error(lcms, result.W, result.H) == pytest.approx(result.fitting_error)


def test_it_works_inside_nmf_merge_and_ends_where_hals_does():
    X = datasets.lcms_like(200, 300, 10).X
    for seed in range(3):
        plain, fast = (
            nmf_merge(X, 10, solver=solver, init="random", n_init=1, random_state=seed)
            for solver in ("hals", "accelerated")
        )
        assert fast.fitting_error == pytest.approx(plain.fitting_error, rel=0.02)
