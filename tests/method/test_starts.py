"""Several starts: what comes back of them, and that each is what it would be alone."""

import os
from time import perf_counter

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy.optimize import linear_sum_assignment
from sklearn.exceptions import ConvergenceWarning

from nmfmerge import Interrupted, Status, datasets, metrics, nmf, nmf_merge
from nmfmerge.inputs.check import check_X
from nmfmerge.losses import FROBENIUS
from nmfmerge.losses.frobenius_merging import GramComponents
from nmfmerge.losses.merging import merge_plan
from nmfmerge.method.compare_starts import compare
from nmfmerge.method.init import INITS
from nmfmerge.solvers import SOLVERS
from nmfmerge.storage.checkpoint import Checkpoint

X = datasets.lcms_like(40, 60, 6, random_state=2).X
FITS = [nmf, nmf_merge]
STAGES = ["start", "initial", "recover", "overcomplete", "merge", "final"]


def same_error(result, other):
    assert result.fitting_error == pytest.approx(other.fitting_error, rel=1e-9)
    assert [stage.n_iter for stage in result.stages] == [stage.n_iter for stage in other.stages]
    assert result.status is other.status


@pytest.mark.parametrize("fit", FITS)
def test_the_best_comes_back_with_what_the_others_came_to(fit):
    result = fit(X, 5, n_init=4, return_all=True)
    errors = [start.fitting_error for start in result.starts]
    assert result.best_start == int(np.argmin(errors))
    assert result.fitting_error == errors[result.best_start]
    assert [solution.fitting_error for solution in result.solutions] == errors
    assert [start.init for start in result.starts] == ["nndsvd", "random", "random", "random"]
    assert result.starts[0].seed is None
    for start, solution in zip(result.starts, result.solutions, strict=True):
        assert (start.status, start.n_iter) == (solution.status, solution.n_iter)
        found = metrics.fitting_error(X, solution.W, solution.H)
        assert start.fitting_error == pytest.approx(found, rel=1e-9)
        assert solution.starts == solution.solutions == ()
    np.testing.assert_array_equal(result.W, result.solutions[result.best_start].W)
    assert len({start.seed for start in result.starts}) == 4
    assert "best of 4 starts" in repr(result)
    assert all(start.name in str(start) for start in result.starts)


@pytest.mark.parametrize("fit", FITS)
def test_a_single_start_has_nothing_to_say_of_others(fit):
    result = fit(X, 5, n_init=1, return_all=True)
    assert result.starts == ()
    assert len(result.solutions) == 1
    assert result.spread is None
    assert result.n_starts_found().tolist() == [1] * 5


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_seeds_repeat_each_solution_alone(solver, kind):
    options = {"solver": solver, "tol": 1e-3}
    result = nmf_merge(kind(X), 5, n_init=3, return_all=True, random_state=8, **options)
    same_error(result.solutions[0], nmf(kind(X), 5, **options))
    for start, solution in list(zip(result.starts, result.solutions, strict=True))[1:]:
        alone = nmf_merge(
            kind(X), 5, n_init=1, init="random", random_state=start.seed, **options
        )  # fmt: skip
        same_error(solution, alone)
        np.testing.assert_allclose(solution.W @ solution.H, alone.W @ alone.H, atol=1e-7)


@pytest.mark.parametrize("state", [None, 4, np.random.default_rng(1), np.random.RandomState(1)])
@pytest.mark.parametrize("init", ["random", "nndsvdar"])
def test_every_start_that_is_random_says_its_seed(state, init):
    result = nmf(X, 5, init=init, n_init=3, random_state=state, tol=1e-2, return_all=True)
    for start, solution in zip(result.starts, result.solutions, strict=True):
        same_error(solution, nmf(X, 5, init=start.init, random_state=start.seed, tol=1e-2))


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("solver", SOLVERS)
def test_the_default_is_never_worse_than_standard_nmf_from_nndsvd(solver, kind):
    for seed in range(3):
        data = kind(np.random.default_rng(seed).gamma(0.4, 1, (30, 40)))
        options = {"solver": solver, "tol": 1e-3, "max_iter": 2000}
        standard, result = nmf(data, 4, **options), nmf_merge(data, 4, **options)
        assert result.fitting_error <= standard.fitting_error * (1 + 1e-9)
        assert [start.merged for start in result.starts] == [False, True, True, True]
        first = result.starts[0]
        assert first.fitting_error == pytest.approx(standard.fitting_error, rel=1e-9)
        assert first.n_iter == standard.n_iter


def test_starts_that_the_user_names_are_all_merged():
    for options in ({"init": ["nndsvd", "random"]}, {"init": "random", "n_init": 2}):
        assert all(start.merged for start in nmf_merge(X, 5, tol=1e-2, **options).starts)
    given = nmf(X, 5, tol=1e-2)
    improved = nmf_merge(X, 5, init=(given.W, given.H), n_init=2, tol=1e-2)
    assert improved.starts[0].merged
    assert not any(start.merged for start in nmf(X, 5, n_init=2, tol=1e-2).starts)
    assert nmf_merge(X, 5, n_init=1, tol=1e-2).merges is not None


def test_more_starts_are_the_same_ones_and_more():
    few, many = (nmf(X, 5, n_init=n, random_state=3, tol=1e-2) for n in (3, 6))
    assert [start.seed for start in few.starts] == [start.seed for start in many.starts[:3]]


def test_a_list_of_starts():
    rng = np.random.default_rng(0)
    pair = rng.random((40, 5)), rng.random((5, 60))
    before = [F.copy() for F in pair]
    inits = ["nndsvda", pair, "random", "nndsvdar", "nndsvd"]
    result = nmf_merge(X, 5, init=inits, return_all=True, random_state=1)
    words = [start.init for start in result.starts]
    assert words == ["nndsvda", "given", "random", "nndsvdar", "nndsvd"]
    for init, start, solution in zip(inits, result.starts, result.solutions, strict=True):
        alone = nmf_merge(X, 5, init=init, n_init=1, random_state=start.seed)
        same_error(solution, alone)
    for F, old in zip(pair, before, strict=True):
        np.testing.assert_array_equal(F, old)
    same_error(nmf(X, 5, init=[pair]), nmf(X, 5, init=pair))


@pytest.mark.parametrize("hold", [[0, 1], {"H": [0]}, {"W": [0], "H": [1]}], ids=str)
@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_held_components_are_in_every_solution_to_the_bit(hold, fit, dtype):
    known = nmf(X.astype(dtype), 5, init="random", tol=0.1)
    W, H = known.W, known.H
    result = fit(X.astype(dtype), 5, init=(W, H), hold=hold, n_init=4, return_all=True, tol=1e-3)
    in_W, in_H = (hold, hold) if isinstance(hold, list) else (hold.get("W", []), hold["H"])
    assert len(result.solutions) == 4
    for solution in result.solutions:
        np.testing.assert_array_equal(solution.W[:, in_W], W[:, in_W])
        np.testing.assert_array_equal(solution.H[in_H], H[in_H])
    assert len({solution.fitting_error for solution in result.solutions}) == 4


@pytest.mark.parametrize("scale", [1, 1e200])
def test_likeness_is_that_of_the_metrics(scale):
    result = nmf_merge(scale * X, 6, n_init=4, return_all=True)
    best = result.solutions[result.best_start]
    matched_W, matched_H = [], []
    for start, solution in zip(result.starts, result.solutions, strict=True):
        w, h = (unit_columns(best.W), unit_columns(best.H.T))
        v, g = (unit_columns(solution.W), unit_columns(solution.H.T))
        cosines = (w.T @ v) * (h.T @ g)
        expected = metrics.subspace_mismatch(best.W, solution.W)
        assert start.subspace_mismatch == pytest.approx(expected, rel=1e-6, abs=1e-10)
        expected = metrics.permutation_mismatch(best.W, solution.W)
        assert start.permutation_mismatch == pytest.approx(expected, rel=1e-6, abs=1e-10)
        order = order_of(cosines)
        np.testing.assert_allclose(start.similarity, cosines[np.arange(6), order], rtol=1e-9)
        matched_W.append(v[:, order] * np.linalg.norm(best.W, axis=0))
        matched_H.append((g[:, order] * np.linalg.norm(best.H, axis=1)).T)
    size = np.sqrt(scale)
    np.testing.assert_allclose(
        result.spread.W / size, np.std(np.array(matched_W) / size, axis=0), atol=1e-9
    )
    np.testing.assert_allclose(
        result.spread.H / size, np.std(np.array(matched_H) / size, axis=0), atol=1e-9
    )
    np.testing.assert_allclose(result.starts[result.best_start].similarity, 1)
    alike = np.stack([start.similarity for start in result.starts]) >= 0.9
    np.testing.assert_array_equal(result.n_starts_found(), alike.sum(axis=0))
    assert result.found_always() == np.flatnonzero(alike.all(axis=0)).tolist()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_likeness_is_that_of_the_metrics_with_parallel_components_too(dtype):
    for seed in range(300):
        rng = np.random.default_rng(seed)
        m, r = int(rng.integers(7, 60)), int(rng.integers(2, 7))
        Wt, H = rng.random((2, r, m)), rng.random((2, r, 20))
        Wt[1, 0] = rng.uniform(0, 9) * Wt[1, -1] if seed % 2 else 0
        Wt, H = Wt.astype(dtype), H.astype(dtype)
        likeness = compare(check_X(np.ones((m, 20), dtype)), Wt, H, best=0)
        rel = 1e-6 if dtype == np.float64 else 0.01
        for measure in ("subspace_mismatch", "permutation_mismatch"):
            expected = getattr(metrics, measure)(Wt[0].T, Wt[1].T)
            assert getattr(likeness, measure)[1] == pytest.approx(expected, rel=rel), seed


def unit_columns(F):
    F = F / F.max(axis=0)
    return F / np.linalg.norm(F, axis=0)


def order_of(cosines):
    return linear_sum_assignment(-cosines)[1]


class Watch:
    """A callback that notes the least error of each start, and stops or interrupts."""

    def __init__(self, stage, iteration, act):
        self.stage, self.iteration, self.act = stage, iteration, act
        self.initial = {}

    def __call__(self, progress):
        if progress.stage == "initial":
            self.initial[progress.start] = progress.fitting_error
        if progress.stage == self.stage and progress.iteration == self.iteration:
            return self.act()
        return None


def raise_interrupt():
    raise KeyboardInterrupt


@pytest.mark.parametrize("stage", ["initial", "overcomplete", "final"])
@pytest.mark.parametrize("iteration", [1, 4])
@pytest.mark.parametrize("solver", ["accelerated", "gcd"])
def test_a_callback_that_stops_gets_the_best_so_far(stage, iteration, solver):
    watch = Watch(stage, iteration, lambda: True)
    result = nmf_merge(X, 5, n_init=3, solver=solver, callback=watch, return_all=True)
    check_stopped(result, watch, Status.CALLBACK)


@pytest.mark.parametrize("stage", ["initial", "overcomplete", "final"])
@pytest.mark.parametrize("iteration", [1, 4])
@pytest.mark.parametrize("solver", ["accelerated", "gcd"])
def test_ctrl_c_gives_the_best_so_far(stage, iteration, solver):
    watch = Watch(stage, iteration, raise_interrupt)
    with pytest.raises(Interrupted) as caught:
        nmf_merge(X, 5, n_init=3, solver=solver, callback=watch, return_all=True)
    check_stopped(caught.value.factorization, watch, Status.INTERRUPTED)


def check_stopped(result, watch, status):
    assert result.status is result.starts[result.best_start].status
    assert status in [start.status for start in result.starts]
    assert len(result.starts) == len(result.solutions) == 3
    assert result.H.shape == (5, 60)
    for i, (start, solution) in enumerate(zip(result.starts, result.solutions, strict=True)):
        found = metrics.fitting_error(X, solution.W, solution.H)
        assert start.fitting_error == pytest.approx(found, rel=1e-8)
        if watch.stage != "initial":
            assert found <= watch.initial.get(i, np.inf) * (1 + 1e-9)  # the first is standard NMF
    assert result.fitting_error == min(start.fitting_error for start in result.starts)


@pytest.mark.parametrize("where", ["recover", "merge_plan"])
def test_ctrl_c_between_the_loops_gives_the_best_so_far(where, monkeypatch):
    module = "losses.frobenius" if where == "merge_plan" else "method.course"
    monkeypatch.setattr(f"nmfmerge.{module}.{where}", lambda *_, **__: raise_interrupt())
    first = nmf(X, 5, n_init=3, tol=1e-2)
    if where == "merge_plan":  # which is done again, to come down to the rank asked for
        calls = []
        real = merge_plan

        def once(*arguments, **options):
            calls.append(1)
            return raise_interrupt() if len(calls) == 1 else real(*arguments, **options)

        monkeypatch.setattr("nmfmerge.losses.frobenius.merge_plan", once)
    with pytest.raises(Interrupted) as caught:
        nmf_merge(X, 5, n_init=3)
    result = caught.value.factorization
    assert result.H.shape == (5, 60)
    assert result.fitting_error <= first.fitting_error * (1 + 1e-9)


@pytest.mark.parametrize("part", [0.1, 0.3, 0.5, 0.7, 0.9])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_out_of_time_gives_the_best_so_far(part, monkeypatch):
    """The clock goes on by 1000 s at each look, so that there is no waiting."""
    looks = []

    def clock():
        looks.append(1)
        return perf_counter() + 1000 * len(looks)

    for module in ("solvers.loop", "solvers.limits", "method.course"):
        monkeypatch.setattr(f"nmfmerge.{module}.perf_counter", clock)
    options = {"n_init": 3, "tol": 1e-3, "n_extra": 7, "n_jobs": 1}  # threads share the looks
    nmf_merge(X, 5, **options)
    whole = len(looks)
    looks.clear()
    result = nmf_merge(X, 5, max_time=1000 * part * whole, **options)
    assert Status.MAX_TIME in [start.status for start in result.starts]
    assert result.status is result.starts[result.best_start].status
    assert len(looks) < whole
    assert result.H.shape == (5, 60)
    assert result.fitting_error == min(start.fitting_error for start in result.starts)
    found = metrics.fitting_error(X, result.W, result.H)
    assert found == pytest.approx(result.fitting_error, rel=1e-8)


class Killed(Exception):
    """What a kill is to the code."""


@pytest.fixture
def always_due(monkeypatch):
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    monkeypatch.setattr(os, "fsync", lambda number: None)


def same_run(result, whole):
    assert result.best_start == whole.best_start
    assert len(result.solutions) == len(whole.solutions) == 4
    for one, other in zip(result.solutions, whole.solutions, strict=True):
        np.testing.assert_array_equal(one.W, other.W)
        np.testing.assert_array_equal(one.H, other.H)
        assert one.status is other.status
        for stage, expected in zip(one.stages, other.stages, strict=True):
            assert (stage.name, stage.n_iter) == (expected.name, expected.n_iter)
            if expected.history is not None:
                np.testing.assert_array_equal(stage.history.step, expected.history.step)
    for one, other in zip(result.starts, whole.starts, strict=True):
        assert (one.seed, one.n_iter, one.status) == (other.seed, other.n_iter, other.status)
        assert one.fitting_error == other.fitting_error
    np.testing.assert_array_equal(result.spread.W, whole.spread.W)


@pytest.mark.usefixtures("always_due")
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("stage", ["initial", "overcomplete", "final"])
@pytest.mark.parametrize("n_extra", [1, 7])
def test_four_starts_cut_off_anywhere_go_on_to_the_same_bits(solver, stage, n_extra, tmp_path):
    options = {"n_init": 4, "return_all": True, "solver": solver, "tol": 1e-2, "n_extra": n_extra,
               "tol_intermediate": 3e-2}  # fmt: skip
    whole = nmf_merge(X, 5, **options)
    iterations = max(s.n_iter for found in whole.solutions for s in found.stages if s.name == stage)
    rng = np.random.default_rng(iterations)
    for at in {1, iterations, int(rng.integers(1, iterations + 1))}:
        path = tmp_path / f"{at}"

        def kill(progress, at=at):
            if progress.stage == stage and progress.iteration == at:
                raise Killed

        with pytest.raises(Killed):
            nmf_merge(X, 5, callback=kill, checkpoint=path, **options)
        same_run(nmf_merge(X, 5, checkpoint=path, **options), whole)


@pytest.mark.usefixtures("always_due")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", SOLVERS)
def test_raised_limits_of_iterations_go_on(solver, tmp_path):
    options = {"n_init": 4, "return_all": True, "solver": solver, "tol": 1e-3}
    whole = nmf(X, 5, **options)
    counts = sorted(start.n_iter for start in whole.starts)
    for limit in (counts[0] - 1, counts[1], counts[3]):
        part = nmf(X, 5, checkpoint=tmp_path / "run", max_iter=limit, **options)
        for start, full in zip(part.starts, whole.starts, strict=True):
            assert start.n_iter == min(limit, full.n_iter)
            expected = Status.CONVERGED if full.n_iter <= limit else Status.MAX_ITER
            assert start.status is expected
    result = nmf(X, 5, checkpoint=tmp_path / "run", **options)
    if SOLVERS[solver].warm_up is None:
        same_run(result, whole)
    for one, other in zip(result.solutions, whole.solutions, strict=True):
        same_error(one, other)  # after warm-ups of several lengths, limits part the batch


def test_a_warning_comes_if_the_best_has_not_converged():
    with pytest.warns(ConvergenceWarning, match="max_iter=3"):
        nmf_merge(X, 5, max_iter=3)


def test_a_checkpoint_of_another_number_of_starts_is_refused(tmp_path):
    nmf(X, 5, n_init=2, tol=0.1, checkpoint=tmp_path / "run")
    for changed, message in [
        ({"n_init": 3}, "n_init: 2, now 3"),
        ({"init": ["nndsvd", "nndsvd"]}, r"init: 'nndsvd', now \['nndsvd', 'nndsvd'\]"),
        ({"random_state": 1}, "random_state: None, now 1"),
    ]:
        with pytest.raises(ValueError, match=rf"of another run \({message}\)"):
            nmf(X, 5, **{"n_init": 2, "tol": 0.1, **changed}, checkpoint=tmp_path / "run")
    nmf(X, 5, init=["nndsvd", "random"], tol=0.1, checkpoint=tmp_path / "run")  # says the same


DEGENERATE = {
    "zero": (np.zeros((8, 6)), 3),
    "rank one": (np.outer(np.arange(8.0), np.arange(6.0)), 3),
    "as many components as there can be": (np.random.default_rng(0).random((8, 6)), 6),
    "zero rows": (np.pad(np.random.default_rng(0).random((5, 6)), ((2, 1), (0, 0))), 3),
    "zero columns": (np.pad(np.random.default_rng(0).random((8, 3)), ((0, 0), (1, 2))), 3),
    "one entry": (np.array([[2.0]]), 1),
}


@pytest.mark.filterwarnings("ignore:n_extra=. was reduced")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("fit", FITS)
def test_degenerate_data(case, solver, kind, fit):
    A, r = DEGENERATE[case]
    result = fit(kind(A), r, n_init=4, solver=solver, tol=1e-3, return_all=True, max_iter=300)
    for solution in result.solutions:
        for F in (solution.W, solution.H):
            assert np.isfinite(F).all()
            assert F.min() >= 0
    for start in result.starts:
        assert np.isfinite(start.similarity).all()
        assert np.isfinite([start.subspace_mismatch, start.permutation_mismatch]).all()
    assert np.isfinite(result.spread.W).all()
    assert np.isfinite(result.spread.H).all()
    assert result.fitting_error == min(start.fitting_error for start in result.starts)
    np.testing.assert_allclose(result.W[~A.any(axis=1)] @ result.H, 0, atol=1e-12)


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize(
    ("value", "kind"),
    [(0, ValueError), (-1, ValueError), (2.5, TypeError), ("4", TypeError), (None, TypeError),
     (True, TypeError), ([4], TypeError)],
)  # fmt: skip
def test_a_wrong_number_of_starts(fit, value, kind):
    with pytest.raises(kind, match="n_init="):
        fit(X, 5, n_init=value)


@pytest.mark.parametrize(
    ("init", "message"),
    [([], "no start"), (["nndsvd", "nonsense"], "nonsense"), ([(np.ones((3, 5)),)], "init")],
)
def test_a_wrong_list_of_starts(init, message):
    with pytest.raises((ValueError, TypeError), match=message):
        nmf(X, 5, init=init)


matrices = npst.arrays(
    np.float64,
    st.tuples(st.integers(3, 14), st.integers(3, 14)),
    elements=st.floats(0, 1, width=16),
)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:n_extra=. was reduced")
@given(
    A=matrices, r=st.integers(1, 3), n_init=st.integers(2, 5), solver=st.sampled_from([*SOLVERS]),
    fit=st.sampled_from(FITS),
)  # fmt: skip
@settings(max_examples=60)
def test_several_starts_never_end_worse_than_standard_nmf(A, r, n_init, solver, fit):
    options = {"solver": solver, "tol": 1e-2, "max_iter": 100}
    one, many = nmf(A, r, **options), fit(A, r, n_init=n_init, **options)
    assert many.fitting_error <= one.fitting_error * (1 + 1e-6) + 1e-10


@given(
    seed=st.integers(0, 2**32 - 1), r=st.integers(2, 9), density=st.sampled_from([0.3, 1.0]),
    data=st.data(),
)  # fmt: skip
@settings(max_examples=100)
def test_a_plan_of_merges_is_what_merging_does(seed, r, density, data):
    rng = np.random.default_rng(seed)
    Wt, H = (rng.random((r, p)) * (rng.random((r, p)) < density) for p in (20, 15))
    k = data.draw(st.integers(1, r))
    held = np.array(data.draw(st.lists(st.booleans(), min_size=r, max_size=r)))
    k = max(k, int(held.sum()) + (not held.all()))
    plan = merge_plan(GramComponents(Wt @ Wt.T, H @ H.T, held), k)
    Wt_merged, H_merged, tree = FROBENIUS.merged(Wt, H, k, held=held)
    np.testing.assert_array_equal(plan.tree.pairs, tree.pairs)
    np.testing.assert_allclose(plan.tree.penalties, tree.penalties, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(plan.A @ Wt, Wt_merged, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(plan.B @ H, H_merged, rtol=1e-12, atol=1e-12)


def test_starts_that_had_converged_are_not_said_to_have_been_stopped():
    X = datasets.lcms_like(60, 80, 5, random_state=1).X
    alone = [nmf(X, 5, init="random", random_state=seed).n_iter for seed in range(8)]
    slow, fast = int(np.argmax(alone)), int(np.argmin(alone))
    starts = [tuple(_random(X, 5, seed)) for seed in (fast, slow)]
    limit = (alone[slow] + alone[fast]) // 2
    stopped = nmf(X, 5, init=starts, callback=lambda p: p.iteration > limit)
    assert [start.status for start in stopped.starts] == [Status.CONVERGED, Status.CALLBACK]
    assert stopped.status is stopped.starts[stopped.best_start].status


def _random(X, r, seed):
    Wt, H = INITS["random"](check_X(X), r, np.random.default_rng(seed))
    unit = check_X(X).unit
    return Wt.T * unit, H * unit


def test_without_time_for_singular_vectors_given_starts_stay_and_others_are_random(rng):
    X = sp.csr_array(rng.random((300, 200)))
    first = nmf(X, 4, init="random", tol=1e-2)
    given = (first.W, first.H)
    with pytest.warns(ConvergenceWarning):
        result = nmf(X, 4, init=[given, "nndsvd", "random"], max_time=1e-9, return_all=True)
    np.testing.assert_allclose(result.solutions[0].W, first.W)
    errors = [start.fitting_error for start in result.starts]
    assert result.best_start == 0
    assert len(set(errors)) == 3
    with pytest.warns(ConvergenceWarning):
        held = nmf(X, 4, init=[given, "nndsvd"], hold=[0], max_time=1e-9, return_all=True)
    for solution in held.solutions:
        np.testing.assert_array_equal(solution.W[:, 0], first.W[:, 0])
        assert metrics.fitting_error(X, solution.W, solution.H) == pytest.approx(
            solution.fitting_error, rel=1e-9
        )


def test_a_result_does_not_keep_the_other_starts_in_memory(rng):
    X = rng.random((30, 20)) * 0.7  # its scale is left as it is
    result = nmf(X, 3, n_init=5)
    bases = [F if F.base is None else F.base for F in (result.W, result.H)]
    assert sum(base.size for base in bases) == 3 * (30 + 20)


def test_a_callback_that_stops_is_not_called_again(rng):
    calls = []
    nmf(rng.random((30, 20)), 3, n_init=5, callback=lambda p: calls.append(1) or True)
    assert len(calls) == 1


def test_callbacks_know_the_start_in_rounds_of_recovery_too(rng):
    seen = set()
    nmf_merge(
        rng.random((30, 25)),
        2,
        n_extra=6,
        n_init=3,
        init="random",
        callback=lambda p: seen.add((p.stage, p.start)) and None,
    )
    assert {start for stage, start in seen if stage == "recover"} == {0, 1, 2}


def test_the_only_solution_is_kept_too(rng):
    result = nmf(rng.random((30, 20)), 3, return_all=True)
    assert len(result.solutions) == 1
    np.testing.assert_array_equal(result.solutions[0].W, result.W)


def test_several_starts_in_a_tuple_are_told_to_be_a_list(rng):
    with pytest.raises(TypeError, match="give several starts as a list"):
        nmf(rng.random((30, 20)), 3, init=("nndsvd", "random"))
