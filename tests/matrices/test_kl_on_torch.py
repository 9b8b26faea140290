"""Kullback–Leibler on tensors: the fits, single steps and metrics are those of NumPy arrays."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from nmfmerge import (
    NMFMerge,
    merge_components,
    metrics,
    nmf,
    nmf_merge,
    recover_components,
    transform,
)
from nmfmerge.inputs import tensors
from nmfmerge.losses.kullback_leibler import divergence_of
from nmfmerge.storage.checkpoint import Checkpoint

torch = pytest.importorskip("torch")

from nmfmerge.backends.torch import kl_sums, lines  # noqa: E402

pytestmark = [
    pytest.mark.tensors,
    pytest.mark.usefixtures("_one_torch_thread"),
    pytest.mark.filterwarnings(
        f"ignore::{ConvergenceWarning.__module__}.{ConvergenceWarning.__name__}"
    ),
]

KL = {"beta_loss": "kullback-leibler"}
_rng = np.random.default_rng(0)
X = _rng.poisson(3 * _rng.gamma(0.4, size=(40, 5)) @ _rng.gamma(0.4, size=(5, 60))).astype(float)
X[3], X[:, 5] = 0, 0
W, H = _rng.random((40, 4)), _rng.random((4, 60))
KINDS = {"dense": X, "transposed": X.T, "sparse": sp.csr_array(X)}
CASES = {
    "one start": {"n_init": 1, "init": "random"},
    "from nndsvd": {"n_init": 1, "init": "nndsvd"},
    "five starts": {"n_init": 5, "random_state": 1},
    "penalties": {"n_init": 2, "alpha_W": 1e-3, "alpha_H": 2e-4, "l1_ratio": 0.3},
}


def on_device(X):
    """The data matrix that X would be on a GPU."""
    return tensors.device_matrix(tensors.on_device(X, "cpu"), tf32=False)


def assert_alike(result, expected, rtol=1e-8):
    assert isinstance(result.W, torch.Tensor)
    ours, theirs = (one.starts or one.stages for one in (result, expected))
    assert [part.n_iter for part in ours] == [part.n_iter for part in theirs]
    ours, theirs = (
        [part.fitting_error for part in (*one.stages, *one.starts)] for one in (result, expected)
    )
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=1e-11)
    assert result.objective == pytest.approx(expected.objective, rel=rtol)
    np.testing.assert_allclose(result.W, expected.W, rtol=1e-5, atol=1e-7 * expected.W.max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", ["accelerated", "mu"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("fit", [nmf, nmf_merge])
def test_a_run_is_that_of_numpy(fit, case, solver, kind):
    options = {"solver": solver, "tol": 1e-3, "max_iter": 101, **CASES[case], **KL}
    expected = fit(KINDS[kind], 5, **options)
    assert_alike(fit(on_device(KINDS[kind]), 5, **options), expected)


@pytest.mark.parametrize("solver", ["accelerated", "mu"])
@pytest.mark.parametrize("hold", [[0], {"H": [0, 1]}, {"W": [0]}])
@pytest.mark.parametrize("fit", [nmf, nmf_merge])
def test_held_components_stay(fit, hold, solver):
    options = {"init": (W, H), "hold": hold, "solver": solver, "tol": 1e-3, **KL}
    result, expected = fit(on_device(X), 4, **options), fit(X, 4, **options)
    assert_alike(result, expected)
    parts = hold if isinstance(hold, dict) else {"W": hold, "H": hold}
    np.testing.assert_array_equal(result.W[:, parts.get("W", [])], W[:, parts.get("W", [])])
    np.testing.assert_array_equal(result.H[parts.get("H", [])], H[parts.get("H", [])])


def test_iterates_are_those_of_numpy():
    """Before they converge; later, rounding decides which steps are taken back."""
    options = {"init": "random", "n_init": 4, "tol": 0, "max_iter": 25, "return_all": True, **KL}
    for kind in KINDS.values():
        ours, theirs = nmf(on_device(kind), 4, **options), nmf(kind, 4, **options)
        for one, other in zip(ours.solutions, theirs.solutions, strict=True):
            np.testing.assert_allclose(one.W, other.W, rtol=1e-9, atol=1e-9 * other.W.max())
            np.testing.assert_allclose(one.H, other.H, rtol=1e-9, atol=1e-9 * other.H.max())


@pytest.mark.parametrize("kind", KINDS)
def test_float32_gives_the_error_of_numpy(kind):
    A = KINDS[kind].astype("f4")
    result, expected = (nmf_merge(data, 4, n_init=2, **KL) for data in (on_device(A), A))
    assert result.W.dtype == torch.float32
    assert result.fitting_error == pytest.approx(expected.fitting_error, rel=2e-3)


@pytest.mark.parametrize("scale", [4.0**-20, 4.0**30])
@pytest.mark.parametrize("kind", KINDS)
def test_the_fit_is_the_same_at_any_scale(kind, scale):
    base, scaled = (nmf(on_device(A), 4, **KL) for A in (KINDS[kind], KINDS[kind] * scale))
    assert scaled.fitting_error == pytest.approx(base.fitting_error, rel=1e-10)
    np.testing.assert_allclose(scaled.W, base.W * np.sqrt(scale), rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 70, 1000])
def test_blocks_of_lines_add_up(kind, size, monkeypatch):
    """However small the memory of a block."""
    data, F, fixed = on_device(KINDS[kind]), *(torch.from_numpy(A) for A in (W.T.copy(), H))
    if kind == "transposed":
        F, fixed = fixed, F
    expected = divergence_of(data).exact_values(F[None], fixed[None])
    monkeypatch.setattr(lines, "_BLOCK_ENTRIES", size)
    np.testing.assert_allclose(
        divergence_of(data).exact_values(F[None], fixed[None]), expected, rtol=1e-13
    )
    sums = kl_sums.kl_line_sums(data.lines("W"), *data.shape)
    np.testing.assert_allclose(sums[:, 0] * data.unit**2, KINDS[kind].sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("make", [np.array, sp.csr_array])
@pytest.mark.parametrize("solver", ["accelerated", "mu"])
def test_zeros(make, solver):
    result = nmf_merge(on_device(make(np.zeros((9, 7)))), 3, solver=solver, n_init=2, **KL)
    assert result.fitting_error == 0
    assert torch.isfinite(result.W).all()


@pytest.mark.parametrize("kind", KINDS)
def test_single_steps_and_metrics(kind):
    A = KINDS[kind]
    start = (H.T, W.T) if kind == "transposed" else (W, H)
    factors = [torch.from_numpy(np.ascontiguousarray(F)) for F in start]
    given = on_device(A)
    error = metrics.fitting_error(given, *factors, **KL)
    assert error == pytest.approx(metrics.fitting_error(A, *start, **KL), rel=1e-12)
    kkt = metrics.kkt_residual(given, *factors, **KL)
    assert kkt == pytest.approx(metrics.kkt_residual(A, *start, **KL), rel=1e-10)
    ours, theirs = (
        recover_components(given, *factors, 2, **KL),
        recover_components(A, *start, 2, **KL),
    )
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)
    ours, theirs = (merge_components(*found[:2], 3, **KL) for found in (ours, theirs))
    for one, other in zip(ours[:2], theirs[:2], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)
    weights = transform(given, factors[1], **KL)
    expected = transform(A, start[1], **KL)
    np.testing.assert_allclose(weights, expected, rtol=1e-6, atol=1e-9 * expected.max())


def test_the_estimator():
    ours, theirs = (NMFMerge(4, n_init=2, **KL) for _ in range(2))
    weights, expected = ours.fit_transform(torch.from_numpy(X)), theirs.fit_transform(X)
    np.testing.assert_allclose(weights, expected, rtol=1e-6, atol=1e-9)
    assert ours.reconstruction_err_ == pytest.approx(theirs.reconstruction_err_)
    assert ours.score(torch.from_numpy(X)) == pytest.approx(theirs.score(X))


@pytest.mark.parametrize("function", [nmf, nmf_merge])
@pytest.mark.parametrize("solver", ["accelerated", "mu"])
def test_a_run_cut_off_goes_on(function, solver, tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    settings = {"solver": solver, "init": "random", "n_init": 3, "tol": 1e-2, **KL}
    whole = function(on_device(X), 4, **settings)
    for at in (1, 7, 20):
        path, seen = tmp_path / f"{at}.npz", []

        def callback(progress, at=at, seen=seen):
            seen.append(progress)
            if len(seen) == at:
                raise _Killed

        with pytest.raises(_Killed):
            function(on_device(X), 4, checkpoint=path, callback=callback, **settings)
        result = function(on_device(X), 4, checkpoint=path, **settings)
        assert result.fitting_error == pytest.approx(whole.fitting_error, rel=1e-9)
        np.testing.assert_allclose(result.W, whole.W, rtol=1e-6, atol=1e-9)


class _Killed(Exception):
    pass
