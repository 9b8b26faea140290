"""Runs on tensors against the same runs in NumPy; the CPU stands in for a device."""

import os
import signal

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from nmfmerge import Interrupted, NMFMerge, Status, datasets, metrics, nmf, nmf_merge
from nmfmerge.inputs import tensors
from nmfmerge.storage.checkpoint import Checkpoint

torch = pytest.importorskip("torch")

from nmfmerge.matrices.torch import TorchData  # noqa: E402

pytestmark = [
    pytest.mark.tensors,
    pytest.mark.usefixtures("_one_torch_thread"),
    pytest.mark.filterwarnings(
        f"ignore::{ConvergenceWarning.__module__}.{ConvergenceWarning.__name__}"
    ),
]

SOLVERS = ["accelerated", "hals", "gcd", "alspgrad", "mu"]
X = datasets.lcms_like(40, 60, 6).X
SPARSE = sp.csr_array(np.where(np.quantile(X, 0.6) < X, X, 0))
KINDS = {"dense": X, "transposed": X.T, "sparse": SPARSE}


def on_device(X):
    """The data matrix that X would be on a GPU."""
    return tensors.device_matrix(tensors.on_device(X, "cpu"), tf32=False)


def as_array(A):
    return A.numpy() if isinstance(A, torch.Tensor) else A


def counts(result):
    """Iterations of all starts, or of all stages if there is one start."""
    return [one.n_iter for one in (result.starts or result.stages)]


def errors(result):
    return [one.fitting_error for one in (*result.stages, *result.starts, result)]


def assert_alike(result, expected):
    assert isinstance(result.W, torch.Tensor)
    assert counts(result) == counts(expected)
    assert result.status is expected.status
    np.testing.assert_allclose(errors(result), errors(expected), rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("n_init", [1, 5])
@pytest.mark.parametrize("fit", [nmf, nmf_merge])
def test_a_run_is_that_of_numpy(fit, n_init, solver, kind):
    options = {"solver": solver, "n_init": n_init, "max_iter": 101, "tol": 1e-3}
    expected = fit(KINDS[kind], 5, **options)
    assert_alike(fit(on_device(KINDS[kind]), 5, **options), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_float32_gives_the_errors_of_numpy(solver, kind):
    A = KINDS[kind].astype("f4")
    options = {"solver": solver, "n_init": 3, "max_iter": 60, "tol": 1e-2}
    expected, result = nmf(A, 5, **options), nmf(on_device(A), 5, **options)
    assert result.W.dtype == torch.float32
    assert counts(result) == counts(expected)
    for ours, theirs in zip(result.starts, expected.starts, strict=True):
        assert ours.fitting_error == pytest.approx(theirs.fitting_error, rel=1e-5)


@pytest.mark.parametrize("cheap_factors", [1, 3, 7])
@pytest.mark.parametrize("fit", [nmf, nmf_merge])
def test_how_many_passes_are_queued_changes_nothing(fit, cheap_factors, monkeypatch):
    """Starts that have come to ``tol`` wait for the others without moving."""
    options = {"n_init": 6, "tol": 1e-3, "random_state": 1, "return_all": True}
    expected = fit(on_device(X), 5, **options)
    assert len(set(counts(expected))) > 2  # they end at different times
    monkeypatch.setattr(TorchData, "iterations_per_sync", cheap_factors)
    result = fit(on_device(X), 5, **options)
    assert_alike(result, expected)
    for ours, theirs in zip(result.solutions, expected.solutions, strict=True):
        np.testing.assert_allclose(ours.W, theirs.W, rtol=1e-6, atol=1e-7 * theirs.W.max())


@pytest.mark.parametrize("max_iter", [1, 2, 15, 16, 17, 37])
def test_max_iter_is_exact(max_iter):
    result = nmf(on_device(X), 5, n_init=4, init="random", tol=0, max_iter=max_iter)
    assert counts(result) == 4 * [max_iter]
    assert result.status is Status.MAX_ITER
    assert len(result.stages[-1].history.step) == max_iter
    expected = nmf(X, 5, n_init=4, init="random", tol=0, max_iter=max_iter)
    assert_alike(result, expected)


def test_time_is_looked_at_between_queued_passes():
    result = nmf(on_device(X), 5, n_init=3, tol=0, max_time=0.05, max_iter=10**9)
    assert result.status is Status.MAX_TIME
    assert result.seconds < 5
    assert np.isfinite(errors(result)).all()


def test_a_callback_sees_every_iteration_and_stops_the_run():
    seen = []

    def look(progress):
        seen.append((progress.stage, progress.start, progress.iteration))
        assert isinstance(progress.W, torch.Tensor)
        assert progress.fitting_error == pytest.approx(
            metrics.fitting_error(X, progress.W, progress.H), rel=1e-8
        )
        return progress.iteration == 19

    result = nmf(on_device(X), 5, n_init=2, tol=0, callback=look)
    for start, n_iter in enumerate(counts(result)):
        iterations = [i for stage, of, i in seen if (stage, of) == ("final", start)]
        assert iterations == list(range(1, n_iter + 1))
    assert max(counts(result)) == 19
    assert result.status is Status.CALLBACK


def test_a_callback_can_change_what_it_sees_without_harm():
    def spoil(progress):
        progress.W.zero_()
        progress.H.zero_()

    result = nmf(on_device(X), 5, max_iter=20, callback=spoil)
    assert errors(result) == errors(nmf(on_device(X), 5, max_iter=20, callback=lambda p: None))


@pytest.mark.parametrize("at", [3, 40, 41, 200])
def test_ctrl_c_keeps_the_best_factors(at, monkeypatch):
    """Wherever in a row of passes it comes."""
    product, done = TorchData.HXt, []

    def interrupted(self, *arguments, **options):
        done.append(1)
        if len(done) == at:
            os.kill(os.getpid(), signal.SIGINT)
        return product(self, *arguments, **options)

    data = on_device(X)
    monkeypatch.setattr(TorchData, "HXt", interrupted)
    with pytest.raises(Interrupted) as caught:
        nmf_merge(data, 5, n_init=3, tol=1e-9)
    result = caught.value.factorization
    assert result.W.shape == (40, 5)
    assert result.fitting_error == pytest.approx(
        metrics.fitting_error(X, result.W, result.H), rel=1e-8
    )
    begun = result.stages[0].fitting_error
    assert result.fitting_error <= begun * (1 + 1e-9)


class Killed(Exception):
    """The process is gone."""


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("n_init", [1, 5])
@pytest.mark.parametrize("at", [1, 3, 5])
def test_a_run_that_was_killed_goes_on_to_the_same_numbers(
    solver, n_init, at, tmp_path, monkeypatch
):
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    monkeypatch.setattr(os, "fsync", lambda number: None)
    options = {"solver": solver, "n_init": n_init, "tol": 1e-5, "max_iter": 130, "return_all": True}
    path, save, saved = tmp_path / "run", Checkpoint.save, []
    whole = nmf_merge(on_device(X), 5, **options)

    def save_and_die(self, state):
        save(self, state)
        saved.append(state)
        if len(saved) == at:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "save", save_and_die)
        with pytest.raises(Killed):
            nmf_merge(on_device(X), 5, checkpoint=path, **options)
    result = nmf_merge(on_device(X), 5, checkpoint=path, **options)
    assert counts(result) == counts(whole)
    np.testing.assert_allclose(errors(result), errors(whole), rtol=1e-8)
    pairs = zip(result.solutions or [result], whole.solutions or [whole], strict=True)
    for ours, theirs in pairs:
        for F, G in ((ours.W, theirs.W), (ours.H, theirs.H)):
            assert n_init > 1 or torch.equal(F, G)  # a batch that shrinks may round otherwise
            np.testing.assert_allclose(F, G, rtol=1e-6, atol=1e-8 * float(G.max()))


def test_a_run_that_reached_max_iter_goes_on_when_it_is_raised(tmp_path):
    options = {"n_init": 3, "init": "random", "tol": 1e-5, "checkpoint": tmp_path / "run"}
    nmf(on_device(X), 5, max_iter=21, **options)
    result = nmf(on_device(X), 5, max_iter=70, **options)
    del options["checkpoint"]
    assert_alike(result, nmf(X, 5, max_iter=70, **options))


def test_a_checkpoint_of_a_device_fits_the_same_data_in_numpy(tmp_path):
    nmf(on_device(X), 5, max_iter=21, tol=1e-6, checkpoint=tmp_path / "run")
    result = nmf(X, 5, max_iter=50, tol=1e-6, checkpoint=tmp_path / "run")
    expected = nmf(X, 5, max_iter=50, tol=1e-6)
    assert counts(result) == counts(expected)
    np.testing.assert_allclose(errors(result), errors(expected), rtol=1e-8)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n_init", [1, 4])
def test_an_exact_fit_is_found_as_in_numpy(dtype, n_init):
    """Here the objective is a small difference of large numbers, and its rise is summed."""
    rng = np.random.default_rng(0)
    A = (rng.random((30, 3)) @ rng.random((3, 40))).astype(dtype)
    options = {"n_init": n_init, "tol": 1e-6, "max_iter": 3000}
    result, expected = nmf(on_device(A), 3, **options), nmf(A, 3, **options)
    negligible = 100 * np.finfo(dtype).eps ** 2 * 1e5
    assert expected.fitting_error < 1e-5
    assert result.fitting_error <= 3 * expected.fitting_error + negligible


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("scale", "dtype"),
    [(1e-310, "f8"), (1e-290, "f8"), (1e-150, "f8"), (1e150, "f8"), (1e300, "f8"),
     (1e-40, "f4"), (1e-36, "f4"), (1e-10, "f4"), (1e10, "f4"), (1e30, "f4")],
)  # fmt: skip
def test_data_of_any_size(kind, scale, dtype):
    """In float32 rounding decides in which iteration a stage ends: results agree to ``tol``."""
    A = (KINDS[kind] / X.max() * scale).astype(dtype)
    result, expected = nmf_merge(on_device(A), 4, tol=1e-2), nmf_merge(A, 4, tol=1e-2)
    if dtype == "f8":
        rel = 1e-8 if scale != 1e-310 else 1e-4
        np.testing.assert_allclose(errors(result), errors(expected), rtol=rel)
    assert result.fitting_error == pytest.approx(expected.fitting_error, rel=1e-2)
    ours = result.W.double() @ (result.H.double() / scale)
    theirs = expected.W @ (expected.H.astype(float) / scale)
    np.testing.assert_allclose(ours, theirs, atol=1e-6 if dtype == "f8" else 1e-2)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("n_init", [1, 3])
@pytest.mark.parametrize("make", [np.array, sp.csr_array])
def test_zeros(make, n_init, solver):
    nothing = np.zeros((9, 7))
    result = nmf_merge(on_device(make(nothing)), 3, solver=solver, n_init=n_init)
    assert result.fitting_error == 0
    gaps = X.copy()
    gaps[3], gaps[:, 5] = 0, 0
    options = {"solver": solver, "n_init": n_init, "max_iter": 50}
    expected = nmf_merge(make(gaps), 4, **options)
    assert_alike(nmf_merge(on_device(make(gaps)), 4, **options), expected)


@given(
    seed=st.integers(0, 10**6),
    m=st.integers(4, 40),
    n=st.integers(4, 40),
    r=st.integers(1, 4),
    n_init=st.integers(2, 6),
    solver=st.sampled_from(SOLVERS),
    is_sparse=st.booleans(),
)
@settings(max_examples=30)
def test_a_batch_is_its_starts_alone(seed, m, n, r, n_init, solver, is_sparse):
    rng = np.random.default_rng(seed)
    A = rng.random((m, r + 1)) @ rng.random((r + 1, n)) + 0.1 * rng.random((m, n))
    data = on_device(sp.csr_array(A * (np.median(A) < A)) if is_sparse else A)
    options = {"solver": solver, "max_iter": 30, "tol": 1e-3}
    starts = [(rng.random((m, r)), rng.random((r, n))) for _ in range(n_init)]
    batch = nmf(data, r, init=starts, return_all=True, **options)
    for start, together in zip(starts, batch.solutions, strict=True):
        alone = nmf(data, r, init=start, **options)
        assert together.n_iter == alone.n_iter
        assert together.fitting_error == pytest.approx(alone.fitting_error, rel=1e-8, abs=1e-10)
        for ours, theirs in ((together.W, alone.W), (together.H, alone.H)):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6 * float(theirs.max()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    "weights",
    [{"alpha_W": 1e-4, "l1_ratio": 1.0}, {"alpha_W": 2e-5, "alpha_H": 1e-4, "l1_ratio": 0.3}],
    ids=str,
)
def test_penalties_are_those_of_numpy(weights, solver, kind):
    options = {"solver": solver, "n_init": 2, "max_iter": 60, "tol": 1e-4, **weights}
    result, expected = (nmf(A, 4, **options) for A in (on_device(KINDS[kind]), KINDS[kind]))
    assert_alike(result, expected)
    assert result.objective == pytest.approx(expected.objective, rel=1e-9)


def test_the_estimator_penalises_weights_of_tensors():
    weights = {"alpha_W": 0.01, "l1_ratio": 0.5}
    ours, theirs = (NMFMerge(4, **weights) for _ in range(2))
    W, expected = ours.fit_transform(torch.from_numpy(X)), theirs.fit_transform(X)
    np.testing.assert_allclose(as_array(W), expected, rtol=1e-9, atol=1e-12)
