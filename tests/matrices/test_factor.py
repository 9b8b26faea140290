"""Long factors do what arrays do, in as few passes over X as can be."""

import gc

import dask.array as da
import numpy as np
import pytest
from scipy.sparse.linalg import svds

from nmfmerge.backends import numba as kernels
from nmfmerge.backends import shards as on_dask
from nmfmerge.matrices import DenseData
from nmfmerge.matrices.dask import matrix as module
from nmfmerge.matrices.dask.opening import open_dask
from nmfmerge.matrices.svd import right_singular_vectors

pytestmark = pytest.mark.usefixtures("_spans")
M, N, R, STARTS = 60, 9, 4, 3


@pytest.fixture(params=["rows", "columns"])
def case(request, rng):
    """Long and short factors of X in shards, and the same as arrays."""
    A = rng.random((M, N))
    by_columns = request.param == "columns"
    X = da.from_array(A.T, chunks=(N, 17)) if by_columns else da.from_array(A, chunks=(17, N))
    data = open_dask(X)
    F, S = rng.random((STARTS, R, M)) - 0.4, rng.random((STARTS, R, N))
    return data, data.place(F, data.long), F, S, A / data.unit**2


def found(data, long):
    """A long factor as an array: its products with unit vectors that are as long."""
    unit = data.place(np.eye(M)[None], data.long)
    return np.stack([rows.products(unit[0]) for rows in long])


def other(data):
    return "H" if data.long == "W" else "W"


def test_a_factor_comes_back_as_it_was_placed(case):
    data, long, F, *_ = case
    np.testing.assert_array_equal(found(data, long), F)
    np.testing.assert_array_equal(found(data, long[1:]), F[1:])
    np.testing.assert_array_equal(found(data, long[[2, 0]]), F[[2, 0]])


def test_cross_products(case):
    data, long, F, S, A = case
    np.testing.assert_allclose(data.cross(other(data), long), F @ A)
    deferred = data.cross(data.long, S)
    np.testing.assert_allclose(found(data, deferred), S @ A.T)


def test_products_of_a_mixture_follow_without_a_pass(case, rng):
    data, long, F, _, A = case
    data.cross(other(data), long)
    passes, mixing = data.passes, rng.random((STARTS, 2, R))
    mixed = on_dask.mix(mixing, long)
    np.testing.assert_allclose(data.cross(other(data), mixed), mixing @ F @ A)
    np.testing.assert_allclose(on_dask.gram64(mixed), kernels.gram64(mixing @ F))
    assert data.passes == passes


@pytest.mark.parametrize("n_sweeps", [1, 4])
def test_a_sweep_is_one_pass_and_brings_its_products(case, n_sweeps):
    data, long, F, S, A = case
    F = np.abs(F)
    long = data.place(F.copy(), data.long)
    G, C = S @ S.swapaxes(1, 2), np.ascontiguousarray(S @ A.T)
    expected = kernels.hals_sweep_(F, G, C, n_sweeps)
    passes = data.passes
    sweep = on_dask.hals_sweep_(long, G, data.cross(data.long, S), n_sweeps)
    for ours, theirs in zip(sweep, expected, strict=False):
        np.testing.assert_allclose(ours, theirs)
    np.testing.assert_allclose(on_dask.fit_noted(sweep), kernels.inner_products(F, C))
    np.testing.assert_allclose(data.cross(other(data), long), F @ A)
    np.testing.assert_allclose(on_dask.gram64(long), kernels.gram64(F))
    assert data.passes == passes + 1
    np.testing.assert_allclose(found(data, long), F)


@pytest.mark.parametrize("as_foreseen", [True, False])
def test_extrapolation_that_was_foreseen_costs_no_pass(case, as_foreseen):
    data, _, F, S, A = case
    F = np.abs(F)
    long = data.place(F.copy(), data.long)
    G, C = S @ S.swapaxes(1, 2), np.ascontiguousarray(S @ A.T)
    weights = np.array([0.0, 0.5, 0.9])
    previous, before = long.copy(), F.copy()
    on_dask.foresee_(long, weights if as_foreseen else weights / 2, True)
    on_dask.hals_sweep_(long, G, data.cross(data.long, S), 1)
    passes = data.passes
    on_dask.extrapolate_(long, previous, weights)
    kernels.hals_sweep_(F, G, C, 1)
    swept = F.copy()
    kernels.extrapolate_(F, before, weights)
    np.testing.assert_allclose(data.cross(other(data), long), F @ A)
    np.testing.assert_allclose(on_dask.gram64(long), kernels.gram64(F))
    assert (data.passes == passes) == as_foreseen
    np.testing.assert_allclose(found(data, previous), swept)
    np.testing.assert_allclose(found(data, long), F)
    if as_foreseen:
        rise = on_dask.rise(long, None, None, None)
        np.testing.assert_allclose(rise, kernels.rise(F, G, C, swept), atol=1e-12)


def test_parts_that_nobody_needs_are_dropped(case):
    data, long, *_ = case
    shards = data.executor._shards
    on_dask.gram64(long)
    kept = [len(block.rows) for shard in shards for block in shard._blocks]
    assert min(kept) == STARTS
    del long
    mine = data.place(np.ones((1, R, M)), data.long)
    case[1].rows.clear()
    on_dask.gram64(mine)
    assert {len(block.rows) for shard in shards for block in shard._blocks} == {1}


def test_a_chain_of_extrapolations_keeps_only_its_last_parts(case):
    data, long, _, S, _ = case
    long, previous = on_dask.scaled_positive(long, np.ones((STARTS, R))), long.copy()
    G, weights = S @ S.swapaxes(1, 2), np.full(STARTS, 0.5)
    gc.disable()  # nothing may wait for it
    try:
        for _ in range(10):
            on_dask.foresee_(long, weights, True)
            on_dask.hals_sweep_(long, G, data.cross(data.long, S), 1)
            on_dask.extrapolate_(long, previous, weights)
    finally:
        gc.enable()
    kept = [len(block.rows) for shard in data.executor._shards for block in shard._blocks]
    assert max(kept) <= 4 * STARTS


@pytest.mark.parametrize("gram_side", [2000, 5])
def test_singular_vectors_are_those_of_the_array(case, monkeypatch, gram_side):
    data, *_, A = case
    monkeypatch.setattr(module, "_GRAM_SIDE", gram_side)
    svd = data.svd(3)
    X = A.T if data.long == "H" else A
    reference = DenseData(X).svd(3)
    np.testing.assert_allclose(svd.s, reference.s, rtol=1e-4)
    long, short = (svd.Ut, svd.Vt) if data.long == "W" else (svd.Vt, svd.Ut)
    expected = (reference.Ut, reference.Vt) if data.long == "W" else (reference.Vt, reference.Ut)
    np.testing.assert_allclose(found(data, long[None])[0], expected[0], atol=0.02)
    np.testing.assert_allclose(short, expected[1], atol=0.02)


def test_small_singular_values_are_not_the_rounding_of_the_gram(rng):
    """Below that rounding a value is that of X along a direction close to it: never too large."""
    U, V = (np.linalg.qr(rng.random((length, 4)))[0] for length in (80, 12))
    X = 1 + U @ np.diag([1e-2, 1e-5, 1e-8, 1e-13]) @ V.T
    expected = np.linalg.svd(X)[1]
    data = open_dask(da.from_array(X, chunks=(30, 12)))
    svd = data.svd(6)
    rounding = np.finfo(float).eps * (expected[0] / expected[2]) ** 2  # of the third vector
    np.testing.assert_allclose(svd.s[:3] * data.unit**2, expected[:3], rtol=rounding**2)
    by_gram = np.sqrt(np.abs(np.linalg.eigvalsh(X.T @ X)[::-1]))
    assert by_gram[3] > 10 * expected[3]
    assert 0.01 * expected[3] < svd.s[3] * data.unit**2 < (1 + 1e-6) * expected[3]
    assert svd.rank(data.shape) == DenseData(X / data.unit**2).svd(6).rank(data.shape)


def test_right_singular_vectors_take_few_products(rng):
    A = rng.random((200, 120)) ** 8 @ np.diag(1 / np.arange(1, 121))
    products = []

    def multiply(rows):
        products.append(len(rows))
        return rows @ A.T @ A

    V = right_singular_vectors(multiply, 120, np.dtype(float), 5, tolerance=1e-3)
    expected = svds(A, 5)[1][::-1]
    np.testing.assert_allclose(np.linalg.norm(V @ A.T, axis=1), expected, rtol=1e-5)
    np.testing.assert_allclose(V @ V.T, np.eye(5), atol=1e-10)
    assert len(products) <= 8
