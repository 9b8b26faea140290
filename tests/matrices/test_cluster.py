"""Dask arrays on clusters of real processes, some of which are killed, join or leave."""

import contextlib
import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from nmfmerge import Interrupted, nmf, nmf_merge
from nmfmerge.matrices.base import DataReadError

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

import cloudpickle  # noqa: E402
from distributed.utils import get_mp_context  # noqa: E402

from nmfmerge.matrices.dask import work  # noqa: E402
from nmfmerge.matrices.dask.cluster import Cluster, placed  # noqa: E402

# Connections to processes that were killed are left open.
pytestmark = [
    pytest.mark.usefixtures("_small_spans"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
cloudpickle.register_pickle_by_value(sys.modules[__name__])
M, N, R = 1200, 30, 4


@pytest.fixture(scope="module", autouse=True)
def _quiet():
    with dask.config.set(
        {
            "logging": {"distributed": "critical"},
            "distributed.worker.memory.terminate": False,
            "distributed.worker.multiprocessing-method": "forkserver",  # workers start at once
            "distributed.comm.timeouts.connect": "10s",
        }
    ):
        # They are forked from a process that has imported what they need.
        get_mp_context().set_forkserver_preload(["distributed", "nmfmerge.matrices.dask.cluster"])
        yield


@pytest.fixture(scope="module")
def clusters():
    """The cluster that tests share, as long as it has two workers."""
    shared = [local_cluster(2, 1)]
    yield shared
    shared.pop().close()


@pytest.fixture
def client(clusters):
    with contextlib.suppress(TimeoutError), distributed.Client(clusters[0]) as connected:
        connected.wait_for_workers(2, timeout=10)
        yield connected
        return
    clusters.pop().close()
    clusters.append(local_cluster(2, 1))
    with distributed.Client(clusters[0]) as connected:
        yield connected


def local_cluster(n_workers, threads, **options):
    return distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=threads, processes=True,
        dashboard_address=":0",
        silence_logs=logging.CRITICAL, **options,
    )  # fmt: skip


@pytest.fixture
def A(rng):
    return clear(rng)


def clear(rng):
    """Data whose best factors are found in few iterations."""
    return rng.random((M, R)) ** 8 @ rng.random((R, N)) ** 8 + 0.02 * rng.random((M, N))


@pytest.fixture
def X(A):
    return da.from_array(A, chunks=(150, -1))


def fit(X, n_iter=30, solver="hals", **options):
    """A fit of a fixed number of iterations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return nmf(X, R, solver=solver, tol=0, max_iter=n_iter, **options)


def in_threads(X, shards=2, **options):
    with dask.config.set({"nmfmerge.shards": shards, "scheduler": "threads"}):
        return fit(X, **options)


def numpy(F):
    return F.compute(scheduler="sync") if hasattr(F, "compute") else F


def kill(client, which=0):
    """Kill a worker, as the operating system would."""
    pids = list(client.run(os.getpid).values())
    os.kill(pids[which], signal.SIGKILL)


def shards_by_worker(client):
    return {name: len(shards) for name, shards in client.run(_shards_here).items()}


def _shards_here():
    return list(work._shards)


# --- the same numbers everywhere


def test_same_bits_on_any_workers(client, X):
    results = [in_threads(X), _with_shards(X, 2)]
    for n_workers, threads in ((1, 2), (1, 1)):
        with local_cluster(n_workers, threads) as other, distributed.Client(other):
            results.append(_with_shards(X, 2))
    for result in results[1:]:
        np.testing.assert_array_equal(result.H, results[0].H)
        assert result.fitting_error == results[0].fitting_error


def _with_shards(X, shards, **options):
    with dask.config.set({"nmfmerge.shards": shards}):
        return fit(X, **options)


def test_same_bits_with_many_shards(client, A):
    X = da.from_array(A, chunks=(50, -1))
    np.testing.assert_array_equal(_with_shards(X, 20).H, in_threads(X, 20).H)


def test_large_messages_are_sent_by_themselves(client, rng):
    X = rng.random((120, 4000)).astype(np.float32) + 0.1
    X = da.from_array(X, chunks=(20, -1))
    np.testing.assert_array_equal(fit(X, 3).H, in_threads(X, n_iter=3).H)


@pytest.mark.parametrize("kind", ["persisted", "persisted csr", "by columns", "unknown lengths"])
def test_kinds_of_arrays(client, A, kind):
    X = da.from_array(A, chunks=(150, -1))
    if kind == "persisted":
        X = X.persist()
    elif kind == "persisted csr":
        X = X.map_blocks(sp.csr_matrix).persist()
        A = sp.csr_matrix(A)
    elif kind == "by columns":
        X, A = da.from_array(A.T.copy(), chunks=(-1, 150)), A.T.copy()
    else:
        dd = pytest.importorskip("dask.dataframe")
        pd = pytest.importorskip("pandas")
        X = dd.from_pandas(pd.DataFrame(A), npartitions=5).to_dask_array()
    result, expected = fit(X), fit(A)
    short = "W" if kind == "by columns" else "H"
    F, G = getattr(result, short), getattr(expected, short)
    np.testing.assert_allclose(F, G, rtol=0, atol=1e-12 * G.max())
    assert result.W.shape == (A.shape[0], R)
    W = result.W.compute() if hasattr(result.W, "compute") else result.W
    assert W.shape == (A.shape[0], R)


def test_chunks_that_are_still_being_computed_are_waited_for(client, X):
    def slow(block):
        time.sleep(0.3)
        return block

    result = fit(X.map_blocks(slow, dtype=X.dtype, meta=np.empty((0, 0))).persist())
    np.testing.assert_array_equal(result.H, in_threads(X).H)


def test_chunks_that_could_not_be_computed_say_why(client, X):
    def fail(block):
        raise ZeroDivisionError("by nothing")

    failed = X.map_blocks(fail, dtype=X.dtype, meta=np.empty((0, 0))).persist()
    with pytest.raises(ZeroDivisionError, match="by nothing"):
        fit(failed)


def test_persisted_chunks_that_are_lost_are_computed_again(client, X):
    def lose(progress):
        if progress.iteration == 10:
            kill(client)

    result = fit(X.persist(), callback=lose)
    assert result.fitting_error == pytest.approx(in_threads(X).fitting_error, rel=0.05)


def test_persisted_chunks_without_their_cluster(clusters, X):
    with distributed.Client(clusters[0]) as client:
        client.wait_for_workers(1, timeout=30)
        persisted = X.persist()
    with pytest.raises(DataReadError, match="in the memory of a cluster that this process is not"):
        fit(persisted)


# --- workers that are lost


def undisturbed(X):
    return nmf_merge(X, R, tol=1e-6, solver="accelerated", random_state=0)


@contextlib.contextmanager
def killing(monkeypatch, client, step, which=0):
    """Kill a worker while a step of the fit is under way; yields the names of steps so far."""
    submit, steps = Cluster._submit, []

    def submit_and_kill(self, packed, message, futures):
        steps.append([type(question).__name__ for question in message.reductions])
        roots = submit(self, packed, message, futures)
        if len(steps) == step + 1:
            kill(client, which)
        return roots

    with monkeypatch.context() as patched:
        patched.setattr(Cluster, "_submit", submit_and_kill)
        yield steps


@pytest.fixture(scope="module")
def calm(clusters):
    """A fit that nothing happened to: its objective, seconds and number of steps."""
    X = da.from_array(clear(np.random.default_rng(7)), chunks=(150, -1))
    with distributed.Client(clusters[0]) as client, pytest.MonkeyPatch.context() as patch:
        client.wait_for_workers(2, timeout=30)
        undisturbed(X)  # imports and compiles
        with killing(patch, client, -1) as steps:
            began = time.monotonic()
            result = undisturbed(X)
            return result.objective, time.monotonic() - began, len(steps)


@pytest.mark.parametrize("share", [0.0, 0.03, 0.3, 0.6, 1.0])
def test_a_worker_is_killed(client, X, calm, monkeypatch, share):
    objective, seconds, n_steps = calm
    step = min(int(share * n_steps), n_steps - 1)
    with killing(monkeypatch, client, step, which=int(10 * share) % 2) as steps:
        began = time.monotonic()
        result = undisturbed(X)
        lost = time.monotonic() - began - seconds
    assert len(steps) > step
    assert result.objective == pytest.approx(objective, rel=1e-6)
    assert lost < 30  # it did not wait for what is gone; `benchmarks dask` measures it


@pytest.mark.parametrize("weighted", [False, True])
def test_a_worker_is_killed_where_values_are_missing(client, A, rng, monkeypatch, weighted):
    weights = da.from_array(0.5 + rng.random((M, N)), chunks=(150, -1)) if weighted else None
    holes = da.from_array(np.where(rng.random((M, N)) < 0.1, np.nan, A), chunks=(150, -1))
    options = {"tol": 1e-6, "max_iter": 5000, "init": "nndsvd", "weights": weights}
    expected = nmf(holes, R, **options)
    with killing(monkeypatch, client, 40):
        assert nmf(holes, R, **options).objective == pytest.approx(expected.objective, rel=1e-5)


def test_a_worker_is_killed_before_its_result_is_fetched(client, X, calm, monkeypatch):
    """The task is done; its result is lost, and would be computed again on that worker only."""
    gathered = Cluster._gathered
    killed = []

    async def wait_and_kill(self, futures):
        if self._step == 30 and not killed:
            while any(future.status == "pending" for future in futures):
                await distributed.wait(futures)
            killed.extend((await client._run(os.getpid)).values())
            os.kill(killed[0], signal.SIGKILL)
        return await gathered(self, futures)

    monkeypatch.setattr(Cluster, "_gathered", wait_and_kill)
    assert undisturbed(X).objective == pytest.approx(calm[0], rel=1e-6)
    assert killed


def test_both_workers_are_killed(client, X, calm, monkeypatch):
    with killing(monkeypatch, client, 25, 0), killing(monkeypatch, client, 25, 1):
        result = undisturbed(X)
    assert result.objective == pytest.approx(calm[0], rel=1e-6)


def test_a_chunk_that_ends_its_worker_is_given_up(client, X, monkeypatch):
    monkeypatch.setattr("nmfmerge.matrices.dask.cluster._ATTEMPTS", 2)
    deadly = X.map_blocks(_die, dtype=X.dtype, meta=np.empty((0, 0)))
    with pytest.raises(DataReadError, match="workers were lost 2 times"):
        fit(deadly)


def _die(block, block_info=None):
    if block_info[0]["chunk-location"][0] == 3:
        os._exit(1)
    return block


def test_a_worker_retires(client, X, monkeypatch):
    monkeypatch.setattr("nmfmerge.matrices.dask.cluster._LOOK_AROUND", 0.1)
    seen = []

    def retire(progress):
        if progress.iteration == 10:
            client.retire_workers([sorted(client.nthreads())[0]])
            seen.append(time.monotonic())
        elif progress.iteration == 40:
            seen.append(shards_by_worker(client))

    result = fit(X, 50, callback=retire)
    assert list(seen[1].values()) == [2]
    assert result.fitting_error == pytest.approx(in_threads(X, n_iter=50).fitting_error, rel=0.05)


def test_a_worker_joins(X, monkeypatch):
    monkeypatch.setattr("nmfmerge.matrices.dask.cluster._LOOK_AROUND", 0.1)
    seen = {}

    def join(progress):
        if progress.iteration == 10:
            one.scale(2)
            client.wait_for_workers(2, timeout=30)
        if progress.iteration % 10 == 0:
            seen.update(shards_by_worker(client))
            return progress.iteration > 10 and sorted(seen.values()) == [2, 2]
        return False

    with (
        local_cluster(1, 1) as one,
        distributed.Client(one) as client,
        dask.config.set({"nmfmerge.shards": 4}),
    ):
        fit(X, 3000, callback=join)
    assert sorted(seen.values()) == [2, 2]


@pytest.mark.parametrize(
    ("homes", "threads", "expected"),
    [
        ([None] * 4, {"a": 1, "b": 1}, "abab"),
        ("abba", {"a": 1, "b": 1}, "abba"),
        ("aabb", {"a": 1, "b": 1}, "aabb"),
        ("aaab", {"a": 1, "b": 1}, "aabb"),
        ("aaa", {"a": 3, "b": 3}, "aaa"),
        ("aaab", {"a": 3, "b": 1, "c": 5}, "aaab"),
        ("aaaa", {"a": 2, "b": 2}, "aabb"),
        ("ax", {"a": 1, "b": 1}, "ab"),
        ("aab", {"a": 1, "b": 1}, "aab"),
        ([None] * 6, {"a": 1, "b": 2}, "babbab"),
    ],
)
def test_shards_move_only_where_that_evens_out_the_load(homes, threads, expected):
    found = placed(list(homes), threads)
    assert "".join(found) == expected
    assert placed(found, threads) == found


def test_shards_stay_where_they_are(client, X, monkeypatch):
    monkeypatch.setattr("nmfmerge.matrices.dask.cluster._LOOK_AROUND", 0.0)
    made = []
    sent = Cluster._sent_source
    monkeypatch.setattr(
        Cluster, "_sent_source", lambda self, shard, f: made.append(shard) or sent(self, shard, f)
    )
    with dask.config.set({"nmfmerge.shards": 5}):
        fit(X)
    assert sorted(made) == [0, 1, 2, 3, 4]


# --- chunks that cannot be read


class Reads:
    """Counts reads of chunks in files; a chunk may fail so many times."""

    def __init__(self, folder, chunk=None, failures=0):
        self.folder, self.chunk, self.failures = str(folder), chunk, failures

    def __call__(self, block, block_info=None):
        i = block_info[0]["chunk-location"][0]
        with open(f"{self.folder}/{i}", "ab") as file:
            file.write(b"x")
        reads = os.path.getsize(f"{self.folder}/{i}")
        broken = os.path.exists(f"{self.folder}-broken")
        if i == self.chunk and (broken or reads <= self.failures):
            raise OSError("the disk is tired")
        return block

    def over(self, X):
        return X.map_blocks(self, dtype=X.dtype, meta=np.empty((0, 0)))

    def counts(self):
        return {int(i): os.path.getsize(f"{self.folder}/{i}") for i in os.listdir(self.folder)}


def test_a_read_that_fails_once_changes_nothing(client, X, tmp_path):
    reads = Reads(tmp_path, chunk=5, failures=1)
    result = fit(reads.over(X))
    assert reads.counts() == {**dict.fromkeys(range(8), 1), 5: 2}
    np.testing.assert_array_equal(result.H, in_threads(X).H)


def test_a_chunk_that_cannot_be_read_is_named(client, X, tmp_path):
    reads = Reads(tmp_path, chunk=5, failures=10**9)
    with pytest.raises(DataReadError, match=r"chunk 5 of X .*OSError: the disk is tired"):
        fit(reads.over(X))
    assert reads.counts()[5] == 3


def test_factors_are_kept_when_a_chunk_cannot_be_read_any_more(client, X, tmp_path):
    reads = Reads(tmp_path, chunk=5)

    def lose(progress):
        if progress.iteration == 10:
            Path(f"{tmp_path}-broken").touch()
            client.run(_forget_chunks)

    with pytest.raises(DataReadError, match="chunk 5 of X") as raised:
        fit(reads.over(X), callback=lose)
    assert raised.value.factorization.H.shape == (R, N)
    assert np.isfinite(raised.value.factorization.H).all()


def _forget_chunks():
    for tenant in work._shards.values():
        tenant.shard._store._kept.clear()


class Homeless:
    """Can be sent, but not opened elsewhere."""

    def __call__(self, block):
        return block

    def __reduce__(self):
        return _open_file, ("/nowhere/at/all",)


def _open_file(path):
    raise FileNotFoundError(path)


def test_tasks_that_cannot_be_loaded_elsewhere_are_said_so(client, X):
    homeless = X.map_blocks(Homeless(), dtype=X.dtype, meta=np.empty((0, 0)))
    with pytest.raises(DataReadError, match=r"could not be loaded.*/nowhere/at/all"):
        fit(homeless)


# --- what is left behind


def test_nothing_grows_and_nothing_is_left(client, X):
    known, held = [], []

    def count(progress):
        if progress.iteration % 20 == 10:
            known.append(client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)))
            held.append(max(shards_by_worker(client).values()))

    began = time.monotonic()
    result = fit(X, 200, callback=count)
    seconds = time.monotonic() - began
    assert len(known) == 10
    assert max(known) <= 2
    assert held == [1] * 10
    assert seconds / 200 < 0.2  # a step of a tiny problem; about 0.02 s on a quiet machine
    del result
    _nothing_left(client)


def _nothing_left(client):
    deadline = time.monotonic() + 5
    while True:
        gc.collect()
        left = (
            any(shards_by_worker(client).values()),
            client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)),
            len(client.futures),
        )
        if left == (False, 0, 0):
            return
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def test_ctrl_c_keeps_factors_and_leaves_no_work_behind(client, X):
    def interrupt(progress):
        if progress.iteration == 10:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as raised:
        fit(X, callback=interrupt)
    assert raised.value.factorization.fitting_error < in_threads(X, n_iter=2).fitting_error
    del raised
    _nothing_left(client)


def test_ctrl_c_while_workers_work(client, X, tmp_path):
    def slow(block):
        time.sleep(0.1)
        return block

    reads = Reads(tmp_path)
    X = reads.over(X.map_blocks(slow, dtype=X.dtype, meta=np.empty((0, 0))))
    begun = threading.Event()

    def interrupt():
        begun.wait()
        time.sleep(0.25)
        os.kill(os.getpid(), signal.SIGINT)

    killer = threading.Thread(target=interrupt)
    killer.start()

    def begin(progress):
        if progress.iteration == 3:
            client.run(lambda: [t.shard._store._kept.clear() for t in work._shards.values()])
            begun.set()

    with pytest.raises(Interrupted) as raised:
        fit(X, 100_000, callback=begin)
    killer.join()
    assert raised.value.factorization.H.shape == (R, N)
    assert numpy(raised.value.factorization.W).shape == (M, R)
    del raised
    _nothing_left(client)


# --- clusters that cannot be used


@contextlib.contextmanager
def processes():
    """Start schedulers and workers as processes of their own; they end at the end."""
    started = []

    def start(*args, path=None):
        env = {**os.environ, "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "critical"}
        if path is not None:
            env["PYTHONPATH"] = f"{path}{os.pathsep}{env.get('PYTHONPATH', '')}"
        process = subprocess.Popen(
            [sys.executable, "-m", *args], env=env, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        started.append(process)
        return process

    try:
        yield start
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()


def start_worker(start, address, path=None):
    return start(
        "distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1",
        "--no-dashboard", path=path,
    )  # fmt: skip


@contextlib.contextmanager
def empty_cluster():
    with local_cluster(0, 1) as empty, distributed.Client(empty) as client, processes() as start:
        yield client, lambda path=None: start_worker(start, empty.scheduler_address, path)


def test_a_worker_is_gone_for_good(X, calm):
    with empty_cluster() as (client, worker):
        both = worker(), worker()
        client.wait_for_workers(2, timeout=30)
        undisturbed(X)

        def gone(progress):
            if (progress.stage, progress.iteration) == ("final", 5):
                both[0].kill()

        result = nmf_merge(X, R, tol=1e-6, solver="accelerated", random_state=0, callback=gone)
        assert both[0].wait() == -signal.SIGKILL
        assert len(client.nthreads()) == 1
    assert result.objective == pytest.approx(calm[0], rel=1e-6)


@pytest.mark.parametrize(
    ("package", "expected"),
    [
        ("raise ModuleNotFoundError(\"No module named 'nmfmerge'\")", "cannot run nmfmerge"),
        ("__version__ = '0.0.1'", "has nmfmerge 0.0.1 and this process has"),
    ],
)
def test_workers_with_another_nmfmerge_or_none(X, tmp_path, package, expected):
    (tmp_path / "nmfmerge.py").write_text(package)
    with empty_cluster() as (client, worker):
        worker(tmp_path)
        client.wait_for_workers(1, timeout=30)
        with pytest.raises(RuntimeError, match=expected):
            fit(X)
        worker()  # those that join later and cannot be used are left alone
        client.wait_for_workers(2, timeout=30)


def test_a_worker_without_nmfmerge_that_joins_is_left_alone(X, tmp_path, monkeypatch):
    monkeypatch.setattr("nmfmerge.matrices.dask.cluster._LOOK_AROUND", 0.1)
    (tmp_path / "nmfmerge.py").write_text("raise ImportError('none here')")

    def join(progress):
        if progress.iteration == 10:
            worker(tmp_path)
            client.wait_for_workers(2, timeout=30)

    with empty_cluster() as (client, worker):
        worker()
        client.wait_for_workers(1, timeout=30)
        result = _with_shards(X, 2, callback=join)
    np.testing.assert_array_equal(result.H, in_threads(X).H)


def test_a_cluster_without_workers(X, monkeypatch):
    monkeypatch.setattr("nmfmerge.matrices.dask.cluster._PATIENCE", 0.5)
    with (
        local_cluster(0, 1) as empty,
        distributed.Client(empty),
        pytest.raises(DataReadError, match="no workers"),
    ):
        fit(X)


@pytest.mark.parametrize("what", ["client", "cluster"])
def test_the_client_is_closed_during_a_fit(X, what):
    with (
        dask.config.set({"scheduler": None}),  # a client that is closed twice leaves itself there
        local_cluster(1, 1) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(1, timeout=30)

        def close(progress):
            if progress.iteration == 10:
                (client if what == "client" else cluster).close()

        with pytest.raises(DataReadError, match=f"{cluster.scheduler_address} was lost") as raised:
            fit(X, callback=close)
        assert raised.value.factorization.H.shape == (R, N)


def test_the_scheduler_is_lost(X, tmp_path, monkeypatch):
    monkeypatch.setattr("nmfmerge.matrices.dask.cluster._SCHEDULER_PATIENCE", 1.0)
    found = tmp_path / "scheduler.json"
    with processes() as start:
        scheduler = start(
            "distributed.cli.dask_scheduler", "--port", "0", "--dashboard-address", ":0",
            "--scheduler-file", str(found),
        )  # fmt: skip
        with distributed.Client(scheduler_file=str(found), timeout=30) as client:
            start_worker(start, client.scheduler.address)
            client.wait_for_workers(1, timeout=30)
            died = []

            def lose(progress):
                if progress.iteration == 10:
                    scheduler.kill()
                    died.append(time.monotonic())

            with pytest.raises(DataReadError, match="scheduler") as raised:
                fit(X, callback=lose)
            assert time.monotonic() - died[0] < 10
            assert raised.value.factorization.H.shape == (R, N)
