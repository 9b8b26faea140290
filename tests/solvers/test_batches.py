"""A start ends the same in a batch as alone: status, iterations and error."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_info

from nmfmerge import Status, datasets, nmf_merge
from nmfmerge.losses import FROBENIUS, Problem
from nmfmerge.matrices import dense, wrap
from nmfmerge.method.init import INITS
from nmfmerge.solvers import SOLVERS, Batch, Limits, Loop

KINDS = {"dense": np.asarray, "csr": sp.csr_array}


@cache
def some_data(kind, dtype):
    X = datasets.lcms_like(24, 32, 4, random_state=3).X
    return wrap(KINDS[kind](np.where(X > 0.002, X, 0).astype(dtype)))


@cache
def some_starts(data, r):
    """NNDSVD, random starts, and one that is a solution."""
    rng = np.random.default_rng(0)
    starts = [INITS[init](data, r, rng) for init in ("nndsvd", "random", "random", "random")]
    solved = iterate("hals", data, starts[1:2], tol=1e-6, max_iter=20_000)
    return [*starts, (solved.batch.Wt[0], solved.batch.H[0])]


def errors_of(data, batch):
    """Fitting errors of all starts, without cancellation."""
    pairs = zip(batch.Wt, batch.H, strict=True)
    return [100 * data.residual_norm2(Wt, H) / data.norm2 for Wt, H in pairs]


def iterate(solver, data, starts, tol, max_iter=3000, before=None):
    Wt, H = (np.stack(side) for side in zip(*starts, strict=True))
    limits = Limits(max_iter=max_iter)
    batch = Batch(Problem(data, FROBENIUS), Wt, H)
    loop = Loop(SOLVERS[solver], batch, stage="final", tol=tol, limits=limits, before=before)
    loop.run()
    return loop


def assert_ends_as_alone(solver, data, starts, tol, max_iter, rtol):
    together = iterate(solver, data, starts, tol, max_iter)
    outcomes, errors = together.outcomes(), errors_of(data, together.batch)
    for i, start in enumerate(starts):
        alone = iterate(solver, data, [start], tol, max_iter)
        (outcome,) = alone.outcomes()
        assert (outcomes[i].status, outcomes[i].n_iter) == (outcome.status, outcome.n_iter)
        assert errors[i] == pytest.approx(errors_of(data, alone.batch)[0], rel=rtol)
        np.testing.assert_allclose(outcomes[i].history.step[:5], outcome.history.step[:5], rtol=0.1)
    return outcomes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_starts_leave_the_batch_one_by_one_and_end_as_alone(solver, kind):
    data = some_data(kind, np.float64)
    starts = some_starts(data, 4)
    outcomes = assert_ends_as_alone(solver, data, starts, 1e-3, 10_000, rtol=1e-9)
    assert {outcome.status for outcome in outcomes} == {Status.CONVERGED}
    assert len({outcome.n_iter for outcome in outcomes}) >= 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_in_single_precision_too(solver, kind):
    """Sums are rounded in another order beside other starts, and iterates part a little."""
    data = some_data(kind, np.float32)
    starts = some_starts(data, 4)
    assert_ends_as_alone(solver, data, starts, 3e-2, 10_000, rtol=1e-4)


@pytest.mark.parametrize("solver", SOLVERS)
def test_some_reach_their_limit_of_iterations_and_go_on_later(solver):
    data = some_data("dense", np.float64)
    starts = some_starts(data, 4)
    counts = [outcome.n_iter for outcome in iterate(solver, data, starts, 1e-3).outcomes()]
    limit = sorted(counts)[2]
    outcomes = assert_ends_as_alone(solver, data, starts, 1e-3, limit, rtol=1e-9)
    for outcome, count in zip(outcomes, counts, strict=True):
        assert outcome.n_iter == min(count, limit)
        assert outcome.status is (Status.CONVERGED if count <= limit else Status.MAX_ITER)
    whole = iterate(solver, data, starts, 1e-3)
    first = iterate(solver, data, starts, 1e-3, limit)
    ended = list(zip(first.batch.Wt, first.batch.H, strict=True))
    last = iterate(solver, data, ended, 1e-3, before=first.state())
    assert [outcome.n_iter for outcome in last.outcomes()] == counts
    np.testing.assert_allclose(errors_of(data, last.batch), errors_of(data, whole.batch), rtol=1e-9)
    if SOLVERS[solver].warm_up is None:  # else limits part the batch, and sums are rounded anew
        np.testing.assert_array_equal(last.batch.Wt, whole.batch.Wt)
        np.testing.assert_array_equal(last.batch.H, whole.batch.H)


def test_a_start_that_converges_in_the_warm_up_is_done():
    data = some_data("dense", np.float64)
    first, *_, last, solved = some_starts(data, 4)
    starts = [first, solved, last]
    outcomes = assert_ends_as_alone("accelerated", data, starts, 1e-4, 10_000, rtol=1e-9)
    assert outcomes[1].n_iter == 1
    assert min(outcomes[0].n_iter, outcomes[2].n_iter) > 20


@pytest.mark.parametrize("tol", [0.5, 0.05, 1e-2])
def test_all_converge_in_the_warm_up(tol):
    data = some_data("dense", np.float64)
    starts = some_starts(data, 4)
    plain = iterate("hals", data, starts, tol)
    fast = iterate("accelerated", data, starts, tol)
    np.testing.assert_array_equal(fast.batch.Wt, plain.batch.Wt)
    for a, b in zip(fast.outcomes(), plain.outcomes(), strict=True):
        assert (a.status, a.n_iter) == (b.status, b.n_iter)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_order_of_the_starts_changes_nothing(solver):
    data = some_data("dense", np.float64)
    starts = some_starts(data, 4)
    forth = iterate(solver, data, starts, 1e-3)
    back = iterate(solver, data, starts[::-1], 1e-3)
    assert [o.n_iter for o in forth.outcomes()] == [o.n_iter for o in back.outcomes()][::-1]
    errors = errors_of(data, forth.batch)
    np.testing.assert_allclose(errors, errors_of(data, back.batch)[::-1], rtol=1e-9)


def test_the_same_start_thrice_is_the_same_to_rounding():
    data = some_data("dense", np.float64)
    start = some_starts(data, 4)[1]
    for solver in SOLVERS:
        loop = iterate(solver, data, [start] * 3, 1e-3)
        for F in (loop.batch.Wt, loop.batch.H):
            np.testing.assert_allclose(F[1], F[0], rtol=1e-6, atol=1e-12)


def test_blas_has_one_thread_wherever_ours_share_a_product(monkeypatch, single_operations):
    """Also in the over-complete stage, whose products are larger than those of the others."""
    shared, share = [], dense.share

    def noted(part, n):
        blas = [library for library in threadpool_info() if library["user_api"] == "blas"]
        shared.append((n, [library["num_threads"] for library in blas]))
        return share(part, n)

    monkeypatch.setattr("nmfmerge.matrices.dense.share", noted)
    X = np.random.default_rng(0).random((300, 700))
    nmf_merge(X, 20, n_init=2, n_extra=15, tol=1e-1, tol_intermediate=1e-1)
    assert max(n for n, _ in shared) > 1
    assert all(count == 1 for _, counts in shared for count in counts)
