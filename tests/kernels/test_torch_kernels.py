"""The kernels on torch tensors against the NumPy twins, start by start.

On the CPU they are torch operations. The last test runs all others again with Triton's interpreter,
which does there what the Triton kernels do on a GPU.
"""

import importlib.util
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from nmfmerge import kernels
from nmfmerge.kernels import reference

torch = pytest.importorskip("torch")

from nmfmerge.kernels import torch_kernels  # noqa: E402

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
        from nmfmerge.kernels import triton_hals

        most = {"registers": 64, "memory": 0}[request.param]
        monkeypatch.setattr(triton_hals, "_MOST_IN_REGISTERS", most)


def problem(r, p, dtype=np.float64, seed=0):
    """Three starts; of the last, a component has no curvature."""
    rng = np.random.default_rng(seed)
    A = rng.random((3, r, r + 5))
    A[2, r // 2] = 0
    F = rng.random((3, r, p)) * (rng.random((3, r, p)) > 0.3)
    G, C = A @ A.swapaxes(1, 2), A @ rng.random((3, r + 5, p))
    previous = rng.random((3, r, p))
    return tuple(X.astype(dtype) for X in (F, G, C, previous))


def tensors(*arrays):
    return tuple(torch.from_numpy(A.copy()) for A in arrays)


def expected_sweeps(F, G, C):
    """Two sweeps of one start, by the twin: the factor and the notes."""
    F = F.copy()
    moved, total, first = reference.hals_sweep_(F, G, C)
    _, _, second = reference.hals_sweep_(F, G, C)
    return F, moved, total, first + second, np.vdot(C, F)


@pytest.mark.parametrize(("r", "p"), SHAPES)
def test_sweep_equals_its_twin(r, p, columns_in):
    F, G, C, _ = problem(r, p)
    ours = tensors(F, G, C)
    sweep = torch_kernels.hals_sweep_(*ours, 2, torch.from_numpy(ACTIVE))
    for s in np.flatnonzero(ACTIVE):
        swept, *notes = expected_sweeps(F[s], G[s], C[s])
        np.testing.assert_allclose(ours[0][s], swept, rtol=1e-10, atol=1e-12)
        for mine, theirs in zip(sweep, notes, strict=True):
            np.testing.assert_allclose(mine[s], theirs, rtol=1e-9, atol=1e-20)
    np.testing.assert_array_equal(ours[0][1], F[1])
    assert all((note[1] == 0).all() for note in sweep)


def test_float32_follows_float64_and_sums_in_float64(columns_in):
    wide, narrow = tensors(*problem(6, 40)), tensors(*problem(6, 40, np.float32))
    F, G, C, _ = wide
    sweep = torch_kernels.hals_sweep_(F, G, C, 2)
    F32, G32, C32, _ = narrow
    sweep32 = torch_kernels.hals_sweep_(F32, G32, C32, 2)
    assert F32.dtype == torch.float32
    np.testing.assert_allclose(F32, F, atol=2e-3 * float(F.max()))
    for ours, theirs in zip(sweep32, sweep, strict=True):
        assert ours.dtype == torch.float64
        np.testing.assert_allclose(ours, theirs, rtol=2e-3)


def test_a_start_does_not_depend_on_those_beside_it():
    F, G, C, _ = problem(5, 40)
    together = tensors(F, G, C)
    notes = torch_kernels.hals_sweep_(*together, 2)
    for s in range(3):
        alone = tensors(F[s : s + 1], G[s : s + 1], C[s : s + 1])
        notes_alone = torch_kernels.hals_sweep_(*alone, 2)
        np.testing.assert_allclose(together[0][s], alone[0][0], rtol=1e-13, atol=1e-15)
        for ours, theirs in zip(notes, notes_alone, strict=True):
            np.testing.assert_allclose(ours[s], theirs[0], rtol=1e-12)


def test_multiplicative_update_equals_its_twin():
    F, G, C, _ = problem(5, 40)
    C[0, 1, ::3] *= -1  # as held components can make it
    offset = np.array([1e-8, 1e-3, 0.5])
    ours = tensors(F, G, C)
    notes = torch_kernels.mu_step_(*ours, torch.from_numpy(offset), 1e-30, torch.from_numpy(ACTIVE))
    for s in np.flatnonzero(ACTIVE):
        expected = reference.mu_step_(F[s], G[s], C[s], offset[s], 1e-30)
        for mine, theirs in zip(notes, expected, strict=True):
            np.testing.assert_allclose(mine[s], theirs, rtol=1e-12)
    np.testing.assert_allclose(ours[0], F, rtol=1e-12)
    assert all((note[1] == 0).all() for note in notes)


def test_extrapolation_equals_its_twin():
    F, _, _, previous = problem(5, 210)
    beta = np.array([0.5, 0.9, 0.0])
    ours, last = tensors(F, previous)
    torch_kernels.extrapolate_(ours, last, torch.from_numpy(beta), torch.from_numpy(ACTIVE))
    for s in np.flatnonzero(ACTIVE):
        reference.extrapolate_(F[s], previous[s], beta[s])
    np.testing.assert_allclose(ours, F, rtol=1e-14)
    np.testing.assert_array_equal(last, previous)


def test_rise_is_the_difference_of_objectives():
    F, G, C, old = problem(6, 50)
    rise = torch_kernels.rise(*tensors(F, G, C, old))

    def objective(F, s):
        return 0.5 * np.vdot(F, G[s] @ F) - np.vdot(C[s], F)

    for s in range(3):
        np.testing.assert_allclose(rise[s], objective(F[s], s) - objective(old[s], s), rtol=1e-9)


def test_steps_equal_those_of_numpy():
    rng = np.random.default_rng(0)
    ratio, moved, total = rng.random((3, 3, 5))
    total[1, 2] = 0
    W, H = rng.random((2, 3, 5, 8))
    W[:, 3] *= 1e-9
    WtW, HHt = W @ W.swapaxes(1, 2), H @ H.swapaxes(1, 2)
    ours = tensors(ratio, moved, total, WtW, HHt)
    torch_kernels.note_steps_(*ours[:3])
    kernels.note_steps_(ratio, moved, total)
    np.testing.assert_allclose(ours[0], ratio, rtol=1e-14)
    largest = torch_kernels.largest_step(ours[0], *ours[3:], 1e-6)
    np.testing.assert_array_equal(largest, kernels.largest_step(ours[0].numpy(), WtW, HHt, 1e-6))


def test_steps_are_noted_from_the_columns_of_wider_notes():
    rng = np.random.default_rng(1)
    ratio, notes = np.zeros((3, 5)), rng.random((3, 12))
    ours, wide = tensors(ratio, notes)
    torch_kernels.note_steps_(ours, wide[:, :5], wide[:, 5:10])
    kernels.note_steps_(ratio, notes[:, :5], notes[:, 5:10])
    np.testing.assert_allclose(ours, ratio, rtol=1e-14)


NUMBERS = ("objective", "weight", "bound", "last_weight")


def momentum(S, rng):
    """What `judge_` looks at and changes, over starts: some rest, some have come from nowhere."""
    return SimpleNamespace(
        objective=rng.choice([1e-4, 1.9, 2.1, 50.0, np.inf], S),
        weight=rng.random(S),
        bound=rng.random(S) + 0.5,
        last_weight=rng.random(S),
        rest=rng.random(S) > 0.5,
        taken_back=rng.random(S) > 0.5,
    )


def rows_of(state, rows):
    """A copy of some starts."""
    return SimpleNamespace(**{name: A[rows].copy() for name, A in vars(state).items()})


@pytest.mark.parametrize(("rise_given", "limit"), [(False, 0.0), (True, 0.0), (True, 1.0)])
@pytest.mark.parametrize("some_wait", [False, True])
def test_judgement_is_that_of_numpy(rise_given, limit, some_wait):
    S, r, norm2, negligible = 40, 5, 300.0, 1e-6
    rng = np.random.default_rng(3)
    W, H = rng.random((2, S, r, 8))
    W[:, 2] *= 1e-8  # does not count
    WtW, HHt = W @ W.swapaxes(1, 2), H @ H.swapaxes(1, 2)
    fit = norm2 / 2 + (WtW * HHt).sum(axis=(1, 2)) / 2 - rng.choice([-1e-3, 1e-3, 2.0, 40.0], S)
    ratio = rng.random((S, r)) * rng.choice([1.0, 1e-5], (S, 1))
    ratio[:, 2] = 9
    rise = rng.normal(size=S) if rise_given else None
    active = rng.random(S) > 0.3 if some_wait else np.full(S, True)
    before = momentum(S, rng)
    ours = SimpleNamespace(**{name: torch.from_numpy(A.copy()) for name, A in vars(before).items()})
    step = torch_kernels.judge_(
        ours, *tensors(fit, WtW, HHt, ratio), norm2,
        torch.from_numpy(rise) if rise_given else None, limit, negligible,
        torch.from_numpy(active) if some_wait else None,
    ).numpy()  # fmt: skip
    rows = np.flatnonzero(active)
    expected = rows_of(before, rows)
    expected_step = kernels.judge_(
        expected, fit[rows], WtW[rows], HHt[rows], ratio[rows], norm2,
        rise[rows] if rise_given else None, limit, negligible,
    )  # fmt: skip
    assert {True, False} == set(expected.taken_back.tolist())
    np.testing.assert_allclose(step[rows], expected_step, rtol=1e-12)
    for name, values in vars(expected).items():
        rounding = 1e-14 * norm2 if name == "objective" else 0
        mine = getattr(ours, name).numpy()[rows]
        np.testing.assert_allclose(mine, values, 1e-12, rounding, err_msg=name)
    waiting = np.flatnonzero(~active)
    assert np.isnan(step[waiting]).all()
    assert not ours.taken_back.numpy()[waiting].any()
    for name in (*NUMBERS, "rest"):
        unchanged = getattr(before, name)[waiting]
        np.testing.assert_array_equal(getattr(ours, name).numpy()[waiting], unchanged, name)


def test_settling_is_that_of_numpy():
    F1, _, _, accepted1 = problem(4, 30)
    F2, _, _, accepted2 = problem(4, 300, seed=1)
    taken_back = np.array([True, False, True])
    ours = tensors(F1, F2, accepted1, accepted2)
    torch_kernels.settle_(*ours, torch.from_numpy(taken_back))
    theirs = F1, F2, accepted1, accepted2
    kernels.settle_(*theirs, taken_back)
    for mine, expected in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(mine, expected)


@pytest.mark.skipif(INTERPRETED, reason="this is the run inside")
def test_triton_kernels_pass_the_same_tests():
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
