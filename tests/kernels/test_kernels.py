"""The fast kernels against their NumPy twins, and their bits against the dealing of blocks."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmfmerge import kernels
from nmfmerge.kernels import parallel, reference
from nmfmerge.kernels.blocks import BLOCK


class OneStart:
    """The fast kernels on a batch of one start, to be called as their twins are."""

    def __getattr__(self, name):
        kernel = getattr(kernels, name)

        def on_one(F, G, C, *rest):
            rest = [np.array([value]) if name != "hals_sweep_" and i == 0 else value
                    for i, value in enumerate(rest)]  # fmt: skip
            notes = kernel(F[None], G[None], C[None], *rest)
            return notes[0] if name == "gcd_largest_decrease" else tuple(note[0] for note in notes)

        return on_one


one_start = OneStart()


def problem(r, p, dtype=np.float64, seed=0, zero_component=False):
    rng = np.random.default_rng(seed)
    A = rng.random((r, r + 5))
    if zero_component:
        A[r // 2] = 0
    X = rng.random((r + 5, p))
    F = rng.random((r, p)) * (rng.random((r, p)) > 0.3)
    return F.astype(dtype), (A @ A.T).astype(dtype), (A @ X).astype(dtype)


def hals(twin, F, G, C):
    return twin.hals_sweep_(F, G, C)


def gcd(twin, F, G, C):
    return twin.gcd_sweep_(F, G, C, 1e-3 * twin.gcd_largest_decrease(F, G, C))


def mu(twin, F, G, C):
    return twin.mu_step_(F, G, C, 1e-8, 1e-30)


@pytest.fixture
def three_threads(monkeypatch):
    """Deals even the smallest work out to three threads."""
    monkeypatch.setattr(parallel, "_FLOPS_PER_THREAD", 1.0)
    monkeypatch.setattr(parallel, "_LEAST_FLOPS", 0.0)
    monkeypatch.setattr(parallel, "available_threads", lambda: 3)


SHAPES = [(1, 1), (2, 3), (3, 64), (4, 65), (5, 200), (13, 130), (17, 64)]


@pytest.mark.parametrize("kernel", [hals, gcd, mu])
@pytest.mark.parametrize(("r", "p"), SHAPES)
@pytest.mark.parametrize("zero_component", [False, True])
def test_kernel_equals_its_numpy_twin(kernel, r, p, zero_component):
    F, G, C = problem(r, p, zero_component=zero_component)
    expected = F.copy()
    expected_notes = kernel(reference, expected, G, C)
    notes = kernel(one_start, F, G, C)
    np.testing.assert_allclose(F, expected, rtol=1e-10, atol=1e-12)
    for ours, theirs in zip(notes, expected_notes, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-20)


@pytest.mark.parametrize("kernel", [hals, gcd, mu])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bits_do_not_depend_on_threads(kernel, dtype, three_threads, monkeypatch):
    shared, G, C = problem(7, 5 * BLOCK + 17, dtype)
    alone = shared.copy()
    for _ in range(3):
        notes = kernel(one_start, shared, G, C)
        with monkeypatch.context() as one:
            one.setattr(parallel, "available_threads", lambda: 1)
            notes_alone = kernel(one_start, alone, G, C)
        np.testing.assert_array_equal(shared, alone)
        for ours, theirs in zip(notes, notes_alone, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("kernel", [hals, gcd, mu])
@pytest.mark.parametrize(("r", "p"), SHAPES)
def test_the_starts_of_a_batch_do_not_depend_on_one_another(kernel, r, p, three_threads):
    """Each gets the bits that it would get alone."""
    starts = [problem(r, p, seed=seed, zero_component=seed == 1) for seed in range(4)]
    F, G, C = (np.stack(arrays) for arrays in zip(*starts, strict=True))
    if kernel is mu:
        notes = kernels.mu_step_(F, G, C, np.full(4, 1e-8), 1e-30)
    else:
        notes = kernel(kernels, F, G, C)
    for i, start in enumerate(starts):
        alone = kernel(one_start, *start)
        np.testing.assert_array_equal(F[i], start[0])
        for ours, theirs in zip(notes, alone, strict=True):
            np.testing.assert_array_equal(ours[i], theirs)


@pytest.mark.parametrize("kernel", [hals, gcd, mu])
def test_float32_follows_float64(kernel):
    F, G, C = problem(9, 150)
    F32, G32, C32 = (A.astype(np.float32) for A in (F, G, C))
    kernel(one_start, F, G, C)
    kernel(one_start, F32, G32, C32)
    assert F32.dtype == np.float32
    np.testing.assert_allclose(F32, F, atol=2e-3 * F.max())


@pytest.mark.parametrize("kernel", [hals, gcd])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("r", [3, 4])
def test_a_component_without_curvature_to_speak_of_rests(kernel, dtype, r):
    """The other factor has a component so small that its inverse square overflows."""
    info = np.finfo(dtype)
    for size in (0.0, float(info.smallest_subnormal), float(info.tiny)):
        F, G, C = problem(r, 70, dtype)
        G[1], G[:, 1], C[1] = 0, 0, np.sqrt(info.tiny)
        G[1, 1] = size
        before = F.copy()
        kernel(one_start, F, G, C)
        np.testing.assert_array_equal(F[1], before[1])
        assert np.isfinite(F).all()
        assert (before != F).any()


@pytest.mark.parametrize("r", [1, 4, 7])
def test_several_sweeps_are_sweeps_one_after_another(r):
    F, G, C = problem(r, 150)
    one_by_one = F.copy()
    moved, total, decrease = one_start.hals_sweep_(F, G, C, 3)
    notes = [one_start.hals_sweep_(one_by_one, G, C) for _ in range(3)]
    np.testing.assert_array_equal(F, one_by_one)
    np.testing.assert_array_equal(moved, notes[0][0])
    np.testing.assert_array_equal(total, notes[0][1])
    assert decrease == pytest.approx(sum(note[2] for note in notes), rel=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_hals_decrease_is_that_of_the_objective_even_where_it_cancels(offset):
    """The objective of F is subtracted from one that is a billion times larger."""
    F, G, C = problem(6, 100)
    F += offset  # C follows, so that the residual stays what it was
    C += G @ np.full_like(F, offset)

    def objective(F):
        shifted = (F - offset).astype(np.longdouble)
        residual = C - G @ np.full_like(F, offset)
        return 0.5 * np.vdot(shifted, G @ shifted) - np.vdot(residual, shifted)

    before = objective(F)
    decrease = one_start.hals_sweep_(F, G, C)[2]
    assert decrease == pytest.approx(float(before - objective(F)), rel=1e-4)


def test_extrapolation_equals_its_numpy_twin():
    F, _, previous = problem(5, 130)
    ours, theirs = (F.copy(), previous.copy()), (F.copy(), previous.copy())
    kernels.extrapolate_(ours[0][None], ours[1][None], np.array([0.7]))
    reference.extrapolate_(*theirs, 0.7)
    np.testing.assert_allclose(ours[0], theirs[0], atol=1e-14)
    np.testing.assert_array_equal(ours[1], F)
    assert (ours[0] == 0).any()


NUMBERS = st.lists(st.sampled_from([0.0, 1e-9, 0.3, 0.5, 0.9, 1.0, 7.0, np.inf]), min_size=9)


@given(values=NUMBERS, rest=st.lists(st.booleans(), min_size=9), has_rise=st.booleans(),
       limit=st.sampled_from([0.0, 0.4, 10.0]))  # fmt: skip
def test_judging_steps_equals_its_numpy_twin(values, rest, has_rise, limit):
    n = min(len(values), len(rest)) // 3 * 3
    objective, weight = np.array(values[:n]), np.clip(values[:n][::-1], 0.1, 1)
    now = np.nan_to_num(np.roll(objective, 1), posinf=3.0)
    now = np.abs(now + np.resize([1e-3, -1e-3], n))  # never as before, which rounding would decide
    rise = np.resize([-1e-12, 0.0, 1e-12], n) if has_rise else None
    ours, theirs = (
        SimpleNamespace(
            objective=objective.copy(), weight=weight.copy(), bound=np.roll(weight, 2),
            last_weight=weight / 1.05, rest=np.array(rest[:n]), taken_back=np.zeros(n, dtype=bool),
        )
        for _ in range(2)
    )  # fmt: skip
    F = np.random.default_rng(n).random((2, n, 4, 9)) ** 9
    WtW, HHt = F @ F.swapaxes(2, 3)
    ratio = np.random.default_rng(1).random((n, 4))
    norm2 = 20.0
    fit = 0.5 * norm2 + 0.5 * (WtW * HHt).sum(axis=(1, 2)) - now
    arguments = fit, WtW, HHt, ratio, norm2, rise, limit, 0.05
    step, expected_step = kernels.judge_(ours, *arguments), reference.judge_(theirs, *arguments)
    np.testing.assert_array_equal(step, expected_step)
    np.testing.assert_array_equal(np.isnan(step), ours.taken_back)
    for name, expected in vars(theirs).items():
        np.testing.assert_allclose(
            getattr(ours, name), expected, rtol=1e-13, atol=1e-14, err_msg=name
        )
    rested = np.array(rest[:n])
    assert not ours.taken_back[rested].any()  # a plain step is kept whatever it did
    assert (ours.weight[ours.taken_back] < weight[ours.taken_back]).all()
    np.testing.assert_allclose(ours.objective[~ours.taken_back], now[~ours.taken_back], atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("taken_back", [[True] * 3, [False] * 3, [True, False, True]], ids=str)
def test_settling_equals_its_numpy_twin(taken_back, dtype):
    rng = np.random.default_rng(0)
    factors = [rng.random((3, 4, p)).astype(dtype) for p in (30, 70, 30, 70)]
    ours, theirs = ([F.copy() for F in factors] for _ in range(2))
    kernels.settle_(*ours, np.array(taken_back))
    reference.settle_(*theirs, np.array(taken_back))
    for F, expected in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(F, expected)
    for i, back in enumerate(taken_back):
        np.testing.assert_array_equal(ours[1][i], factors[3 if back else 1][i])
        np.testing.assert_array_equal(ours[0][i], ours[2][i])


def test_projected_gradient_steps_equal_their_numpy_twins():
    F, G, C = problem(5, 130)
    F[F < 0.3] = 0
    gradient = G @ F - C
    lengths = np.array([0.4, 0.1, 0.0, 2.0, 1.0])
    ours, theirs = np.empty((2, *F.shape)), np.empty((2, *F.shape))
    slopes = [
        twin.projected_step_(F, gradient, lengths, *out)
        for twin, out in ((kernels, ours), (reference, theirs))
    ]
    np.testing.assert_allclose(ours, theirs, atol=1e-14)
    assert slopes[0] == pytest.approx(slopes[1], rel=1e-13)
    assert slopes[0] < 0
    np.testing.assert_array_equal(ours[0][2], F[2])
    expected = reference.projected_norm(F, gradient, lengths)
    assert expected < np.sqrt(lengths @ np.sum(gradient**2, axis=1))
    assert kernels.projected_norm(F, gradient, lengths) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize(("r", "p"), [(1, 1), (3, 1023), (20, 1024), (7, 5000)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_thin_gram_is_the_gram_for_any_number_of_threads(r, p, dtype, three_threads, monkeypatch):
    F = problem(r, p, dtype)[0]
    F = np.stack([F, 2 * F])
    shared = kernels.thin_gram(F, np.empty((2, r, r), dtype))
    monkeypatch.setattr(parallel, "available_threads", lambda: 1)
    np.testing.assert_array_equal(kernels.thin_gram(F, np.empty((2, r, r), dtype)), shared)
    expected = F.astype(float) @ F.swapaxes(1, 2).astype(float)
    np.testing.assert_allclose(shared, expected, rtol=1e-12 if dtype == np.float64 else 1e-5)


def test_inner_product_sums_in_double_precision():
    F, _, C = problem(5, 3000, np.float32)
    expected = np.vdot(F.astype(float), C.astype(float))
    assert kernels.inner_product(F, C) == pytest.approx(expected, rel=1e-6)


def test_numbers_of_a_batch_are_those_of_its_starts():
    F, G, _ = (
        np.stack(arrays) for arrays in zip(*(problem(5, 90, seed=s) for s in range(3)), strict=True)
    )
    signed = F - 0.4
    np.testing.assert_allclose(
        kernels.inner_products(F, signed),
        [np.vdot(a, b) for a, b in zip(F, signed, strict=True)],
        rtol=1e-13,
    )
    np.testing.assert_allclose(kernels.row_products(F, signed), (F * signed).sum(axis=2))
    np.testing.assert_allclose(kernels.products(F, F[:1]), [A @ F[0].T for A in F])
    norms = kernels.part_norms(signed)
    np.testing.assert_allclose(norms[..., 0], np.linalg.norm(np.maximum(signed, 0), axis=2))
    np.testing.assert_allclose(norms[..., 1], np.linalg.norm(np.minimum(signed, 0), axis=2))
    np.testing.assert_allclose(kernels.mean_sizes(signed), np.abs(signed).mean(axis=(1, 2)))
    np.testing.assert_allclose(kernels.spread(G, F), np.std(G @ F, axis=0), rtol=1e-12)
    np.testing.assert_allclose(kernels.gram64(F.astype("f4")), F @ F.swapaxes(1, 2), rtol=1e-6)


def test_inner_products_of_columns_add_up():
    F, _, C = problem(5, 300)
    assert kernels.inner_product(F, C, 100, 250) == pytest.approx(
        np.vdot(F[:, 100:250], C[:, 100:250]), rel=1e-13
    )
    parts = [kernels.inner_product(F, C, a, a + 100) for a in (0, 100, 200)]
    assert sum(parts) == pytest.approx(kernels.inner_product(F, C), rel=1e-13)


def test_mu_flushes_denormals_to_zero():
    F, G, C = problem(3, 70)
    F[1] = 1e-310
    one_start.mu_step_(F, G, C, 1e-8, 1e-290)
    assert np.all(F[1] == 0)
    assert F[0].any()


@pytest.mark.parametrize(("r", "p"), [(1, 30), (4, 80), (12, 70), (40, 20)])
def test_nnls_equals_scipys(r, p):
    rng = np.random.default_rng(r)
    A = rng.random((r, r + 3))
    C = A @ rng.standard_normal((r + 3, p))
    F = kernels.nnls_columns(A @ A.T, C)
    np.testing.assert_allclose(F, reference.nnls_columns(A @ A.T, C), rtol=1e-7, atol=1e-8)
    assert (F == 0).any()


def test_nnls_of_an_ill_conditioned_gram_satisfies_the_optimality_conditions():
    rng = np.random.default_rng(1)
    A = np.exp(-0.5 * ((np.arange(30) - np.arange(0, 30, 2)[:, None]) / 3) ** 2)
    G = A @ A.T
    C = A @ rng.random((30, 200))
    F = kernels.nnls_columns(G, C)
    gradient = G @ F - C
    assert np.linalg.cond(G) > 1e5
    assert F.min() >= 0
    assert gradient.min() > -1e-9
    assert np.abs(gradient[F > 0]).max() < 1e-9


def test_nnls_with_dependent_and_zero_components_is_finite_and_optimal():
    rng = np.random.default_rng(2)
    A = rng.random((4, 6))
    A = np.stack([A[0], A[0], A[1], np.zeros(6), A[2], A[0] + A[1]])
    C = A @ rng.random((6, 90))
    F = kernels.nnls_columns(A @ A.T, C)
    gradient = A @ A.T @ F - C
    assert np.isfinite(F).all()
    assert F.min() >= 0
    assert gradient.min() > -1e-9
    assert np.abs(gradient * F).max() < 1e-9
