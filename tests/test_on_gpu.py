"""On a GPU: the same solutions as on the CPU. Without one, these tests are left out.

They need no fixture of other tests, so that they run where only pytest and PyTorch are:
``python -m pytest --noconftest tests/test_on_gpu.py``.
"""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge import (
    NMFMerge,
    Status,
    consensus,
    datasets,
    metrics,
    nmf,
    nmf_merge,
    recover_components,
)
from nmfmerge.api import transform

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.tensors,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
    pytest.mark.filterwarnings("ignore"),
]

DTYPES = [np.float64, np.float32]


def data(dtype=np.float64, kind="dense", shape=(120, 180), r=8):
    X = datasets.lcms_like(*shape, r, random_state=4).X.astype(dtype)
    return X if kind == "dense" else sp.csr_array(np.where(np.median(X) < X, X, 0))


def agree(ours, theirs, dtype):
    """Starts end alike; rounding may part a few of them, which come to the same error then."""
    rtol = 1e-6 if dtype == np.float64 else 1e-2
    for a, b in zip(ours.starts or [ours], theirs.starts or [theirs], strict=True):
        assert a.fitting_error == pytest.approx(b.fitting_error, rel=rtol)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("solver", ["accelerated", "hals", "gcd", "alspgrad", "mu"])
def test_a_batch_ends_as_on_the_cpu(solver, kind, dtype):
    X = data(dtype, kind)
    options = {"solver": solver, "n_init": 6, "init": "nndsvda", "max_iter": 300}
    on_gpu = nmf_merge(X, 8, device="cuda", **options)
    on_cpu = nmf_merge(X, 8, **options)
    assert isinstance(on_gpu.W, np.ndarray)
    assert on_gpu.W.dtype == dtype
    agree(on_gpu, on_cpu, dtype)
    assert metrics.fitting_error(X, on_gpu.W, on_gpu.H) == pytest.approx(on_gpu.fitting_error)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("r", "shape"), [(2, (50, 60)), (3, (33, 257)), (64, (300, 200)), (65, (150, 300)),
                     (130, (200, 260))]
)  # fmt: skip
def test_iterates_are_those_of_the_cpu_for_any_rank(r, shape, dtype):
    rng = np.random.default_rng(r)
    X = rng.random(shape).astype(dtype)
    options = {"init": "random", "random_state": 3, "tol": 0, "max_iter": 45}
    on_gpu, on_cpu = nmf(X, r, device="cuda", **options), nmf(X, r, **options)
    assert on_gpu.n_iter == on_cpu.n_iter == 45
    tolerance = 1e-8 if dtype == np.float64 else 2e-2
    order, _ = metrics.match_components(on_cpu.W, on_gpu.W)
    if dtype == np.float64:
        assert order.tolist() == list(range(r))  # float32 may tell shares that are alike otherwise
    on_gpu = on_gpu.reordered(order.tolist())
    for ours, theirs in ((on_gpu.W, on_cpu.W), (on_gpu.H, on_cpu.H)):
        np.testing.assert_allclose(ours, theirs, atol=tolerance * theirs.max())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("solver", ["gcd", "alspgrad"])
@pytest.mark.parametrize(("r", "shape"), [(2, (50, 60)), (17, (400, 300)), (59, (361, 700))])
def test_first_iterates_of_all_solvers_are_those_of_the_cpu(solver, r, shape, dtype):
    """Later ones part where rounding decides which coordinate or step length is taken."""
    rng = np.random.default_rng(r)
    X = (rng.random((shape[0], r)) @ rng.random((r, shape[1])) + rng.random(shape)).astype(dtype)
    starts = [(rng.random((shape[0], r)), rng.random((r, shape[1]))) for _ in range(4)]
    options = {"solver": solver, "tol": 0, "max_iter": 3, "return_all": True}
    on_gpu, on_cpu = (nmf(X, r, init=starts, device=where, **options) for where in ("cuda", None))
    rtol = 1e-6 if dtype == np.float64 else 2e-2
    for ours, theirs in zip(on_gpu.solutions, on_cpu.solutions, strict=True):
        assert ours.fitting_error == pytest.approx(theirs.fitting_error, rel=rtol)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("solver", ["accelerated", "mu"])
def test_kullback_leibler_ends_as_on_the_cpu(solver, kind, dtype):
    X = data(dtype, kind)
    options = {
        "solver": solver, "n_init": 6, "init": "nndsvda", "max_iter": 300,
        "beta_loss": "kullback-leibler",
    }  # fmt: skip
    on_gpu, on_cpu = nmf_merge(X, 8, device="cuda", **options), nmf_merge(X, 8, **options)
    assert on_gpu.W.dtype == dtype
    agree(on_gpu, on_cpu, dtype)


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize(
    ("r", "shape"), [(2, (50, 60)), (17, (40, 3000)), (5, (20, 9000)), (3, (3000, 30))]
)
def test_iterates_of_kullback_leibler_are_those_of_the_cpu(r, shape, kind):
    """With lines of X in registers, and longer ones in memory."""
    rng = np.random.default_rng(r)
    X = rng.poisson(2 * rng.gamma(0.3, size=(shape[0], r)) @ rng.gamma(0.3, size=(r, shape[1])))
    X = X.astype(float) if kind == "dense" else sp.csr_array(X.astype(float))
    options = {
        "init": "random", "n_init": 3, "tol": 0, "max_iter": 20, "return_all": True,
        "beta_loss": "kullback-leibler",
    }  # fmt: skip
    on_gpu, on_cpu = nmf(X, r, device="cuda", **options), nmf(X, r, **options)
    for ours, theirs in zip(on_gpu.solutions, on_cpu.solutions, strict=True):
        assert ours.fitting_error == pytest.approx(theirs.fitting_error, rel=1e-8)
        np.testing.assert_allclose(ours.W, theirs.W, atol=1e-7 * theirs.W.max())
        np.testing.assert_allclose(ours.H, theirs.H, atol=1e-7 * theirs.H.max())


@pytest.mark.parametrize("weights", ["missing", "weights"])
@pytest.mark.parametrize("loss", ["frobenius", "kullback-leibler"])
@pytest.mark.parametrize("solver", ["accelerated", "mu"])
def test_missing_values_and_weights_are_those_of_the_cpu(solver, loss, weights):
    rng = np.random.default_rng(1)
    X = data()
    X[rng.random(X.shape) < 0.1] = np.nan
    M = rng.random(X.shape) if weights == "weights" else None
    options = {
        "solver": solver, "n_init": 4, "init": "nndsvda", "beta_loss": loss, "weights": M,
    }  # fmt: skip
    first = {**options, "tol": 0, "max_iter": 20}
    on_gpu, on_cpu = nmf(X, 8, device="cuda", **first), nmf(X, 8, **first)
    np.testing.assert_allclose(on_gpu.W, on_cpu.W, atol=1e-7 * on_cpu.W.max())
    np.testing.assert_allclose(on_gpu.H, on_cpu.H, atol=1e-7 * on_cpu.H.max())
    whole = {**options, "max_iter": 300}
    agree(nmf_merge(X, 8, device="cuda", **whole), nmf_merge(X, 8, **whole), np.float64)
    weights = transform(torch.from_numpy(X).cuda(), on_gpu.H, weights=M, beta_loss=loss)
    expected = transform(X, on_gpu.H, weights=M, beta_loss=loss)
    np.testing.assert_allclose(weights.cpu(), expected, atol=1e-6 * expected.max())


def test_a_tensor_stays_where_it_is_and_results_come_back_in_kind():
    X = torch.from_numpy(data()).cuda()
    result = nmf_merge(X, 8, n_init=3, return_all=True)
    for F in (result.W, result.H, result.spread.W, result.solutions[2].H):
        assert F.is_cuda
        assert F.dtype == torch.float64
    W, H, _ = recover_components(X, result.W, result.H, 2)
    assert W.is_cuda
    assert metrics.fitting_error(X, W, H) <= result.fitting_error * (1 + 1e-9)
    assert metrics.kkt_residual(X, result.W, result.H) < 1e-3
    assert transform(X, result.H).is_cuda
    model = NMFMerge(8, n_init=2).fit(X)
    assert model.components_.is_cuda
    assert model.transform(X).shape == (120, 8)


def test_held_components_stay_to_the_bit():
    X = data()
    first = nmf(X, 8, init="random", tol=1e-2)
    result = nmf_merge(
        X, 8, init=(first.W, first.H), hold={"H": [0, 1], "W": [0]}, n_init=4, return_all=True,
        device="cuda",
    )  # fmt: skip
    for solution in result.solutions:
        np.testing.assert_array_equal(solution.H[:2], first.H[:2])
        np.testing.assert_array_equal(solution.W[:, 0], first.W[:, 0])


def test_limits_are_kept_to_the_iteration():
    X = data()
    capped = nmf(X, 8, init="random", n_init=9, tol=0, max_iter=37, device="cuda")
    assert {start.n_iter for start in capped.starts} == {37}
    assert capped.status is Status.MAX_ITER
    seen = []
    nmf(
        X,
        8,
        device="cuda",
        n_init=2,
        callback=lambda p: seen.append(p.fitting_error) or len(seen) > 9,
    )
    assert len(seen) >= 10
    assert nmf(X, 8, tol=0, max_iter=10**7, max_time=0.5, device="cuda").status is Status.MAX_TIME


def test_a_checkpoint_goes_on_to_the_same_error(tmp_path):
    X, options = data(), {"n_init": 5, "tol": 1e-5, "device": "cuda"}
    whole = nmf_merge(X, 8, **options)
    nmf_merge(X, 8, checkpoint=tmp_path / "run", max_iter=20, **options)
    resumed = nmf_merge(X, 8, checkpoint=tmp_path / "run", **options)
    assert resumed.fitting_error == pytest.approx(whole.fitting_error, rel=1e-3)


def test_the_same_call_gives_the_same_bits():
    X = data()
    first, second = (nmf_merge(X, 8, n_init=20, device="cuda") for _ in range(2))
    np.testing.assert_array_equal(first.W, second.W)
    np.testing.assert_array_equal(first.H, second.H)


def test_tf32_is_off_unless_asked_for():
    rng = np.random.default_rng(0)
    X = (rng.random((400, 30)) @ rng.random((30, 500))).astype(np.float32)
    options = {"init": "random", "tol": 0, "max_iter": 60, "device": "cuda"}
    full, fast = nmf(X, 30, **options), nmf(X, 30, tf32=True, **options)
    on_cpu = nmf(X, 30, **{k: v for k, v in options.items() if k != "device"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not torch.backends.cuda.matmul.allow_tf32
    assert abs(full.fitting_error - on_cpu.fitting_error) <= 0.05 * on_cpu.fitting_error
    assert np.abs(full.H - fast.H).max() > 0


@pytest.mark.parametrize("loss", ["frobenius", "kullback-leibler"])
@pytest.mark.parametrize("resample", [None, "poisson"])
def test_a_consensus_is_that_of_the_cpu(loss, resample):
    X, H = _counts()
    options = {"n_fits": 10, "resample": resample, "beta_loss": loss}
    here, there = (consensus(X, "3-4", device=device, **options) for device in (None, "cuda"))
    for rank in here:
        assert metrics.match_components(here[rank].H.T, there[rank].H.T)[1].min() > 0.99
    assert metrics.match_components(H.T, there[4].H.T)[1].min() > 0.98


def _counts():
    rng = np.random.default_rng(0)
    W, H = rng.gamma(0.5, 2000.0, (40, 4)), rng.gamma(0.3, 1.0, (4, 50))
    return rng.poisson(W @ H).astype(float), H
