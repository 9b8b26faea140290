"""What compiled kernels promise beyond `test_interface`: bits, blocks and extreme numbers."""

import gc

import numba
import numpy as np
import pytest
from numba.core import event

from nmfmerge.backends import numba as kernels
from nmfmerge.backends import reference
from nmfmerge.backends.numba import alspgrad, shares
from nmfmerge.backends.numba.blocks import BLOCK


def problem(r, p, dtype=np.float64, seed=0, zero_component=False):
    """A batch of one start."""
    rng = np.random.default_rng(seed)
    A = rng.random((r, r + 5))
    if zero_component:
        A[r // 2] = 0
    X = rng.random((r + 5, p))
    F = rng.random((r, p)) * (rng.random((r, p)) > 0.3)
    return tuple(B[None].astype(dtype) for B in (F, A @ A.T, A @ X))


def hals(twin, F, G, C):
    return twin.hals_sweep_(F, G, C)


def gcd(twin, F, G, C):
    return twin.gcd_sweep_(F, G, C, 1e-3)


def mu(twin, F, G, C):
    return twin.mu_step_(F, G, C, np.full(len(F), 1e-8), 1e-30)


@pytest.fixture
def always_share(monkeypatch, three_threads):
    """Shares even the smallest work among three threads."""
    monkeypatch.setattr(shares, "_FLOPS_PER_THREAD", 1.0)
    monkeypatch.setattr(shares, "LEAST_FLOPS", 0.0)


SHAPES = [(1, 1), (2, 3), (3, 64), (4, 65), (5, 200), (13, 130), (17, 64)]


@pytest.mark.parametrize("kernel", [hals, gcd, mu])
@pytest.mark.parametrize(("r", "p"), SHAPES)
@pytest.mark.parametrize("zero_component", [False, True])
def test_kernel_equals_its_numpy_twin(kernel, r, p, zero_component):
    F, G, C = problem(r, p, zero_component=zero_component)
    expected = F.copy()
    expected_notes = kernel(reference, expected, G, C)
    notes = kernel(kernels, F, G, C)
    np.testing.assert_allclose(F, expected, rtol=1e-10, atol=1e-12)
    for ours, theirs in zip(notes, expected_notes, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-20)


@pytest.mark.parametrize("kernel", [hals, gcd, mu])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bits_do_not_depend_on_threads(kernel, dtype, always_share, monkeypatch):
    shared, G, C = problem(7, 5 * BLOCK + 17, dtype)
    alone = shared.copy()
    for _ in range(3):
        notes = kernel(kernels, shared, G, C)
        with monkeypatch.context() as one:
            one.setattr(shares, "available_threads", lambda: 1)
            notes_alone = kernel(kernels, alone, G, C)
        np.testing.assert_array_equal(shared, alone)
        for ours, theirs in zip(notes, notes_alone, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("kernel", [hals, gcd, mu])
@pytest.mark.parametrize(("r", "p"), SHAPES)
def test_the_starts_of_a_batch_do_not_depend_on_one_another(kernel, r, p, always_share):
    """Each gets the bits that it would get alone."""
    starts = [problem(r, p, seed=seed, zero_component=seed == 1) for seed in range(4)]
    F, G, C = (np.concatenate(arrays) for arrays in zip(*starts, strict=True))
    notes = kernel(kernels, F, G, C)
    for i, start in enumerate(starts):
        alone = kernel(kernels, *start)
        np.testing.assert_array_equal(F[i], start[0][0])
        for ours, theirs in zip(notes, alone, strict=True):
            np.testing.assert_array_equal(ours[i], theirs[0])


@pytest.mark.parametrize("kernel", [hals, gcd, mu])
def test_float32_follows_float64(kernel):
    F, G, C = problem(9, 150)
    F32, G32, C32 = (A.astype(np.float32) for A in (F, G, C))
    kernel(kernels, F, G, C)
    kernel(kernels, F32, G32, C32)
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
        G[0, 1], G[0, :, 1], C[0, 1] = 0, 0, np.sqrt(info.tiny)
        G[0, 1, 1] = size
        before = F.copy()
        kernel(kernels, F, G, C)
        np.testing.assert_array_equal(F[0, 1], before[0, 1])
        assert np.isfinite(F).all()
        assert (before != F).any()


@pytest.mark.parametrize("r", [1, 4, 7])
def test_several_sweeps_are_sweeps_one_after_another(r):
    F, G, C = problem(r, 150)
    one_by_one = F.copy()
    moved, total, decrease = kernels.hals_sweep_(F, G, C, 3)
    notes = [kernels.hals_sweep_(one_by_one, G, C) for _ in range(3)]
    np.testing.assert_array_equal(F, one_by_one)
    np.testing.assert_array_equal(moved, notes[0][0])
    np.testing.assert_array_equal(total, notes[0][1])
    np.testing.assert_allclose(decrease, sum(note[2] for note in notes), rtol=1e-12)


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
    decrease = kernels.hals_sweep_(F, G, C)[2][0]
    assert decrease == pytest.approx(float(before - objective(F)), rel=1e-4)


def test_projected_gradient_steps_equal_their_numpy_twins():
    F, G, C = (A[0] for A in problem(5, 130))
    F[F < 0.3] = 0
    gradient = G @ F - C
    lengths = np.array([0.4, 0.1, 0.0, 2.0, 1.0])
    ours, theirs = np.empty((2, *F.shape)), np.empty((2, *F.shape))
    slopes = [
        twin.projected_step_(F, gradient, lengths, *out)
        for twin, out in ((alspgrad, ours), (reference, theirs))
    ]
    np.testing.assert_allclose(ours, theirs, atol=1e-14)
    assert slopes[0] == pytest.approx(slopes[1], rel=1e-13)
    assert slopes[0] < 0
    np.testing.assert_array_equal(ours[0][2], F[2])
    expected = reference.projected_norm(F, gradient, lengths)
    assert expected < np.sqrt(lengths @ np.sum(gradient**2, axis=1))
    assert alspgrad.projected_norm(F, gradient, lengths) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize(("r", "p"), [(1, 1), (3, 1023), (20, 1024), (7, 5000)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_thin_gram_is_the_gram_for_any_number_of_threads(r, p, dtype, always_share, monkeypatch):
    F = problem(r, p, dtype)[0][0]
    F = np.stack([F, 2 * F])
    shared = kernels.thin_gram(F, np.empty((2, r, r), dtype))
    monkeypatch.setattr(shares, "available_threads", lambda: 1)
    np.testing.assert_array_equal(kernels.thin_gram(F, np.empty((2, r, r), dtype)), shared)
    expected = F.astype(float) @ F.swapaxes(1, 2).astype(float)
    np.testing.assert_allclose(shared, expected, rtol=1e-12 if dtype == np.float64 else 1e-5)


def test_inner_product_sums_in_double_precision():
    F, _, C = (A[0] for A in problem(5, 3000, np.float32))
    expected = np.vdot(F.astype(float), C.astype(float))
    assert kernels.inner_product(F, C) == pytest.approx(expected, rel=1e-6)


def test_inner_products_of_columns_add_up():
    F, _, C = (A[0] for A in problem(5, 300))
    assert kernels.inner_product(F, C, 100, 250) == pytest.approx(
        np.vdot(F[:, 100:250], C[:, 100:250]), rel=1e-13
    )
    parts = [kernels.inner_product(F, C, a, a + 100) for a in (0, 100, 200)]
    assert sum(parts) == pytest.approx(kernels.inner_product(F, C), rel=1e-13)


def test_mu_flushes_denormals_to_zero():
    F, G, C = problem(3, 70)
    F[0, 1] = 1e-310
    kernels.mu_step_(F, G, C, np.array([1e-8]), 1e-290)
    assert np.all(F[0, 1] == 0)
    assert F[0, 0].any()


def one_by_one(G, C):
    return np.stack([kernels.nnls_vector(G, c) for c in C.T], axis=1)


NNLS = pytest.mark.parametrize("nnls", [kernels.nnls_columns, one_by_one])


@NNLS
@pytest.mark.parametrize(("r", "p"), [(1, 30), (4, 80), (12, 70), (40, 20)])
def test_nnls_equals_scipys(r, p, nnls):
    rng = np.random.default_rng(r)
    A = rng.random((r, r + 3))
    C = A @ rng.standard_normal((r + 3, p))
    F = nnls(A @ A.T, C)
    np.testing.assert_allclose(F, reference.nnls_columns(A @ A.T, C), rtol=1e-7, atol=1e-8)
    assert (F == 0).any()


@NNLS
def test_nnls_of_an_ill_conditioned_gram_satisfies_the_optimality_conditions(nnls):
    rng = np.random.default_rng(1)
    A = np.exp(-0.5 * ((np.arange(30) - np.arange(0, 30, 2)[:, None]) / 3) ** 2)
    G = A @ A.T
    C = A @ rng.random((30, 200))
    F = nnls(G, C)
    gradient = G @ F - C
    assert np.linalg.cond(G) > 1e5
    assert F.min() >= 0
    assert gradient.min() > -1e-9
    assert np.abs(gradient[F > 0]).max() < 1e-9


@NNLS
def test_nnls_with_dependent_and_zero_components_is_finite_and_optimal(nnls):
    rng = np.random.default_rng(2)
    A = rng.random((4, 6))
    A = np.stack([A[0], A[0], A[1], np.zeros(6), A[2], A[0] + A[1]])
    C = A @ rng.random((6, 90))
    F = nnls(A @ A.T, C)
    gradient = A @ A.T @ F - C
    assert np.isfinite(F).all()
    assert F.min() >= 0
    assert gradient.min() > -1e-9
    assert np.abs(gradient * F).max() < 1e-9


@pytest.mark.parametrize("collects", [True, False])
def test_garbage_waits_while_a_kernel_is_compiled_and_only_then(collects, monkeypatch):
    class Seen(event.Listener):
        def on_start(self, event):
            seen.append(gc.isenabled())

        on_end = on_start

    def twice(x):
        return 2 * x

    seen = []
    (gc.enable if collects else gc.disable)()
    try:
        with event.install_listener("numba:compile", Seen()):
            numba.njit(twice)(1)
            assert set(seen) == {collects}
            monkeypatch.setattr(twice, "__module__", "nmfmerge.some_kernels")
            seen.clear()
            numba.njit(twice)(1)
        assert seen[0] is False
        assert gc.isenabled() == collects
    finally:
        gc.enable()
