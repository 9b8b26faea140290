"""Dask arrays on two worker processes: iterations, overhead, streaming, faults, agreement."""

import os
import tempfile
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

import dask
import dask.array as da
import distributed
import numpy as np
import psutil
import scipy.sparse as sp
import zarr

from benchmarks.common import has_real_data, print_rows, run_parts
from benchmarks.dask_faults import faults
from nmfmerge import nmf, nmf_merge
from reproduce import real

RANK = 20
CHUNKS = (8, 64, 256)
SHAPES = {"dense": (200_000, 500), "csr": (500_000, 2_000)}
STORED_VALUES = 10**7
SOLVERS = {"hals": (2, 8), "accelerated": (32, 42)}  # iterations between which time is taken


def main(*names):
    """Run all parts, or those named, print them, and store each."""
    warnings.simplefilter("ignore")
    parts = [iterations, overhead, streaming, growth, factors, faults, on_paper]
    if has_real_data():
        parts.append(agreement)
    run_parts(parts, names, "dask", dask=dask.__version__)


@contextmanager
def cluster(memory_limit=0):
    """A client of two worker processes of one thread each; the scheduler is in this process."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(memory_limit=memory_limit, **options) as workers,
        distributed.Client(workers) as client,
    ):
        yield client


class Marks:
    """A callback that notes wall time and CPU time at two iterations, and stops at the second.

    What is between them is neither setting up nor the end of a fit.
    """

    def __init__(self, first, last, pids=()):
        self._at = (first, last)
        self._own = psutil.Process()
        self._workers = [psutil.Process(pid) for pid in pids]
        self._marks = []

    def __call__(self, progress):
        """Note the time, twice."""
        if progress.iteration in self._at:
            workers = sum(_cpu(process) for process in self._workers)
            self._marks.append((time.perf_counter(), workers + _cpu(self._own), workers))
        return progress.iteration == self._at[1]

    def per_iteration(self):
        """Seconds of wall, of CPU, and of CPU in the workers alone."""
        (first, last), n = self._marks, self._at[1] - self._at[0]
        return [(after - before) / n for before, after in zip(first, last, strict=True)]


def _cpu(process):
    times = process.cpu_times()
    return times.user + times.system


def _pids(client):
    return list(client.run(os.getpid).values())


def iterations(repeats=3):
    """Iterations on two workers against the package in memory on one thread, in milliseconds."""
    rows = []
    for kind in SHAPES:
        with tempfile.TemporaryDirectory() as folder, _one_thread() as memory:
            make(kind, folder)
            with cluster() as client:
                for solver in SOLVERS:
                    rows += _compared(kind, folder, solver, memory, client, repeats)
                    print_rows(rows[-len(CHUNKS) :])
    return rows


def _compared(kind, folder, solver, memory, client, repeats):
    contenders = {"in memory": lambda: memory.submit(in_memory, kind, folder, solver).result()}
    for n in CHUNKS:
        contenders[n] = partial(_on_workers, kind, folder, solver, n, client)
    least = dict.fromkeys(contenders, (np.inf, np.inf))
    for _ in range(repeats):
        for name, measure in contenders.items():  # by turns: a slow spell hits all of them
            least[name] = np.minimum(least[name], measure()[:2])
    wall, cpu = 1e3 * least["in memory"]
    return [
        {
            "data": kind, "solver": solver, "chunks": n,
            "in memory, ms": wall, "on Dask, ms": 1e3 * least[n][0],
            "wall ratio": 1e3 * least[n][0] / wall, "CPU ratio": 1e3 * least[n][1] / cpu,
        }
        for n in CHUNKS
    ]  # fmt: skip


def _fit(X, solver, marks):
    nmf(X, RANK, solver=solver, init="random", random_state=0, tol=0, callback=marks)
    return marks.per_iteration()


def in_memory(kind, folder, solver):
    """An iteration in this process, which has one thread."""
    return _fit(_whole(kind, folder), solver, Marks(*SOLVERS[solver]))


def _on_workers(kind, folder, solver, n_chunks, client):
    X = chunked(kind, folder, n_chunks)
    return _fit(X, solver, Marks(*SOLVERS[solver], _pids(client)))


@contextmanager
def _one_thread():
    """A process of its own with one thread for everything."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        pool.submit(os.getpid).result()  # it begins with these settings
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
        yield pool


def make(kind, folder):
    """Write data of a known rank to files in a folder, arrays that can be mapped."""
    rng = np.random.default_rng(0)
    m, n = SHAPES[kind]
    W, H = rng.exponential(size=(m, RANK)) ** 2, rng.exponential(size=(RANK, n)) ** 2
    if kind == "dense":
        X = np.lib.format.open_memmap(f"{folder}/X.npy", "w+", np.float64, (m, n))
        for first in range(0, m, 10_000):
            rows = slice(first, first + 10_000)
            X[rows] = W[rows] @ H + rng.exponential(size=(10_000, n))
        X.flush()
        return
    # Counts at random places, as large as a product of rank 20 makes them there.
    places = np.unique(rng.integers(m * n, size=STORED_VALUES + STORED_VALUES // 50))
    places = np.sort(rng.permutation(places)[:STORED_VALUES])
    i, j = np.divmod(places, n)
    values = np.concatenate(
        [
            1.0 + rng.poisson(np.einsum("ij,ij->i", W[i[at]], H.T[j[at]]))
            for at in np.array_split(np.arange(STORED_VALUES), 100)
        ]
    )
    X = sp.csr_array((values, (i, j)), shape=(m, n))
    for name in ("data", "indices", "indptr"):
        np.save(f"{folder}/{name}.npy", getattr(X, name))


def rows_of(kind, folder, first, last):
    """Some rows of X, read from the files."""
    if kind == "dense":
        return np.array(np.load(f"{folder}/X.npy", mmap_mode="r")[first:last])
    data, indices, indptr = (
        np.load(f"{folder}/{name}.npy", mmap_mode="r") for name in ("data", "indices", "indptr")
    )
    low, high = int(indptr[first]), int(indptr[last])
    arrays = np.array(data[low:high]), np.array(indices[low:high]), indptr[first : last + 1] - low
    return sp.csr_matrix(arrays, shape=(last - first, SHAPES[kind][1]))


@cache
def _whole(kind, folder):
    return rows_of(kind, folder, 0, SHAPES[kind][0])


def chunked(kind, folder, n_chunks):
    """X as a Dask array; its chunks are read where they are needed."""
    m, n = SHAPES[kind]
    bounds = [m * i // n_chunks for i in range(n_chunks + 1)]
    lengths = tuple(np.diff(bounds).tolist())

    def read(block_info=None):
        return rows_of(kind, folder, *block_info[None]["array-location"][0])

    meta = np.empty((0, 0)) if kind == "dense" else sp.csr_matrix((0, 0))
    return da.map_blocks(read, chunks=(lengths, (n,)), dtype=np.float64, meta=meta)


def overhead(repeats=5):
    """A tiny problem in 64 chunks: what an iteration costs beside the arithmetic."""
    rows = []
    with cluster() as client:
        X = da.random.default_rng(0).random((6_400, 40), chunks=(100, 40))
        for solver in SOLVERS:
            least = (np.inf,) * 3
            for _ in range(repeats):
                marks = Marks(100, 300, _pids(client))
                nmf(X, 4, solver=solver, init="random", random_state=0, tol=0, callback=marks)
                least = np.minimum(least, marks.per_iteration())
            rows.append({
                "solver": solver, "chunks": 64, "ms": 1e3 * least[0],
                "CPU of the workers a chunk, ms": 1e3 * least[2] / 64,
            })  # fmt: skip
    return rows


_reads = Counter()  # in a worker: how often each chunk was read


def _counted(chunk, block_id=None):
    if block_id is not None:
        _reads[block_id[0]] += 1
    return chunk


def _counts():
    return dict(_reads)


def streaming():
    """4 GB of Zarr (float32, not compressed, chunks of 20 MB) through two workers of 1 GB."""
    m, n, n_rows = 1_000_000, 1_000, 5_000
    n_iter = 6
    with tempfile.TemporaryDirectory() as folder:
        stored = zarr.create_array(
            f"{folder}/X.zarr", shape=(m, n), chunks=(n_rows, n), dtype="float32", compressors=None
        )
        rng = np.random.default_rng(0)
        for first in range(0, m, n_rows):
            stored[first : first + n_rows] = rng.random((n_rows, n), dtype=np.float32)
        with cluster("1GB") as client:
            X = da.from_zarr(f"{folder}/X.zarr").map_blocks(_counted, dtype=np.float32)
            marks = Marks(2, n_iter, _pids(client))
            began = _Passes(marks)
            nmf(X, RANK, solver="hals", init="random", random_state=0, tol=0, callback=began)
            counts = sum((Counter(part) for part in client.run(_counts).values()), Counter())
            peak = max(_peak(pid) for pid in _pids(client))
    return [
        {
            "GB": 4e-9 * m * n, "GB/s": 4e-9 * m * n / marks.per_iteration()[0],
            "peak of a worker, MB": peak / 1e6, "passes": began.passes,
            "most reads of a chunk": max(counts.values()),
            "fewest reads of a chunk": min(counts.values()), "chunks": len(counts),
        }
    ]  # fmt: skip


class _Passes:
    """A callback that also keeps the data matrix in sight, to ask for the number of passes."""

    def __init__(self, callback):
        self._callback = callback
        self._data = None

    def __call__(self, progress):
        """Look at the data matrix, once."""
        self._data = progress._point.data
        return self._callback(progress)

    @property
    def passes(self):
        """Passes over X, all in all."""
        return self._data.passes


def _peak(pid):
    """The most memory that a process ever had, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


FITS = {
    "nmf, random start": (nmf, {"init": "random"}),
    "nmf": (nmf, {}),
    "nmf_merge, 1 start": (nmf_merge, {"n_init": 1}),
    "nmf_merge, 2 starts": (nmf_merge, {"n_init": 2}),
    "nmf_merge, 4 starts": (nmf_merge, {"n_init": 4}),
}


def factors():
    """Memory that a fit takes beside X, in units of its long factor W."""
    rows = []
    for name in FITS:
        with ProcessPoolExecutor(1, get_context("spawn")) as alone:  # whose peak is of one fit
            peak, one_factor = alone.submit(_memory_of_a_fit, name).result()
        rows.append({"fit": name, "MB": peak / 1e6, "in units of m·(r + k)": peak / one_factor})
    return rows


def _memory_of_a_fit(name, m=1_000_000, n=12, r=10):
    fit, options = FITS[name]
    X = np.random.default_rng(0).random((m, n))
    chunks = da.from_array(X, chunks=(25_000, n))
    nmf_merge(chunks[: m // 50], r, tol=0.1)  # imports and compiles
    before = psutil.Process().memory_info().rss
    result = fit(chunks, r, tol=0.1, **options)
    k = 0 if result.merges is None else result.merges.n_leaves - r
    return _peak(os.getpid()) - before, 8 * m * (r + k)


def growth():
    """Tasks that the scheduler knows of after 100 and after 500 iterations."""
    known = {}
    with cluster() as client:

        def note(progress):
            if progress.iteration in (100, 500):
                known[progress.iteration] = client.run_on_scheduler(_n_tasks)
            return progress.iteration == 500

        X = da.random.default_rng(0).random((6_400, 40), chunks=(100, 40))
        nmf(X, 4, init="random", random_state=0, tol=0, callback=note)
    return [{"iterations": n, "tasks": count} for n, count in known.items()]


def _n_tasks(dask_scheduler):
    return len(dask_scheduler.tasks)


PAPER = {"rows": 10**8, "columns": 20_000, "stored": 0.05, "r": 50, "cores": 100}


def on_paper():
    """CPU time of a pass over a chunk of a large sparse problem, and what the whole would take."""
    with _one_thread() as memory:
        seconds = min(memory.submit(_seconds_of_a_chunk).result() for _ in range(2))
    chunks = PAPER["rows"] / CHUNK_ROWS / PAPER["cores"]
    return [
        {**PAPER, "rows of a chunk": CHUNK_ROWS, "seconds of a chunk": seconds,
         "chunks of a core": chunks, "seconds of an iteration": chunks * seconds}
    ]  # fmt: skip


CHUNK_ROWS = 10_000


def _seconds_of_a_chunk():
    """Of an iteration over two chunks in this thread, the CPU time of one; they stay in memory."""
    n, n_chunks = PAPER["columns"], 2
    rng = np.random.default_rng(0)
    per_row = int(PAPER["stored"] * n)
    gaps = rng.integers(1, 2 * n // per_row - 1, size=(CHUNK_ROWS, per_row), dtype=np.int32)
    places = np.cumsum(gaps, axis=1, dtype=np.int32) % n
    values = 1 + rng.poisson(2.0, places.size).astype(np.float32)
    indptr = np.arange(0, places.size + 1, per_row, dtype=np.int32)
    chunk = sp.csr_matrix((values, places.ravel(), indptr), shape=(CHUNK_ROWS, n))
    chunk.sum_duplicates()
    X = da.map_blocks(
        lambda block_id=None: chunk, chunks=((CHUNK_ROWS,) * n_chunks, (n,)),
        dtype=np.float32, meta=sp.csr_matrix((0, 0), dtype=np.float32),
    )  # fmt: skip
    marks = Marks(2, 5)
    with dask.config.set({"nmfmerge.shards": 1}):
        nmf(
            X, PAPER["r"], solver="hals", init="random", random_state=0, tol=0, callback=marks
        )  # fmt: skip
    return marks.per_iteration()[1] / n_chunks


def agreement():
    """The whole of `nmf_merge` on Dask arrays of real data, against the same in memory."""
    rows = []
    with cluster():
        for load_set in (partial(real.load_lcms, "wt15"), real.load_pbmc3k, real.load_tdt2):
            data = load_set()
            began = time.perf_counter()
            memory = nmf_merge(data.X, data.n_components)
            middle = time.perf_counter()
            on_dask = nmf_merge(_in_chunks(data.X), data.n_components)
            rows.append({
                "data": data.name, "components": data.n_components,
                "error in memory, %": memory.fitting_error,
                "relative difference": on_dask.fitting_error / memory.fitting_error - 1,
                "seconds in memory": middle - began,
                "seconds on Dask": time.perf_counter() - middle,
            })  # fmt: skip
            print(rows[-1], flush=True)
    return rows


def _in_chunks(X):
    """X in eight chunks along its longer side."""
    m, n = X.shape
    along = 0 if m >= n else 1
    size = -(-max(m, n) // 8)
    chunks = (size, n) if along == 0 else (m, size)
    if sp.issparse(X):
        X = X.tocsr() if along == 0 else X.tocsc()
        return da.from_array(X, chunks=chunks, asarray=False)
    return da.from_array(np.asarray(X), chunks=chunks)
