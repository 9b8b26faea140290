"""Missing values and weights on tensors: the fits, single steps and metrics of NumPy arrays."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from nmfmerge import NMFMerge, metrics, nmf, nmf_merge, recover_components, transform
from nmfmerge.inputs import tensors
from nmfmerge.inputs.check import check_X
from nmfmerge.losses import Problem
from nmfmerge.losses.kullback_leibler import KULLBACK_LEIBLER
from nmfmerge.storage.checkpoint import Checkpoint

torch = pytest.importorskip("torch")

from nmfmerge.backends.torch import weighted_sweep  # noqa: E402
from nmfmerge.matrices import torch as matrices_on_torch  # noqa: E402

pytestmark = [
    pytest.mark.tensors,
    pytest.mark.usefixtures("_one_torch_thread"),
    pytest.mark.filterwarnings(
        f"ignore::{ConvergenceWarning.__module__}.{ConvergenceWarning.__name__}"
    ),
]

_rng = np.random.default_rng(0)
X = _rng.gamma(0.4, size=(30, 4)) @ _rng.gamma(0.4, size=(4, 40)) + 0.1 * _rng.random((30, 40))
HOLES = np.where(_rng.random(X.shape) < 0.15, np.nan, X)
M = np.where(_rng.random(X.shape) < 0.2, 0, 3 * _rng.random(X.shape))
W, H = _rng.random((30, 3)), _rng.random((3, 40))
GIVEN = {
    "missing": (HOLES, {}),
    "columns": (np.asfortranarray(HOLES), {}),
    "most missing": (np.where(_rng.random(X.shape) < 0.45, X, np.nan), {}),
    "weights": (HOLES, {"weights": M}),
}
LOSSES = ["frobenius", "kullback-leibler"]
CASES = {
    "one start": {"n_init": 1, "init": "nndsvd"},
    "five starts": {"n_init": 5, "random_state": 1},
    "penalties": {"n_init": 2, "alpha_W": 1e-3, "alpha_H": 2e-4, "l1_ratio": 0.3},
}


class _Killed(Exception):
    pass


@pytest.fixture
def _elsewhere(monkeypatch):
    """The CPU stands in for a device."""
    monkeypatch.setattr(tensors, "is_host", lambda device: False)


def on_device(X, **options):
    return tensors.weighted_matrix(check_X(X, **options), "cpu", tf32=False)


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


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("given", ["missing", "weights"])
@pytest.mark.parametrize("solver", ["accelerated", "mu"])
@pytest.mark.parametrize("case", CASES)
def test_a_run_is_that_of_numpy(case, solver, given, loss):
    A, weights = GIVEN[given]
    options = {"solver": solver, "tol": 1e-3, "max_iter": 61, "beta_loss": loss, **CASES[case]}
    expected = nmf_merge(A, 4, **weights, **options)
    assert_alike(nmf_merge(on_device(A, **weights), 4, **options), expected)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("solver", ["accelerated", "mu"])
@pytest.mark.parametrize("hold", [[0], {"H": [0, 1]}, {"W": [0]}])
def test_held_components_stay(hold, solver, loss):
    options = {"init": (W, H), "hold": hold, "solver": solver, "tol": 1e-3, "beta_loss": loss}
    result, expected = nmf_merge(on_device(HOLES), 3, **options), nmf_merge(HOLES, 3, **options)
    assert_alike(result, expected)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("given", GIVEN)
def test_float32_gives_the_error_of_numpy(given, loss):
    A, weights = GIVEN[given]
    A = A.astype(np.float32)
    options = {"n_init": 3, "init": "random", "max_iter": 30, "tol": 0, "beta_loss": loss}
    expected, result = nmf(A, 4, **weights, **options), nmf(on_device(A, **weights), 4, **options)
    assert result.W.dtype == torch.float32
    assert result.fitting_error == pytest.approx(expected.fitting_error, rel=1e-4)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("weights", [None, M], ids=["missing", "weights"])
def test_blocks_add_up(loss, weights, monkeypatch):
    options = {"n_init": 3, "max_iter": 20, "tol": 0, "beta_loss": loss}
    whole = nmf_merge(on_device(HOLES, weights=weights), 4, **options)
    monkeypatch.setattr(weighted_sweep, "_GRAM_ENTRIES", 700)
    monkeypatch.setattr(weighted_sweep, "_FIT_ENTRIES", 700)
    monkeypatch.setattr(matrices_on_torch, "BLOCK_ENTRIES", 97)
    assert_alike(nmf_merge(on_device(HOLES, weights=weights), 4, **options), whole)


@pytest.mark.parametrize("scale", [1e-9, 1e12])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_fit_is_the_same_at_any_scale(loss, scale):
    options = {"n_init": 2, "max_iter": 30, "beta_loss": loss}
    expected = nmf_merge(scale * HOLES, 4, weights=M, **options)
    assert_alike(nmf_merge(on_device(scale * HOLES, weights=M), 4, **options), expected)


@pytest.mark.usefixtures("_elsewhere")
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("given", GIVEN)
def test_tensors_with_nan_and_weights_are_taken(given, loss):
    A, weights = GIVEN[given]
    host = check_X(A, **weights)
    options = {"n_init": 2, "tol": 1e-3, "beta_loss": loss}
    tensor = torch.from_numpy(np.array(A))
    weights_too = {name: torch.from_numpy(value) for name, value in weights.items()}
    ours, theirs = nmf_merge(tensor, 4, **weights_too, **options), nmf_merge(host, 4, **options)
    assert_alike(ours, theirs)
    from_array = nmf_merge(A, 4, device="cpu", **weights, **options)
    assert isinstance(from_array.W, np.ndarray)
    np.testing.assert_array_equal(from_array.W, ours.W)
    with pytest.raises(ValueError, match="infinity"):
        nmf(torch.where(tensor == tensor.nan_to_num().max(), torch.inf, tensor), 3)


@pytest.mark.usefixtures("_elsewhere")
def test_equal_weights_are_none_and_scale_the_objective():
    plain = nmf(torch.from_numpy(X), 3, max_iter=20)
    ours = nmf(torch.from_numpy(X), 3, max_iter=20, weights=np.full(X.shape, 7.0))
    np.testing.assert_array_equal(ours.W, plain.W)
    assert ours.objective == pytest.approx(7 * plain.objective)


@pytest.mark.usefixtures("_elsewhere")
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_sparse_data_are_refused():
    sparse = torch.from_numpy(np.nan_to_num(HOLES)).to_sparse_csr()
    with pytest.raises(ValueError, match="is sparse and has missing values or weights"):
        nmf(sparse, 3, missing="zeros")
    with pytest.raises(ValueError, match="is sparse and has missing values or weights"):
        nmf(torch.from_numpy(HOLES).to_sparse_csr(), 3)
    with pytest.raises(ValueError, match="is sparse and has missing values or weights"):
        nmf(sp.csr_array(HOLES), 3, device="cpu")


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("given", GIVEN)
def test_single_steps_and_metrics(given, loss):
    A, weights = GIVEN[given]
    data, k = on_device(A, **weights), {"beta_loss": loss}
    factors = torch.from_numpy(W), torch.from_numpy(H)
    for metric in (metrics.fitting_error, metrics.kkt_residual):
        expected = metric(check_X(A, **weights), W, H, **k)
        assert metric(data, *factors, **k) == pytest.approx(expected, rel=1e-10)
    ours = recover_components(data, *factors, 2, **k)
    theirs = recover_components(check_X(A, **weights), W, H, 2, **k)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)
    expected = transform(A, H, **weights, **k)
    found = transform(data, factors[1], **k)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9 * expected.max())


def test_singular_vectors_of_large_data_are_of_what_is_observed(monkeypatch):
    expected = check_X(HOLES, weights=M).svd(3)
    monkeypatch.setattr(matrices_on_torch, "_SMALL", 10)
    np.testing.assert_allclose(on_device(HOLES, weights=M).svd(3).s, expected.s, rtol=1e-6)


def test_exact_values_do_not_cancel():
    factors = torch.from_numpy(W.T.copy())[None], torch.from_numpy(H)[None]
    exact = Problem(on_device(np.where(np.isnan(HOLES), np.nan, W @ H)), KULLBACK_LEIBLER)
    scaled = tuple(F / exact.matrix.unit for F in factors)
    assert exact.exact_losses(*scaled)[0] < 1e-25


@pytest.mark.usefixtures("_elsewhere")
def test_the_estimator():
    ours, theirs = NMFMerge(4, n_init=2), NMFMerge(4, n_init=2)
    tensor = torch.from_numpy(HOLES)
    weights, expected = ours.fit_transform(tensor), theirs.fit_transform(HOLES)
    np.testing.assert_allclose(weights, expected, rtol=1e-6, atol=1e-9)
    assert ours.score(tensor) == pytest.approx(theirs.score(HOLES))


@pytest.mark.parametrize("loss", LOSSES)
def test_a_run_cut_off_goes_on(loss, tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    options = {"init": "random", "n_init": 3, "tol": 1e-2, "beta_loss": loss}
    whole = nmf_merge(on_device(HOLES), 4, **options)
    seen = []

    def callback(progress):
        seen.append(progress)
        if len(seen) == 9:
            raise _Killed

    with pytest.raises(_Killed):
        nmf_merge(on_device(HOLES), 4, checkpoint=tmp_path / "at", callback=callback, **options)
    result = nmf_merge(on_device(HOLES), 4, checkpoint=tmp_path / "at", **options)
    assert result.fitting_error == pytest.approx(whole.fitting_error, rel=1e-9)
