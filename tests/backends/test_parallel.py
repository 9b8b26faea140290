import multiprocessing
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event, get_ident

import numpy as np
import pytest
import scipy.sparse as sp
from joblib import Parallel, delayed
from threadpoolctl import threadpool_info, threadpool_limits

from nmfmerge import datasets, nmf, nmf_merge
from nmfmerge.backends import teams
from nmfmerge.backends import threads as parallel
from nmfmerge.backends.blas import BlasThreads
from nmfmerge.backends.numba import available_threads, hals_sweep_, in_threads, shares
from nmfmerge.matrices import SparseData, wrap


@pytest.fixture
def always_share(monkeypatch, three_threads):
    """Shares even the smallest work."""
    monkeypatch.setattr(shares, "_FLOPS_PER_THREAD", 1.0)
    monkeypatch.setattr(shares, "LEAST_FLOPS", 0.0)
    monkeypatch.setattr("nmfmerge.matrices.sparse._WORTH_SHARING", 0)


@pytest.mark.parametrize("solver", ["hals", "gcd", "mu", "accelerated"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_threads_do_not_change_a_bit(solver, dtype, always_share, monkeypatch):
    X = datasets.lcms_like(150, 400, 5).X.astype(dtype)
    options = {"solver": solver, "init": "random", "tol": 1e-3}
    shared = nmf(X, 5, **options)
    monkeypatch.setattr("nmfmerge.backends.threads.available_threads", lambda: 1)
    alone = nmf(X, 5, **options)
    np.testing.assert_array_equal(shared.W, alone.W)
    np.testing.assert_array_equal(shared.H, alone.H)


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array])
def test_threads_do_not_change_a_bit_of_sparse_products(kind, always_share, monkeypatch):
    X = sp.csr_array(datasets.lcms_like(90, 140, 4, noise=0.3).X)
    X.data[X.data < 0.1] = 0
    X.eliminate_zeros()
    rng = np.random.default_rng(0)
    Wt, H = rng.random((4, 90)), rng.random((4, 140))

    def products():
        data = SparseData(kind(X))
        HXt = data.HXt(H, out=np.empty((4, 90)))
        WtX = data.WtX(Wt, out=np.empty((4, 140)))
        return len(data._line_bounds) - 1, HXt, WtX, data.residual_norm2(Wt, H)

    shares, *shared = products()
    monkeypatch.setattr("nmfmerge.matrices.sparse.available_threads", lambda: 1)
    one, *alone = products()
    assert (shares, one) == (3, 1)
    for ours, theirs in zip(shared, alone, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_allclose(shared[0], H @ X.T)
    np.testing.assert_allclose(shared[1], Wt @ X)


def test_limits_of_threadpoolctl_are_respected():
    with threadpool_limits(1, user_api="blas"):
        assert available_threads() == 1


@pytest.fixture
def four_blas_threads():
    with threadpool_limits(4, user_api="blas"):
        yield BlasThreads()


def present(blas):
    return set(blas._counts())


def test_blas_has_one_thread_in_a_fit_and_gets_the_others_back(four_blas_threads):
    blas = four_blas_threads
    with blas.one():
        assert present(blas) == {1}
        assert blas.available() == 4
    assert present(blas) == {4}


def test_the_last_of_several_fits_gives_blas_its_threads_back(four_blas_threads):
    blas = four_blas_threads
    first, second = blas.one(), blas.one()
    first.__enter__()
    second.__enter__()
    assert blas.fits == 2
    first.__exit__(None, None, None)  # not the order in which they began
    assert present(blas) == {1}
    assert blas.available() == 4
    second.__exit__(None, None, None)
    assert present(blas) == {4}


def test_a_fit_that_begins_meanwhile_does_not_lower_what_is_available(four_blas_threads):
    blas = four_blas_threads
    begun, finish = Event(), Event()

    def fit():
        with blas.one():
            begun.set()
            finish.wait(10)

    def counted_late():
        del blas._counts
        pool.submit(fit)
        begun.wait(0.2)  # in vain, as it has to wait
        return blas._counts()

    with ThreadPoolExecutor(1) as pool:
        blas._counts = counted_late
        available = blas.available()
        finish.set()
    assert available == 4


def test_limits_of_blas_end_with_an_error(four_blas_threads):
    with pytest.raises(ZeroDivisionError), four_blas_threads.one():
        raise ZeroDivisionError
    assert present(four_blas_threads) == {4}


def test_blas_is_free_after_a_fit_in_a_thread_that_lives_on(four_blas_threads):
    """And before: whoever has set the threads of BLAS first does not keep others from it."""
    blas = four_blas_threads
    with ThreadPoolExecutor(1) as pool:

        def fit():
            with blas.one():
                return present(blas)

        assert pool.submit(fit).result() == {1}
        assert present(blas) == {4}
        with blas.one():
            assert present(blas) == {1}
        assert present(blas) == {4}


def test_a_child_process_is_free_of_the_limits_of_its_parent(four_blas_threads):
    blas = four_blas_threads
    with blas.one():
        blas.after_fork()
        assert present(blas) == {4}
    assert present(blas) == {4}


def test_every_blas_that_fits_call_is_held_to_one_thread(four_blas_threads):
    """Also the one of SciPy, which compiled passes call."""
    for X in (np.random.default_rng(0).random((60, 80)), sp.random_array((60, 80), density=0.2)):
        seen = []
        nmf(X, 5, init="random", callback=lambda p, seen=seen: seen.append(threadpool_info()))
        counts = [one["num_threads"] for one in seen[0] if one["user_api"] == "blas"]
        assert len(counts) >= 2
        assert set(counts) == {1}
    assert present(four_blas_threads) == {4}


def test_work_that_no_idle_thread_takes_is_done_by_who_shares_it(monkeypatch):
    """On a busy machine nobody waits for a thread that has not begun."""

    class Busy:
        def offer(self, job, n):
            offered.append(n)

    offered, done = [], []
    monkeypatch.setattr(parallel, "_pool", Busy)
    parallel.share(done.append, 5, threads=4)
    assert offered == [3]
    assert done == [0, 1, 2, 3, 4]


def test_no_more_threads_help_than_there_are_cores(always_share):
    """Two fits that share their work at once have two callers, so one helper is enough."""
    pool = parallel._pool()
    job = parallel._Job(lambda i: None, 0, lambda: None)
    with parallel.one_blas_thread(), parallel.one_blas_thread():
        before = pool.idle
        pool.offer(job, 2)
        assert before - pool.idle <= 1


@pytest.mark.parametrize(("asked", "expected"), [("2", 2), ("2,1", 2), ("", 3), ("many", 3)])
def test_a_blas_of_unknown_threads_leaves_cores_and_the_environment(monkeypatch, asked, expected):
    monkeypatch.setattr(BlasThreads, "_counts", lambda self: [])
    monkeypatch.setattr(teams, "cores", lambda: 3)
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert available_threads() == expected


def test_an_error_in_another_thread_is_raised_here(three_threads):
    here, begun = get_ident(), Event()

    def failing(first, last):
        if get_ident() == here:
            begun.wait(10)  # until the other thread has taken a part
        else:
            begun.set()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        in_threads(failing, [0, 1, 2])


def test_ctrl_c_waits_for_the_other_threads(always_share):
    """After it nobody may write to a factor any more."""
    finished, began, main = [], Event(), get_ident()

    def slow(first, last):
        if get_ident() == main:
            began.wait(10)
            raise KeyboardInterrupt
        began.set()
        time.sleep(0.2)
        finished.append(first)

    with pytest.raises(KeyboardInterrupt):
        in_threads(slow, [0, 1, 2, 3])
    assert finished


def test_ctrl_c_while_waiting_for_the_other_threads_is_kept_until_they_are_done(
    always_share, monkeypatch
):
    class Interrupted:
        """A lock whose first wait is interrupted."""

        def __init__(self, lock):
            self.lock, self.waits = lock, 0

        def acquire(self):
            self.waits += 1
            if self.waits == 1:
                raise KeyboardInterrupt
            self.lock.acquire()

        def release(self):
            self.lock.release()

    finished, told, main = [], [], get_ident()
    began = Event()

    def slow(i):
        if get_ident() == main:
            began.wait(10)
            return
        began.set()
        time.sleep(0.2)
        finished.append(i)

    job = parallel._Job(slow, 3, lambda: told.append(1))
    job._finished = Interrupted(job._finished)
    parallel._pool().offer(job, 2)
    with pytest.raises(KeyboardInterrupt):
        job.run()
    assert finished
    assert told


def fit(seed):
    return nmf(datasets.lcms_like(60, 80, 4).X, 4, init="random", random_state=seed, tol=1e-3).H


def test_many_fits_at_once_agree_with_one_by_one(always_share):
    expected = [fit(seed) for seed in range(6)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(fit, range(6)))
    for prefer in ("threads", "processes"):
        results += Parallel(n_jobs=2, prefer=prefer)(delayed(fit)(seed) for seed in range(6))
    for i, H in enumerate(results):
        np.testing.assert_allclose(H, expected[i % 6], rtol=1e-6, atol=1e-9)


def test_a_fit_beside_others_has_the_bits_of_the_fit_alone():
    """Of several sizes, which share their work in other ways."""

    def fit(seed):
        X = datasets.lcms_like(60 * (seed % 3 + 1), 200 * (seed % 3 + 1), 4, random_state=seed).X
        function = nmf if seed % 2 else nmf_merge
        return function(X, 4, random_state=seed, tol=1e-2).H

    expected = [fit(seed) for seed in range(12)]
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(fit, range(12)))
    for H, alone in zip(results, expected, strict=True):
        np.testing.assert_array_equal(H, alone)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_process_can_fit(always_share):
    expected = fit(0)  # starts the threads that the child will not have
    with multiprocessing.get_context("fork").Pool(1) as pool:
        H = pool.apply_async(fit, (0,)).get(timeout=60)
    np.testing.assert_allclose(H, expected, rtol=1e-6, atol=1e-9)


def test_shares_cover_all_blocks(always_share):
    F, G, C = np.ones((2, 3, 1000)), np.stack([np.eye(3)] * 2), np.full((2, 3, 1000), 2.0)
    moved, _, _ = hals_sweep_(F, G, C)
    assert np.all(F == 2)
    np.testing.assert_allclose(moved, 1000)


def test_kernels_work_where_no_cache_can_be_written():
    code = """
from numba.core import caching
caching.CacheImpl._locator_classes = []
from nmfmerge import datasets, nmf
from nmfmerge.backends.numba import hals_passes_
result = nmf(datasets.paper_example().X, 4, solver="hals", tol=1e-2)
print(result.n_iter, hals_passes_.stats.cache_path)
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": ""}
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert out.stdout.strip() == "11 None"


@pytest.mark.parametrize("idle", [0, 2])
@pytest.mark.parametrize("n", [0, 1, 5, 200])
def test_ranges_cover_all_parts_once(three_threads, idle, n):
    """Single parts where a thread is idle, else long ranges; never the same part twice."""
    parallel._pool().idle = idle
    done = SimpleQueue()
    parallel.share_ranges(lambda i, j: done.put(range(i, j)), n)
    ranges = sorted((done.get() for _ in range(done.qsize())), key=lambda parts: parts.start)
    assert [i for parts in ranges for i in parts] == list(range(n))
    longest = max((len(parts) for parts in ranges), default=0)
    assert longest == (min(n, 64) if idle == 0 else min(n, 1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_products_have_the_same_bits_part_by_part_and_in_one_go(three_threads, rng, dtype, order):
    data = wrap(np.asarray(rng.random((700, 1301)), dtype=dtype, order=order))
    Wt, F = rng.random((1, 30, 700)).astype(dtype), rng.random((1, 50, 9000)).astype(dtype)
    found = []
    for idle in (0, 2):
        parallel._pool().idle = idle
        found.append((data.cross("H", Wt), data.gram(F, np.empty((1, 50, 50), dtype))))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])
    np.testing.assert_allclose(found[0][0][0], Wt[0] @ data.X, rtol=1e-3)
