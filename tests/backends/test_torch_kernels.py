"""What the sweeps on tensors promise beyond `test_interface`, which runs this file again.

Then Triton's interpreter does what the Triton kernels do on a GPU; here it is torch operations.
"""

import os
import warnings

import numpy as np
import pytest
from scipy import sparse

from nmfmerge import nmf_merge
from nmfmerge.backends import reference
from nmfmerge.inputs import tensors as tensor_inputs

torch = pytest.importorskip("torch")

from nmfmerge.backends.torch import descend_, gcd_sweep_, kernels, kl_sweep_, kl_x_log_y  # noqa: E402
from nmfmerge.matrices.torch import TorchData  # noqa: E402

pytestmark = [pytest.mark.tensors, pytest.mark.usefixtures("_one_torch_thread")]

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
ACTIVE = np.array([True, False, True])
SHAPES = [(1, 1), (3, 9), (5, 70), (9, 5), (2, 260)]


@pytest.fixture(params=["registers", "memory"])
def columns_in(request, monkeypatch):
    """Where the Triton kernel has its columns; for many components only one of the two will do."""
    if not INTERPRETED and request.param == "memory":
        pytest.skip("Triton is not at work")
    if INTERPRETED:
        from nmfmerge.backends.torch import triton_hals

        most = {"registers": 64, "memory": 0}[request.param]
        monkeypatch.setattr(triton_hals, "_MOST_IN_REGISTERS", most)


def problem(r, p, dtype=np.float64, seed=0):
    """Three starts; of the last, a component has no curvature."""
    rng = np.random.default_rng(seed)
    A = rng.random((3, r, r + 5))
    A[2, r // 2] = 0
    F = rng.random((3, r, p)) * (rng.random((3, r, p)) > 0.3)
    G, C = A @ A.swapaxes(1, 2), A @ rng.random((3, r + 5, p))
    return tuple(X.astype(dtype) for X in (F, G, C))


def tensors(*arrays):
    return tuple(torch.from_numpy(A.copy()) for A in arrays)


@pytest.mark.parametrize(("r", "p"), SHAPES)
def test_sweep_equals_its_twin(r, p, columns_in):
    F, G, C = problem(r, p)
    ours = tensors(F, G, C)
    sweep = kernels.hals_sweep_(*ours, 2, torch.from_numpy(ACTIVE))
    expected = reference.hals_sweep_(F, G, C, 2, ACTIVE)
    fit = ACTIVE * reference.inner_products(F, C)
    np.testing.assert_allclose(ours[0], F, rtol=1e-10, atol=1e-12)
    for mine, theirs in zip(sweep, (*expected, fit), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-20)


def test_float32_follows_float64_and_sums_in_float64(columns_in):
    wide, narrow = tensors(*problem(6, 40)), tensors(*problem(6, 40, np.float32))
    F, G, C = wide
    sweep = kernels.hals_sweep_(F, G, C, 2)
    F32, G32, C32 = narrow
    sweep32 = kernels.hals_sweep_(F32, G32, C32, 2)
    assert F32.dtype == torch.float32
    np.testing.assert_allclose(F32, F, atol=2e-3 * float(F.max()))
    for ours, theirs in zip(sweep32, sweep, strict=True):
        assert ours.dtype == torch.float64
        np.testing.assert_allclose(ours, theirs, rtol=2e-3)


def test_a_start_does_not_depend_on_those_beside_it():
    F, G, C = problem(5, 40)
    together = tensors(F, G, C)
    notes = kernels.hals_sweep_(*together, 2)
    for s in range(3):
        alone = tensors(F[s : s + 1], G[s : s + 1], C[s : s + 1])
        notes_alone = kernels.hals_sweep_(*alone, 2)
        np.testing.assert_allclose(together[0][s], alone[0][0], rtol=1e-13, atol=1e-15)
        for ours, theirs in zip(notes, notes_alone, strict=True):
            np.testing.assert_allclose(ours[s], theirs[0], rtol=1e-12)


@pytest.mark.parametrize(("r", "p"), SHAPES)
def test_greedy_steps_equal_their_twin(r, p):
    problem_, waiting = problem(r, p), problem(r, p)[0][1]
    ours, active = tensors(*problem_), torch.from_numpy(ACTIVE)
    notes = gcd_sweep_(*ours, 1e-3, active)
    expected = reference.gcd_sweep_(*problem_, 1e-3, ACTIVE)
    np.testing.assert_allclose(ours[0], problem_[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(ours[0][1], waiting)
    for mine, theirs in zip(notes, expected, strict=True):
        np.testing.assert_allclose(mine[active], theirs[ACTIVE], rtol=1e-9, atol=1e-20)
        assert (mine[1] == 0).all()


def test_greedy_steps_end_after_the_square_of_the_rank():
    """With a threshold below zero they would go on for ever."""
    F, G, C = (A[:2] for A in problem(2, 6))
    ours = tensors(F, G, C)
    gcd_sweep_(*ours, -1.0)
    reference.gcd_sweep_(F, G, C, -1.0)
    np.testing.assert_allclose(ours[0], F, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("r", "p"), SHAPES + [(17, 140)] * (not INTERPRETED))
def test_projected_gradients_take_the_steps_of_their_twin(r, p):
    """Call after call, as a solver does: what is kept between calls must not change them."""
    theirs = problem(r, p)
    theirs[0][0] *= 30  # far too large: it takes a long search
    ours, active, room = tensors(*theirs), torch.from_numpy(ACTIVE), {}
    waiting = theirs[0][1].copy()
    for _ in range(1 if INTERPRETED else 3):
        notes = descend_(*ours, room, active)
        expected = reference.descend_(*theirs, {}, ACTIVE)
        np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-8, atol=1e-9)
        for mine, wanted in zip(notes, expected, strict=True):
            np.testing.assert_allclose(mine[active], wanted[ACTIVE], rtol=1e-6, atol=1e-12)
            assert (mine[1] == 0).all()
    np.testing.assert_array_equal(ours[0][1], waiting)


def test_projected_gradients_in_float32_come_near_the_solution():
    F, G, C = (A[:2] for A in problem(4, 60))
    ours = tensors(*(A.astype(np.float32) for A in (F, G, C)))
    for _ in range(1 if INTERPRETED else 20):
        descend_(*ours, {})
        reference.descend_(F, G, C, {})
    assert ours[0].dtype == torch.float32
    np.testing.assert_allclose(ours[0], F, atol=2e-2 * F.max())


@pytest.fixture(params=["registers", "memory"])
def line_in(request, monkeypatch):
    """Where the Triton kernel of Kullback–Leibler has WH beside a line of X."""
    if not INTERPRETED and request.param == "memory":
        pytest.skip("Triton is not at work")
    if INTERPRETED and request.param == "memory":
        from nmfmerge.backends.torch import triton_kl

        for name, value in (("DENSE", 0), ("SPARSE", 0)):
            monkeypatch.setattr(triton_kl, f"_MOST_{name}", value)
        monkeypatch.setattr(triton_kl, "_BLOCK", 16)
        monkeypatch.setattr(triton_kl, "_PROGRAMS", 9)  # three a start, for seven lines


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("side", ["W", "H"])
@pytest.mark.parametrize("kind", ["dense", "CSR"])
def test_kl_sweep_equals_its_twin(kind, side, weighted, line_in):
    rng = np.random.default_rng(0)
    X = rng.poisson(1.5, (7, 37)) / 8.0
    X[2] = 0
    F, fixed = (rng.random((3, 3, p)) for p in (7, 37))
    F[:, 1, ::2], fixed[:, 2, 3:] = 0, 0
    X_t = torch.from_numpy(X if side == "W" else X.T.copy())
    lines = TorchData(X_t if kind == "dense" else csr(X_t)).lines(side)
    free = np.array([True, True, False])
    options = {"l1": 0.1, "l2": 0.2}
    sums = 3 * rng.random(F.shape) if weighted else None
    sums_t = torch.from_numpy(sums) if weighted else None
    ours = tensors(F, fixed)
    for _ in range(2):
        moved, total, seen = kl_sweep_(
            *ours, lines, 1e-12, 2, True, torch.from_numpy(free), **options,
            active=torch.from_numpy(ACTIVE), sums=sums_t,
        )  # fmt: skip
        expected = reference.kl_sweep_(
            F, fixed, X, 1e-12, 2, True, free, **options, active=ACTIVE, sums=sums
        )
        np.testing.assert_allclose(ours[0], F, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(moved, expected[0], rtol=1e-8, atol=1e-15)
        np.testing.assert_allclose(total, expected[1], rtol=1e-9)
        np.testing.assert_allclose(seen[ACTIVE], expected[2][ACTIVE], rtol=1e-9)
    noted = kl_x_log_y(*ours, lines, 1e-12)
    np.testing.assert_allclose(seen[ACTIVE], noted[ACTIVE], rtol=1e-12)


@pytest.mark.filterwarnings("ignore:.*had not converged")
@pytest.mark.parametrize("kind", ["dense", "CSR"])
def test_a_fit_by_kullback_leibler_is_that_of_numpy(kind):
    rng = np.random.default_rng(0)
    X = rng.poisson(6 * rng.gamma(0.5, size=(6, 3)) @ rng.gamma(0.5, size=(3, 8))).astype(float)
    given = X if kind == "dense" else sparse.csr_array(X)
    options = {"n_init": 2, "init": "random", "alpha_W": 1e-3, "beta_loss": "kullback-leibler"}
    on_device = tensor_inputs.device_matrix(tensor_inputs.on_device(given, "cpu"), tf32=False)
    ours, theirs = (nmf_merge(data, 2, max_iter=5, **options) for data in (on_device, given))
    assert ours.n_iter == theirs.n_iter
    np.testing.assert_allclose(ours.W, theirs.W, rtol=1e-9, atol=1e-12)


def csr(X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that sparse tensors are new
        return X.to_sparse_csr()
