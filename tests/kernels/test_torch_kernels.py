"""The kernels on torch tensors against the NumPy twins, start by start.

On the CPU they are torch operations. The last test runs all others again with Triton's interpreter,
which does there what the Triton kernels do on a GPU.
"""

import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass, fields

import numpy as np
import pytest

from nmfmerge.kernels import largest_step, note_steps_, reference

torch = pytest.importorskip("torch")

from nmfmerge.kernels import torch_kernels  # noqa: E402

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
ACTIVE = np.array([True, False, True])
SHAPES = [(1, 1), (3, 9), (5, 70), (8, 5), (9, 5), (2, 260)]


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


def test_extrapolation_fused_with_a_sweep_is_the_two_after_another(columns_in):
    F, G, C, previous = problem(5, 70)
    beta = np.array([0.5, 0.9, 0.0])
    together, before = tensors(F, previous)
    apart, _ = tensors(F, previous)
    active = torch.from_numpy(ACTIVE)
    one = torch_kernels.hals_sweep_(
        together, *tensors(G, C), 2, active, before, torch.from_numpy(beta)
    )
    two = torch_kernels.hals_sweep_(apart, *tensors(G, C), 2, active)
    for s in range(3):
        swept, last = apart[s].numpy().copy(), previous[s].copy()
        if ACTIVE[s]:
            reference.extrapolate_(swept, last, beta[s])
        np.testing.assert_allclose(together[s], swept, rtol=1e-13, atol=1e-15)
        np.testing.assert_array_equal(before[s], last)
    for ours, theirs in zip(one, two, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_float32_follows_float64_and_sums_in_float64(columns_in):
    wide, narrow = tensors(*problem(6, 40)), tensors(*problem(6, 40, np.float32))
    beta = torch.tensor([0.5, 0.9, 0.3], dtype=torch.float64)
    F, G, C, previous = wide
    sweep = torch_kernels.hals_sweep_(F, G, C, 2, None, previous, beta)
    F32, G32, C32, previous32 = narrow
    sweep32 = torch_kernels.hals_sweep_(F32, G32, C32, 2, None, previous32, beta)
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
    ours = tensors(F, G, C)
    notes = torch_kernels.mu_step_(*ours, 1e-8, 1e-30, torch.from_numpy(ACTIVE))
    for s in np.flatnonzero(ACTIVE):
        expected = reference.mu_step_(F[s], G[s], C[s], 1e-8, 1e-30)
        for mine, theirs in zip(notes, expected, strict=True):
            np.testing.assert_allclose(mine[s], theirs, rtol=1e-12)
    np.testing.assert_allclose(ours[0], F, rtol=1e-12)


def test_extrapolation_equals_its_twin():
    F, _, _, previous = problem(5, 300)
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


def test_steps_equal_those_of_single_starts():
    rng = np.random.default_rng(0)
    ratio, moved, total = rng.random((3, 3, 5))
    total[1, 2] = 0
    W, H = rng.random((2, 3, 5, 8))
    W[:, 3] *= 1e-9
    WtW, HHt = W @ W.swapaxes(1, 2), H @ H.swapaxes(1, 2)
    ours = tensors(ratio, moved, total, WtW, HHt)
    torch_kernels.note_steps_(*ours[:3])
    largest = torch_kernels.largest_step(ours[0], *ours[3:], 1e-6)
    for s in range(3):
        note_steps_(ratio[s], moved[s], total[s])
        np.testing.assert_allclose(ours[0][s], ratio[s], rtol=1e-14)
        assert largest[s] == largest_step(ours[0][s].numpy(), WtW[s], HHt[s], 1e-6)


@dataclass
class State:
    """Of accelerated HALS, over starts; or of one start."""

    objective: object
    weight: object
    bound: object
    last_weight: object
    step: object
    rest: object
    active: object
    taken_back: object
    n_iter: object


def expected_judgement(state, fit, WtW, HHt, ratio, norm2, rise, tol, negligible, eps):
    """The rule for one start, with branches."""
    state.taken_back = False
    if not state.active:
        return
    new = max(0.0, norm2 / 2 - fit + np.vdot(WtW, HHt) / 2)
    rose = new - state.objective
    if rise is not None and state.objective < 1e5 * eps * norm2:
        rose = rise
    if rose > 0 and not state.rest:
        state.taken_back = True
        state.bound, state.weight, state.rest = state.last_weight, state.weight / 1.5, True
        return
    state.objective, state.rest, state.last_weight = new, False, state.weight
    state.weight = min(state.bound, 1.05 * state.weight)
    state.bound = min(1.0, 1.01 * state.bound)
    state.step = largest_step(ratio, WtW, HHt, negligible) / 2
    state.n_iter += 1
    state.active = state.step > tol


@pytest.mark.parametrize("rise_given", [False, True])
@pytest.mark.parametrize("eps", [2.3e-16, 1e-7])
def test_judgement_follows_the_rule_start_by_start(rise_given, eps):
    S, r, norm2, limits = 40, 5, 300.0, {"tol": 1e-4, "negligible": 1e-6}
    rng = np.random.default_rng(3)
    W, H = rng.random((2, S, r, 8))
    WtW, HHt = W @ W.swapaxes(1, 2), H @ H.swapaxes(1, 2)
    fit = norm2 / 2 + (WtW * HHt).sum(axis=(1, 2)) / 2 - rng.choice([-1e-3, 1e-3, 2.0, 40.0], S)
    ratio = rng.random((S, r)) * rng.choice([1.0, 1e-5], (S, 1))
    rise = rng.normal(size=S) if rise_given else None
    start = State(
        rng.choice([1e-4, 1.9, 2.1, 50.0, np.inf], S), rng.random(S), rng.random(S) + 0.5,
        rng.random(S), rng.random(S), rng.random(S) > 0.5, rng.random(S) > 0.2,
        rng.random(S) > 0.5, rng.integers(0, 9, S),
    )  # fmt: skip
    ours = State(*(torch.from_numpy(getattr(start, f.name).copy()) for f in fields(State)))
    torch_kernels.judge_(
        ours, *tensors(fit, WtW, HHt, ratio), norm2,
        torch.from_numpy(rise) if rise_given else None, eps=eps, **limits,
    )  # fmt: skip
    judged = []
    for s in range(S):
        one = State(*(getattr(start, f.name)[s] for f in fields(State)))
        own_rise = rise[s] if rise_given else None
        expected_judgement(
            one, fit[s], WtW[s], HHt[s], ratio[s], norm2, own_rise, eps=eps, **limits
        )
        judged.append((one.taken_back, bool(one.active)))
        for f in fields(State):
            rounding = 1e-14 * norm2 if f.name == "objective" else 0
            np.testing.assert_allclose(
                getattr(ours, f.name)[s], getattr(one, f.name), 1e-12, rounding, err_msg=f.name
            )
    assert {(True, True), (False, True), (False, False)} <= set(judged)


def test_settling_goes_back_or_goes_on():
    F1, _, _, accepted1 = problem(4, 30)
    F2, _, _, swept2 = problem(4, 300, seed=1)
    ours = tensors(F1, F2, accepted1, swept2)
    state = State(*[None] * 9)
    state.taken_back = torch.tensor([True, False, True])
    torch_kernels.settle_(*ours, state)
    for s, back in enumerate(state.taken_back.tolist()):
        np.testing.assert_array_equal(ours[0][s], accepted1[s] if back else F1[s])
        np.testing.assert_array_equal(ours[1][s], swept2[s] if back else F2[s])
    np.testing.assert_array_equal(ours[2], ours[0])
    np.testing.assert_array_equal(ours[3], swept2)


@pytest.mark.skipif(INTERPRETED, reason="this is the run inside")
def test_triton_kernels_pass_the_same_tests():
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
