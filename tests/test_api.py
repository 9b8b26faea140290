import os
import pickle
import signal
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from nmfmerge import Interrupted, Status, datasets, metrics, nmf, nmf_merge
from nmfmerge.losses.merging import MergePlan
from nmfmerge.matrices import DenseData
from nmfmerge.solvers import SOLVERS, Batch

STAGES = ["start", "initial", "recover", "overcomplete", "merge", "final"]


@pytest.fixture(scope="module")
def lcms():
    return datasets.lcms_like(80, 120, 6, random_state=2)


def test_plain_nmf_has_a_start_and_one_stage(low_rank):
    result = nmf(low_rank, 5)
    start, stage = result.stages
    assert (start.name, start.n_iter, start.status) == ("start", 0, Status.DONE)
    assert stage.name == "final"
    assert result.converged
    assert result.n_iter == stage.n_iter == len(stage.history.step)
    assert result.merges is None
    assert result.W.shape == (60, 5)
    assert result.H.shape == (5, 45)
    residual = low_rank - result.W @ result.H
    assert result.objective == pytest.approx(0.5 * np.sum(residual**2), rel=1e-12)
    assert result.fitting_error == pytest.approx(100 * np.sum(residual**2) / np.sum(low_rank**2))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("init", ["nndsvd", "nndsvda", "nndsvdar", "random"])
def test_nmf_merge_goes_through_its_stages(solver, init, lcms):
    result = nmf_merge(lcms.X, 6, solver=solver, init=init, tol=1e-3, n_init=1)
    assert [stage.name for stage in result.stages] == STAGES
    assert [stage.n_components for stage in result.stages] == [6, 6, 7, 7, 6, 6]
    assert [stage.n_iter > 0 for stage in result.stages] == [False, True, False, True, False, True]
    assert all(stage.converged for stage in result.stages)
    assert result.stages[-1].fitting_error == pytest.approx(result.fitting_error, rel=1e-6)
    assert result.merges.n_leaves == 7
    assert result.merges.n_components == 6
    assert len(result.generalized_singular_values) == 1
    assert min(result.W.min(), result.H.min()) >= 0
    assert sum(stage.seconds for stage in result.stages) <= result.seconds


def test_default_number_of_extra_components_is_a_fifth(low_rank):
    for r, k in [(1, 1), (3, 1), (8, 2), (13, 3), (17, 3), (23, 5)]:
        result = nmf_merge(low_rank, r, tol=1e-1, n_init=1)
        assert result.stages[2].n_components == r + k


def test_extra_components_may_exceed_the_rank(low_rank):
    calls = []
    options = {"n_extra": 7, "tol": 1e-2, "n_init": 1}
    result = nmf_merge(low_rank, 2, callback=lambda p: calls.append(p.stage), **options)
    assert [stage.n_components for stage in result.stages] == [2, 2, 9, 9, 2, 2]
    assert result.stages[2].n_iter == len(result.stages[2].history.step) > 0
    assert result.n_iter == len(calls)
    assert len(result.generalized_singular_values) == 7
    assert len(result.merges.pairs) == 7


def test_no_extra_components_is_plain_nmf(low_rank):
    plain, merged = nmf(low_rank, 4), nmf_merge(low_rank, 4, n_extra=0, n_init=1)
    np.testing.assert_array_equal(plain.W, merged.W)
    assert [stage.name for stage in merged.stages] == ["start", "final"]


def test_extra_components_are_clipped_with_a_warning(rng):
    X = rng.random((6, 5))
    with pytest.warns(UserWarning, match="n_extra=4 was reduced to 2: n_components=3"):
        result = nmf_merge(X, 3, n_extra=4, tol=1e-2)
    assert result.stages[2].n_components == 5
    with pytest.warns(UserWarning, match=r"n_extra=1 was reduced to 0.*so this is plain NMF"):
        assert [stage.name for stage in nmf_merge(X, 5, tol=1e-2).stages] == ["start", "final"]


def test_intermediate_tolerance_defaults_to_the_root(low_rank):
    steps = {}
    nmf_merge(low_rank, 4, tol=1e-4, callback=lambda p: steps.update({p.stage: p.tol}))
    assert steps == {"initial": 1e-2, "overcomplete": 1e-2, "final": 1e-4}
    nmf_merge(low_rank, 4, tol_intermediate=1e-3, callback=lambda p: steps.update({p.stage: p.tol}))
    assert steps == {"initial": 1e-3, "overcomplete": 1e-3, "final": 1e-4}


def test_an_existing_solution_is_improved(lcms):
    """The paper's second use: a poor local optimum as the start of NMF-Merge."""
    X = datasets.lcms_like(200, 300, 10).X
    starts = (nmf(X, 10, init="random", random_state=seed) for seed in range(8))
    poor = max(starts, key=lambda result: result.fitting_error)
    better = nmf_merge(X, 10, init=(poor.W, poor.H), n_init=1)
    assert better.stages[1].n_iter <= 2
    assert better.fitting_error < 0.5 * poor.fitting_error


def test_given_factors_are_not_changed(low_rank, rng):
    W0, H0 = rng.random((60, 4)), rng.random((4, 45))
    W_before, H_before, X_before = W0.copy(), H0.copy(), low_rank.copy()
    nmf_merge(low_rank, 4, init=(W0, H0), tol=1e-2)
    np.testing.assert_array_equal(W0, W_before)
    np.testing.assert_array_equal(H0, H_before)
    np.testing.assert_array_equal(low_rank, X_before)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", [np.asfortranarray, sp.csr_array, sp.csc_array, sp.coo_matrix])
def test_kinds_of_data_give_the_same_answer(solver, kind):
    X = datasets.lcms_like(60, 70, 4).X
    X = np.where(X > 0.002, X, 0)
    options = {"solver": solver, "tol": 1e-3}
    dense, other = nmf_merge(X, 4, **options), nmf_merge(kind(X), 4, **options)
    assert other.fitting_error == pytest.approx(dense.fitting_error, rel=1e-6)
    np.testing.assert_allclose(other.W @ other.H, dense.W @ dense.H, atol=1e-5)


@pytest.mark.parametrize("solver", SOLVERS)
def test_float32_stays_float32_and_ends_near_float64(solver, lcms):
    options = {"solver": solver, "tol": 1e-3}
    double = nmf_merge(lcms.X, 6, **options)
    single = nmf_merge(lcms.X.astype(np.float32), 6, **options)
    assert single.W.dtype == single.H.dtype == np.float32
    assert single.fitting_error == pytest.approx(double.fitting_error, rel=0.02)


def test_integers_and_lists_become_float64():
    X = datasets.paper_example().X
    expected = nmf(X, 4)
    for given in (X.astype(np.int32), X.astype(np.uint16), X.tolist()):
        result = nmf(given, 4)
        assert result.W.dtype == np.float64
        np.testing.assert_array_equal(result.W, expected.W)


def test_the_same_call_gives_the_same_bits(lcms):
    for init in ("nndsvd", "nndsvdar", "random"):
        first, second = (nmf_merge(lcms.X, 6, init=init, tol=1e-3) for _ in range(2))
        np.testing.assert_array_equal(first.W, second.W)
        np.testing.assert_array_equal(first.H, second.H)


def test_random_state_may_be_a_seed_a_generator_or_a_random_state(low_rank):
    def fit(state):
        return nmf(low_rank, 3, init="random", random_state=state, tol=1e-2).W

    np.testing.assert_array_equal(fit(5), fit(np.random.default_rng(5)))
    np.testing.assert_array_equal(fit(np.random.RandomState(5)), fit(np.random.RandomState(5)))
    assert not np.array_equal(fit(5), fit(6))


DEGENERATE = {
    "zero matrix": np.zeros((8, 6)),
    "zero row and column": np.pad(np.random.default_rng(0).random((7, 5)), ((1, 0), (0, 1))),
    "rank one": np.outer(np.arange(8.0), np.arange(6.0)),
    "one value": np.full((8, 6), 3.0),
    "one row": np.arange(1.0, 7)[None],
    "one column": np.arange(1.0, 9)[:, None],
    "one entry": np.array([[2.0]]),
    "identity": np.eye(8, 6),
}


@pytest.mark.filterwarnings("ignore:n_extra=. was reduced")
@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("solver", SOLVERS)
def test_degenerate_data_give_finite_factors(case, solver):
    X = DEGENERATE[case]
    r = min(3, *X.shape)
    for kind in (np.asarray, sp.csr_array):
        result = nmf_merge(kind(X), r, solver=solver, tol=1e-3)
        assert np.isfinite(result.W).all()
        assert np.isfinite(result.H).all()
        assert min(result.W.min(), result.H.min()) >= 0
        assert np.isfinite(result.fitting_error)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_exact_fit_ends_soon(rng):
    """A recovered component is then rounding noise; it must not keep the stage from ending."""
    X = rng.random((40, 3)) @ rng.random((3, 30))
    start = nmf(X, 3, tol=1e-9, max_iter=50_000)
    result = nmf_merge(X, 3, init=(start.W, start.H), max_iter=2000)
    assert result.converged
    assert result.stages[3].n_iter < 500
    assert result.fitting_error < 1e-8


def test_stop_by_iterations_warns_and_keeps_the_result(low_rank):
    with pytest.warns(ConvergenceWarning, match="'final' had not converged when max_iter=3"):
        result = nmf(low_rank, 5, max_iter=3)
    assert result.status is Status.MAX_ITER
    assert not result.converged
    assert result.n_iter == 3


def test_stop_by_time_warns_and_returns_the_rank_asked_for(low_rank):
    with pytest.warns(ConvergenceWarning, match=r"max_time=0.05 s had passed"):
        result = nmf_merge(low_rank, 5, tol=0, max_time=0.05, max_iter=10**8)
    assert result.status is Status.MAX_TIME
    assert result.seconds < 2
    assert result.H.shape == (5, 45)


@pytest.mark.parametrize("stage", ["initial", "overcomplete", "final"])
def test_callback_stops_the_run_in_any_stage_with_the_rank_asked_for(stage, lcms):
    errors = {}

    def stop(progress):
        errors[progress.stage] = progress.fitting_error
        return progress.stage == stage and progress.iteration == 2

    result = nmf_merge(lcms.X, 6, init="random", callback=stop)
    assert result.status is Status.CALLBACK
    assert result.stages[-1].name == ("merge" if stage == "overcomplete" else stage)
    assert result.H.shape == (6, 120)
    assert result.fitting_error <= errors["initial"] * (1 + 1e-9)  # the best so far


def interrupt_at(stage, iteration):
    def callback(progress):
        if progress.stage == stage and progress.iteration == iteration:
            raise KeyboardInterrupt

    return callback


@pytest.mark.parametrize("stage", ["initial", "overcomplete", "final"])
def test_ctrl_c_keeps_the_best_factors(stage, lcms):
    with pytest.raises(Interrupted, match="factorization") as caught:
        nmf_merge(lcms.X, 6, init="random", callback=interrupt_at(stage, 3))
    result = caught.value.factorization
    assert result.status is Status.INTERRUPTED
    assert result.H.shape == (6, 120)
    found = metrics.fitting_error(lcms.X, result.W, result.H)
    assert found == pytest.approx(result.fitting_error)
    assert found <= result.stages[1].fitting_error + 1e-9


def test_a_real_signal_in_the_middle_of_a_long_run(low_rank):
    def send():
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    killer = threading.Thread(target=send)
    killer.start()
    with pytest.raises(Interrupted) as caught:
        nmf(low_rank, 5, tol=0, max_iter=10**9)
    killer.join()
    result = caught.value.factorization
    assert isinstance(caught.value, KeyboardInterrupt)
    assert result.n_iter > 0
    assert result.fitting_error < 5


def test_ctrl_c_outside_the_loop_keeps_the_last_stage(lcms, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("nmfmerge.method.course.recover", interrupted)
    with pytest.raises(Interrupted) as caught:
        nmf_merge(lcms.X, 6)
    assert caught.value.factorization.H.shape == (6, 120)
    monkeypatch.setattr("nmfmerge.method.starts.INITS", {"nndsvd": interrupted})
    with pytest.raises(KeyboardInterrupt) as bare:  # there is nothing to keep yet
        nmf(lcms.X, 6)
    assert not isinstance(bare.value, Interrupted)


def test_ctrl_c_while_the_last_residual_is_computed_loses_nothing(lcms, monkeypatch):
    original, calls = DenseData.residual_norm2, []

    def interrupted_once(self, Wt, H):
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return original(self, Wt, H)

    monkeypatch.setattr(DenseData, "residual_norm2", interrupted_once)
    with pytest.raises(Interrupted) as caught:
        nmf_merge(lcms.X, 6)
    assert [stage.name for stage in caught.value.factorization.stages] == STAGES


def test_ctrl_c_between_an_update_and_its_note_leaves_no_stale_number(lcms, monkeypatch):
    original, calls = Batch.changed, []

    def interrupted_later(self, side):
        calls.append(1)
        if len(calls) == 10:
            raise KeyboardInterrupt
        original(self, side)

    monkeypatch.setattr(Batch, "changed", interrupted_later)
    monkeypatch.setattr(DenseData, "for_passes", lambda *_: None)  # operations one by one
    with pytest.raises(Interrupted) as caught:
        nmf(lcms.X, 6, init="random")
    result = caught.value.factorization
    assert result.stages[-1].fitting_error == pytest.approx(result.fitting_error, rel=1e-8)


def test_the_initial_solution_is_returned_if_what_came_after_is_worse(lcms, monkeypatch):
    """Stopped in the over-complete stage, a bad merge must not replace a good solution."""
    good = nmf(lcms.X, 6)

    def bad_plan(components, r):
        before = len(components.alive)
        return MergePlan(np.zeros((r, before)), np.eye(r, before), None)

    monkeypatch.setattr("nmfmerge.losses.frobenius.merge_plan", bad_plan)
    result = nmf_merge(
        lcms.X, 6, init=(good.W, good.H), callback=lambda p: p.stage == "overcomplete"
    )
    assert result.best_start == 0
    assert result.fitting_error <= good.fitting_error
    assert result.merges is None


def test_results_and_interrupts_survive_pickle_and_compare_by_identity(lcms):
    result = nmf_merge(lcms.X, 6, tol=1e-2)
    again = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(again.W, result.W)
    assert [stage.name for stage in again.stages] == STAGES
    np.testing.assert_array_equal(again.merges.pairs, result.merges.pairs)
    stop = pickle.loads(pickle.dumps(Interrupted(result)))
    assert stop.factorization.n_iter == result.n_iter
    assert [again, result].index(result) == 1  # comparing arrays by value would raise
    assert again.merges != result.merges


def test_warning_names_the_stage_that_was_cut_off(lcms):
    def slow(progress):
        if progress.stage == "overcomplete":
            time.sleep(0.5)

    with pytest.warns(ConvergenceWarning, match="stage 'overcomplete' had not converged"):
        result = nmf_merge(lcms.X, 6, n_init=1, max_time=0.5, tol_intermediate=1e-3, callback=slow)
    assert result.H.shape == (6, 120)


def test_verbose_prints_a_line_a_stage(lcms, capsys):
    nmf_merge(lcms.X, 6, verbose=1, n_init=1)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == STAGES
    nmf_merge(lcms.X, 6, verbose=1, n_init=2)
    lines = [line.split()[:3] for line in capsys.readouterr().out.splitlines()]
    plain = ["start", "final"]  # the first start is standard NMF
    for start, stages in (("1", plain), ("2", STAGES)):  # they go at the same time
        assert [line[2] for line in lines if line[:2] == ["start", start]] == stages
    assert len(lines) == len(plain) + len(STAGES)
    nmf(lcms.X, 6, verbose=2, tol=1e-5)
    assert "iteration    100" in capsys.readouterr().out


def test_a_result_prints_its_story(lcms):
    text = repr(nmf_merge(lcms.X, 6, n_init=1))
    assert text.startswith("Factorization of a 80 × 120 matrix into 6 components: fitting error")
    assert all(stage in text for stage in STAGES)
