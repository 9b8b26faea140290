"""Fits under the Kullback–Leibler divergence, through the functions that users call."""

import gc
import json
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import NMF
from sklearn.decomposition._nmf import _beta_divergence
from sklearn.exceptions import ConvergenceWarning

from nmfmerge import (
    Interrupted,
    NMFMerge,
    Status,
    cli,
    merge_components,
    metrics,
    nmf,
    nmf_merge,
    recover_components,
    transform,
)
from nmfmerge.backends import threads
from nmfmerge.inputs.check import check_X
from nmfmerge.losses import KULLBACK_LEIBLER
from nmfmerge.losses.kullback_leibler import divergence_of
from nmfmerge.matrices import wrap
from nmfmerge.method.init import INITS
from nmfmerge.storage import folder
from nmfmerge.storage.checkpoint import Checkpoint

KL = {"beta_loss": "kullback-leibler"}


def counts(m=60, n=80, r=5, seed=0, level=3.0):
    rng = np.random.default_rng(seed)
    W, H = (rng.gamma(0.3, size=shape) for shape in ((m, r), (r, n)))
    mean = W @ H
    return rng.poisson(level * mean / mean.mean()).astype(float)


X = counts()


def divergence(X, W, H):
    return _beta_divergence(X, W, H, 1)


@pytest.mark.parametrize("kind", [np.array, sp.csr_array])
def test_the_divergence_is_made_once_and_freed_with_the_matrix(kind):
    data = check_X(kind(X))
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(divergence_of, [data] * 32))
    assert len(made) == 1
    freed = [weakref.ref(data), weakref.ref(made.pop())]
    gc.disable()  # no cycle may keep them
    try:
        del data
        assert [ref() for ref in freed] == [None, None]
    finally:
        gc.enable()


def test_data_are_freed_after_a_fit():
    given = X.copy()
    ref = weakref.ref(given)
    nmf_merge(given, 4, n_init=1, tol=1e-2, **KL)
    del given
    gc.collect()
    assert ref() is None


@pytest.mark.parametrize("solver", ["accelerated", "mu"])
def test_objective_and_error_are_the_divergence(solver):
    result = nmf(X, 4, init="random", solver=solver, tol=1e-3, **KL)
    assert result.objective == pytest.approx(divergence(X, result.W, result.H), rel=1e-5)
    margins = divergence(X, X.sum(axis=1, keepdims=True), X.sum(axis=0, keepdims=True) / X.sum())
    assert result.fitting_error == pytest.approx(100 * result.objective / margins)
    error = metrics.fitting_error(X, result.W, result.H, beta_loss="kl")
    assert error == pytest.approx(result.fitting_error)


@pytest.mark.parametrize("init", ["nndsvd", "nndsvda", "nndsvdar", "random"])
def test_the_objective_never_rises(init):
    errors = []
    nmf(X, 5, init=init, callback=lambda p: errors.append(p.fitting_error), **KL)
    assert len(errors) > 10
    assert np.diff(errors).max() <= 1e-9


@pytest.mark.parametrize("penalties", [{}, {"alpha_W": 0.01}, {"alpha_W": 0.01, "l1_ratio": 1.0}])
def test_a_fit_ends_where_no_entry_wants_to_move(penalties):
    result = nmf(X, 4, init="random", tol=1e-8, max_iter=100_000, **penalties, **KL)
    ratio = 1 - X / np.maximum(result.W @ result.H, 1e-300)
    alpha, l1 = penalties.get("alpha_W", 0), penalties.get("l1_ratio", 0)
    for F, gradient, scale, length in (
        (result.W, ratio @ result.H.T, result.H.sum(axis=1), X.shape[1]),
        (result.H.T, ratio.T @ result.W, result.W.sum(axis=0), X.shape[0]),
    ):
        gradient = (gradient + alpha * length * (l1 + (1 - l1) * F)) / scale
        assert np.abs(F / F.max(axis=0) * gradient).max() < 1e-5
        assert gradient.min() > -1e-5


def test_zeros_of_nndsvd_are_left():
    result = nmf(X, 5, tol=1e-5, **KL)
    best = min(nmf(X, 5, init="random", random_state=i, tol=1e-5, **KL).objective for i in range(5))
    assert result.objective < 1.02 * best


def test_it_ends_no_higher_than_multiplicative_updates_from_the_same_start():
    rng = np.random.default_rng(1)
    W, H = rng.random((60, 4)), rng.random((4, 80))
    model = NMF(4, init="custom", solver="mu", beta_loss="kullback-leibler", max_iter=3000, tol=0)
    W = model.fit_transform(X, W=W, H=H)
    result = nmf(X, 4, init=(W, model.components_), **KL)
    assert result.objective <= divergence(X, W, model.components_) * (1 + 1e-9)


@pytest.mark.parametrize("kind", [np.asfortranarray, sp.csr_array, sp.csc_array, sp.csr_matrix])
def test_kinds_of_a_matrix_agree(kind):
    dense, other = (nmf_merge(A, 4, random_state=0, **KL) for A in (X, kind(X)))
    assert other.fitting_error == pytest.approx(dense.fitting_error, rel=1e-6)
    np.testing.assert_allclose(other.W @ other.H, dense.W @ dense.H, rtol=1e-2, atol=1e-2)


def test_single_precision_agrees():
    double, single = (nmf_merge(A, 4, **KL) for A in (X, X.astype(np.float32)))
    assert single.W.dtype == np.float32
    assert single.fitting_error == pytest.approx(double.fitting_error, rel=1e-3)


@pytest.mark.parametrize("seed", [0, 2])
def test_large_counts_in_single_precision_converge(seed):
    """Though near the end rounding hides whether extrapolation raises the divergence."""
    rng = np.random.default_rng(seed)
    rates = 300 * rng.gamma(0.3, size=(96, 6)) @ rng.gamma(0.5, size=(6, 21))
    counts = rng.poisson(rates).astype(np.float32)
    options = {"init": "random", "n_init": 4, "max_iter": 1000, **KL}
    single, double = nmf(counts, 5, **options), nmf(counts.astype(float), 5, **options)
    assert [start.status for start in single.starts] == [Status.CONVERGED] * 4
    for one, other in zip(single.starts, double.starts, strict=True):
        assert one.fitting_error == pytest.approx(other.fitting_error, rel=2e-3)


@pytest.mark.parametrize("scale", [4.0**-20, 4.0, 4.0**30])
def test_the_fit_is_the_same_at_any_scale_of_x(scale):
    base, scaled = nmf_merge(X, 4, **KL), nmf_merge(X * scale, 4, **KL)
    assert scaled.fitting_error == base.fitting_error
    np.testing.assert_array_equal(scaled.W, base.W * np.sqrt(scale))
    assert scaled.objective == pytest.approx(base.objective * scale)


def test_the_best_of_several_starts_comes_back():
    result = nmf_merge(X, 5, n_init=4, return_all=True, **KL)
    errors = [start.fitting_error for start in result.starts]
    assert result.fitting_error == min(errors)
    assert [start.merged for start in result.starts] == [False, True, True, True]
    for solution, error in zip(result.solutions, errors, strict=True):
        assert metrics.fitting_error(X, solution.W, solution.H, **KL) == pytest.approx(error)
    alone = nmf_merge(X, 5, n_init=1, init="random", random_state=result.starts[2].seed, **KL)
    assert alone.fitting_error == pytest.approx(errors[2], rel=1e-10)


def test_components_come_by_mass():
    result = nmf_merge(X, 5, **KL)
    masses = result.W.sum(axis=0) * result.H.sum(axis=1)
    assert (np.diff(masses) <= 0).all()


def test_an_exact_fit_is_found_by_merging():
    rng = np.random.default_rng(3)
    W, H = (rng.random(shape) * (rng.random(shape) < 0.4) for shape in ((40, 5), (5, 50)))
    result = nmf_merge(W @ H, 5, tol=1e-6, **KL)
    assert result.fitting_error < 1e-4


@pytest.mark.parametrize("hold", [[0], {"H": [0, 1]}, {"W": [0]}, {"H": [0, 1, 2, 3]}])
@pytest.mark.parametrize("function", [nmf, nmf_merge])
@pytest.mark.parametrize("solver", ["accelerated", "mu"])
def test_held_components_stay_to_the_bit(function, solver, hold):
    rng = np.random.default_rng(4)
    W, H = rng.random((60, 4)), rng.random((4, 80))
    before = metrics.fitting_error(X, W, H, **KL)
    result = function(X, 4, init=(W, H), hold=hold, solver=solver, tol=1e-3, **KL)
    parts = hold if isinstance(hold, dict) else {"W": hold, "H": hold}
    np.testing.assert_array_equal(result.W[:, parts.get("W", [])], W[:, parts.get("W", [])])
    np.testing.assert_array_equal(result.H[parts.get("H", [])], H[parts.get("H", [])])
    assert result.fitting_error < before


def test_weights_of_known_components_are_a_poisson_regression():
    rng = np.random.default_rng(5)
    H = rng.gamma(0.5, size=(4, 80))
    W = transform(X, H, **KL)
    assert (W >= 0).all()
    gradient = (1 - X / np.maximum(W @ H, 1e-300)) @ H.T / H.sum(axis=1)
    assert np.abs(W * gradient).max() < 1e-7 * W.max()
    assert gradient[X.any(axis=1)].min() > -1e-7
    held = nmf(X, 4, init=(W + 0.1, H), hold={"H": range(4)}, tol=1e-9, **KL)
    np.testing.assert_allclose(held.W, W, atol=1e-5 * W.max())


def test_the_estimator_has_the_error_of_scikit_learn():
    model = NMFMerge(4, **KL)
    W = model.fit_transform(X)
    error = _beta_divergence(X, W, model.components_, 1, square_root=True)
    assert model.reconstruction_err_ == pytest.approx(error, rel=1e-6)
    np.testing.assert_allclose(model.transform(X), W)
    assert model.score(X) == pytest.approx(
        1 - metrics.fitting_error(X, W, model.components_, **KL) / 100
    )


def test_single_steps_are_those_of_the_loss():
    result = nmf(X, 4, init="random", **KL)
    W, H, strengths = recover_components(X, result.W, result.H, 2, **KL)
    assert H.shape == (6, 80)
    assert len(strengths) == 2
    W, H, tree = merge_components(W, H, 4, **KL)
    assert len(tree.penalties) == 2
    assert metrics.fitting_error(X, W, H, **KL) < 2 * result.fitting_error


@pytest.mark.parametrize("function", [nmf, nmf_merge])
@pytest.mark.parametrize("solver", ["accelerated", "mu"])
def test_a_run_cut_off_anywhere_goes_on_to_the_same_bits(function, solver, tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    settings = {"solver": solver, "init": "random", "n_init": 3, "tol": 1e-2, **KL}
    whole = function(X, 4, **settings)
    total = sum(stage.n_iter for stage in whole.stages)
    for at in np.unique(np.geomspace(1, 2 * total, 6).astype(int)):
        path, seen = tmp_path / f"{at}.npz", []

        def callback(progress, at=at, seen=seen):
            seen.append(progress)
            if len(seen) == at:
                raise _Killed

        with pytest.raises(_Killed):
            function(X, 4, checkpoint=path, callback=callback, **settings)
        result = function(X, 4, checkpoint=path, **settings)
        np.testing.assert_array_equal(result.W, whole.W)
        np.testing.assert_array_equal(result.H, whole.H)
        assert result.fitting_error == whole.fitting_error


class _Killed(Exception):
    pass


def test_bits_do_not_depend_on_threads(monkeypatch):
    big = counts(300, 500, 5)

    def fit(n):
        monkeypatch.setattr(threads, "available_threads", lambda: n)
        return nmf_merge(sp.csr_array(big), 4, n_init=3, tol=1e-2, **KL)

    one, four = fit(1), fit(4)
    np.testing.assert_array_equal(one.W, four.W)
    assert one.fitting_error == four.fitting_error


def test_ctrl_c_keeps_the_factors():
    def callback(progress):
        if progress.stage == "overcomplete":
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as stop:
        nmf_merge(X, 4, callback=callback, **KL)
    assert stop.value.factorization.n_components == 4
    assert stop.value.factorization.fitting_error < 100


def test_limits_are_kept():
    with pytest.warns(ConvergenceWarning):
        result = nmf(X, 4, init="random", max_iter=3, tol=1e-10, **KL)
    assert (result.n_iter, result.status) == (3, Status.MAX_ITER)
    assert nmf(X, 4, callback=lambda p: p.iteration == 5, **KL).n_iter == 5


@pytest.mark.parametrize(
    "A", [np.zeros((6, 7)), np.ones((6, 7)), np.eye(6, 7), np.outer(np.arange(6), np.ones(7))]
)
@pytest.mark.parametrize("function", [nmf, nmf_merge])
def test_degenerate_data_have_finite_factors(function, A):
    result = function(A, 2, **KL)
    assert np.isfinite(result.W).all()
    assert np.isfinite(result.H).all()
    assert np.isfinite(result.fitting_error)
    assert not result.W[~A.any(axis=1)].any() or not result.H.any()


def test_what_cannot_minimise_it_says_so():
    with pytest.raises(ValueError, match=r"solver='hals' does not minimise.*'accelerated', 'mu'"):
        nmf(X, 4, solver="hals", **KL)
    with pytest.raises(ValueError, match="beta_loss='poisson' is not known"):
        nmf(X, 4, beta_loss="poisson")
    da = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match=r"beta_loss.*needs X in memory.*X\.compute"):
        nmf(da.from_array(X, chunks=20), 4, **KL)


def test_the_command_line_fits_and_reports_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    assert cli.main(["fit", "x.npy", "-r", "3", "--loss", "kl", "--no-compare", "--json"]) == 0
    page = (tmp_path / "x.npy.nmf/report.html").read_text(encoding="utf-8")
    assert "of the deviance" in page
    assert "‖X‖²" not in page
    fit = folder.read(tmp_path / "x.npy.nmf")
    assert fit.result.loss == "kullback-leibler"
    error = metrics.fitting_error(X, fit.result.W, fit.result.H, **KL)
    assert fit.result.fitting_error == pytest.approx(error)
    capsys.readouterr()
    assert cli.main(["fit", "x.npy", "-r", "auto", "--loss", "kl", "-o", "other", "--json"]) == 0
    said = capsys.readouterr()
    assert "No confidence is given" in said.err
    assert cli.main(["path", "x.npy", "--max", "7", "--loss", "kl", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["assessment"]["confidence"] == "none"
    page = (tmp_path / "x.npy.path/report.html").read_text(encoding="utf-8")
    assert "No confidence is given" in page
    assert "‖X‖²" not in page


def test_what_merging_would_go_on_with_is_of_the_loss():
    result = nmf_merge(X, 4, n_init=1, init="random", **KL)
    tree = metrics.next_merges(result.W, result.H, **KL)
    assert len(tree.pairs) == 3
    assert 0 < result.merges.penalties[0] < result.penalty_size


@pytest.mark.parametrize("n_iter", [1, 5, 50])
def test_multiplicative_updates_are_those_of_scikit_learn_step_for_step(n_iter):
    rng = np.random.default_rng(6)
    W, H = rng.random((60, 4)), rng.random((4, 80))
    settings = {"init": "custom", "solver": "mu", "beta_loss": "kullback-leibler", "tol": 0}
    model = NMF(4, max_iter=n_iter, **settings)
    W_known = model.fit_transform(X, W=W.copy(), H=H.copy())
    with pytest.warns(ConvergenceWarning):
        result = nmf(X, 4, init=(W, H), solver="mu", max_iter=n_iter, tol=0, **KL)
    np.testing.assert_allclose(result.W, W_known, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(result.H, model.components_, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("function", [nmf, nmf_merge])
def test_multiplicative_updates_are_not_locked_by_zeros(function):
    """Those of NNDSVD, and of recovered components."""
    A = counts(40, 50, 4, seed=2)
    settings = {"solver": "mu", "tol": 1e-5, "max_iter": 100_000, **KL}
    best = min(nmf(A, 4, init="random", random_state=i, **settings).objective for i in range(4))
    assert function(A, 4, n_init=1, **settings).objective < 1.05 * best


def test_single_precision_does_not_drift_away_from_the_best_value():
    A = counts(seed=3).astype(np.float32)
    values = []

    def callback(progress):
        values.append(progress.fitting_error)
        return len(values) == 600

    result = nmf(A, 5, init="random", tol=0, callback=callback, **KL)
    noise = 8 * np.finfo(np.float32).eps * A.sum(dtype=float) / result.objective
    best = np.minimum.accumulate(values)
    assert ((values - best) / best).max() <= 1.1 * noise


class _Up(Exception):
    pass


@pytest.mark.parametrize("step", range(10))
def test_the_clock_is_looked_at_between_the_updates_of_a_start(step):
    looks = []

    def check():
        looks.append(None)
        if len(looks) > step:
            raise _Up

    data = wrap(X)
    start = INITS["random"](data, 4, np.random.default_rng(0))
    before = [F.copy() for F in start]
    with pytest.raises(_Up):
        KULLBACK_LEIBLER.prepared(data, [start], check)
    for F, same in zip(start, before, strict=True):
        np.testing.assert_array_equal(F, same)


def test_a_start_without_time_has_no_updates():
    with pytest.warns(ConvergenceWarning, match="max_time"):
        result = nmf(X, 4, init="random", max_time=1e-9, **KL)
    sums = result.W.sum(axis=0)
    np.testing.assert_allclose(sums, sums[0], rtol=1e-12)  # as random numbers are drawn


@pytest.mark.parametrize("penalties", [{}, {"alpha_W": 0.02, "l1_ratio": 0.5}])
@pytest.mark.parametrize("loss", ["frobenius", "kullback-leibler"])
def test_weights_of_a_dask_array_are_those_in_memory(loss, penalties):
    da = pytest.importorskip("dask.array")
    model = NMFMerge(3, beta_loss=loss, n_init=1, tol=1e-3, **penalties).fit(X)
    D = da.from_array(X, chunks=(17, 30))
    W = model.transform(D).compute()
    np.testing.assert_allclose(W, model.transform(X), rtol=1e-5, atol=1e-7)
    assert model.score(D) == pytest.approx(model.score(X), rel=1e-6)
    alone = transform(D, model.components_, beta_loss=loss, **penalties).compute()
    np.testing.assert_array_equal(alone, W)


@pytest.mark.parametrize("loss", ["frobenius", "kullback-leibler"])
def test_penalties_make_weights_small(loss):
    H = np.random.default_rng(7).gamma(0.5, size=(4, 80))
    free, penalised = (
        transform(X, H, beta_loss=loss, alpha_W=alpha, l1_ratio=1.0) for alpha in (0, 0.1)
    )
    assert penalised.sum() < 0.99 * free.sum()
    model = NMFMerge(4, beta_loss=loss, alpha_W=0.1, l1_ratio=1.0, n_init=1, tol=1e-2).fit(X)
    np.testing.assert_array_equal(
        model.transform(X),
        transform(X, model.components_, beta_loss=loss, alpha_W=0.1, l1_ratio=1.0),
    )


def test_the_residual_of_the_optimality_conditions_falls_with_the_tolerance():
    residuals = [
        metrics.kkt_residual(X, *_factors(nmf(X, 4, init="random", tol=tol, **KL)), **KL)
        for tol in (1e-2, 1e-4, 1e-6)
    ]
    assert residuals[0] > residuals[1] > residuals[2]
    assert residuals[2] < 1e-5


@pytest.mark.parametrize("kind", [np.array, sp.csr_array])
def test_the_residual_is_what_an_em_step_moves(kind):
    rng = np.random.default_rng(8)
    W, H = rng.random((60, 4)), rng.random((4, 80))
    W[3, 1] = 0
    ratio = X / (W @ H)
    moved = [
        np.abs(W * (ratio @ H.T) - W * H.sum(axis=1)).sum(),
        np.abs(H * (W.T @ ratio) - H * W.sum(axis=0)[:, None]).sum(),
    ]
    pull = max(0, (ratio @ H.T / H.sum(axis=1))[3, 1] - 1)
    expected = sum(moved) / (W @ H).sum() + pull
    assert metrics.kkt_residual(kind(X), W, H, **KL) == pytest.approx(expected)
    scales = np.array([1e-3, 1, 7, 1e4])
    scaled = metrics.kkt_residual(5 * X, 5 * W * scales, H / scales[:, None], **KL)
    assert scaled == pytest.approx(expected)


def test_shares_are_of_the_sum():
    rng = np.random.default_rng(9)
    W, H = rng.random((6, 3)), rng.random((3, 7))
    masses = W.sum(axis=0) * H.sum(axis=1)
    np.testing.assert_allclose(metrics.shares(W, H, **KL), 100 * masses / masses.sum())
    large = metrics.shares(W * 1e150, H * 1e150, **KL)
    np.testing.assert_allclose(large, 100 * masses / masses.sum())


def _factors(result):
    return result.W, result.H
