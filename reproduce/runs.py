"""Running and caching: every run is made once, in one thread, and kept in one SQLite file."""

import hashlib
import io
import json
import sqlite3
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from sklearn.decomposition import NMF
from threadpoolctl import threadpool_limits

import nmfmerge
from benchmarks.common import environment
from nmfmerge import metrics, nmf, nmf_merge
from reproduce.sets import SETS, matrix

MAX_ITER = 1_000_000


@dataclass(frozen=True)
class Run:
    """Everything that decides what one run gives.

    ``loose`` is the tolerance of NMF-Merge's initial and over-complete stages (ε₁ = ε₂).
    """

    data: str
    method: str  # "nmf", "merge" or "sklearn"
    rank: int
    extra: int = 0
    solver: str = "hals"
    init: str = "random"
    seed: int = 0
    tol: float = 1e-4
    loose: float = 0.0

    @property
    def start(self) -> tuple:
        """What runs from the same start have in common."""
        return self.data, self.rank, self.solver, self.init, self.seed

    def standard(self) -> "Run":
        """The standard NMF from the same start."""
        return replace(self, method="nmf", extra=0, loose=0.0)

    def __str__(self) -> str:
        name = f"{self.data} {self.method} {self.solver} r={self.rank} {self.init} {self.seed}"
        return f"{name} k={self.extra} ε={self.loose:g}" if self.method == "merge" else name


def pair(data: str, *, rank=None, extra=None, loose=1e-4, **start) -> tuple[Run, Run]:
    """Standard NMF and NMF-Merge from one start, at the paper's rank unless another is given."""
    known = SETS[data]
    rank = known.rank if rank is None else rank
    if extra is None:
        extra = known.extra if rank == known.rank else max(1, round(0.2 * rank))
    merge = Run(data, "merge", rank, extra, loose=loose, **start)
    return merge.standard(), merge


@cache
def code_version(solver: str) -> str:
    """Version of the package and a digest of what the solver computes in a few iterations.

    A change of the code that changes no number, to nine digits, changes no version.
    """
    if solver == "sklearn":
        return version("scikit-learn")
    digest = hashlib.sha256()
    for init in ("random", "nndsvdar"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # these few iterations do not converge
            result = nmf_merge(
                matrix("melody"), 3, solver=solver, init=init, random_state=0, max_iter=20
            )
        for F in (result.W, result.H):
            digest.update(" ".join(f"{value:.9e}" for value in F.ravel()).encode())
    return f"{nmfmerge.__version__}+{digest.hexdigest()[:8]}"


class Store:
    """All runs made so far, by their settings and the version of the code.

    A record holds the fitting error, seconds, iterations, stages, a trace of the error against time,
    and the machine it was made on; the factors are kept beside it in single precision.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: dict[Run, dict] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._base = sqlite3.connect(path, timeout=60)
        self._base.execute("PRAGMA journal_mode=WAL")
        self._base.execute(
            "CREATE TABLE IF NOT EXISTS runs "
            "(settings TEXT, code TEXT, record TEXT, W BLOB, H BLOB, PRIMARY KEY (settings, code))"
        )
        self._base.execute("CREATE TABLE IF NOT EXISTS derived (key TEXT PRIMARY KEY, arrays BLOB)")

    def __contains__(self, run: Run) -> bool:
        return self._row("1", run) is not None

    def get(self, run: Run) -> dict | None:
        """The record of a run, or None if it was not made yet."""
        if run not in self._read and (row := self._row("record", run)):
            self._read[run] = json.loads(row[0])
        return self._read.get(run)

    def factors(self, run: Run) -> tuple[np.ndarray, np.ndarray]:
        """W and H of a stored run."""
        W, H = self._row("W, H", run)
        return (
            np.frombuffer(W, np.float32).reshape(-1, run.rank),
            np.frombuffer(H, np.float32).reshape(run.rank, -1),
        )

    def put(self, run: Run, record: dict, W: np.ndarray, H: np.ndarray) -> None:
        """Keep a run."""
        blobs = [np.ascontiguousarray(F, np.float32).tobytes() for F in (W, H)]
        values = (*_key(run), json.dumps(record), *blobs)
        with self._base:
            self._base.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?)", values)

    def derived(
        self, name: str, runs: list[Run], compute: Callable[[], dict[str, np.ndarray]]
    ) -> dict[str, np.ndarray]:
        """Arrays that follow from the factors of runs, computed once and kept."""
        key = hashlib.sha256(json.dumps([name, *map(_key, runs)]).encode()).hexdigest()
        row = self._base.execute("SELECT arrays FROM derived WHERE key = ?", (key,)).fetchone()
        if row is not None:
            with np.load(io.BytesIO(row[0])) as archive:
                return dict(archive)
        arrays = compute()
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        with self._base:
            self._base.execute("INSERT INTO derived VALUES (?, ?)", (key, buffer.getvalue()))
        return arrays

    def _row(self, columns: str, run: Run) -> tuple | None:
        query = f"SELECT {columns} FROM runs WHERE settings = ? AND code = ?"
        return self._base.execute(query, _key(run)).fetchone()


def _key(run: Run) -> tuple[str, str]:
    return json.dumps(vars(run), sort_keys=True), code_version(run.solver)


def perform(runs: Iterable[Run], store: Store, jobs: int) -> None:
    """Make the runs that are not stored yet, in ``jobs`` processes, showing progress."""
    missing = [run for run in dict.fromkeys(runs) if run not in store]
    if not missing:
        return
    chains = [list(chain) for _, chain in groupby(missing, key=lambda run: run.start)]
    print(f"{len(missing)} runs to make, in {jobs} processes", file=sys.stderr)
    began, done = time.perf_counter(), 0
    clean = get_context("spawn")  # a fork would inherit the threads of BLAS
    with ProcessPoolExecutor(jobs, clean, _begin_worker, (store.path,)) as pool:
        futures = [pool.submit(_perform_chain, chain) for chain in chains]
        try:
            for future in as_completed(futures):
                count, last = future.result()
                done += count
                elapsed = time.perf_counter() - began
                print(f"[{done}/{len(missing)}] {elapsed:.0f} s  {last}", file=sys.stderr)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


_worker_store: Store


def _begin_worker(path: Path) -> None:
    global _worker_store
    warnings.simplefilter("ignore")  # whether a run converged is in its record
    threadpool_limits(1)
    _worker_store = Store(path)


def _perform_chain(chain: list[Run]) -> tuple[int, str]:
    """Make runs from one start, one after the other."""
    for run in chain:
        code_version(run.solver)  # compiles, before the clock runs
        record, W, H = _perform(run, _worker_store)
        _worker_store.put(run, record | {"environment": _environment()}, W, H)
    return len(chain), f"{run}: {record['error']:.5g} %, {record['seconds']:.3g} s"


_environment = cache(environment)


def _perform(run: Run, store: Store) -> tuple[dict, np.ndarray, np.ndarray]:
    X = matrix(run.data)
    if run.method == "sklearn":
        return _perform_sklearn(run, X)
    trace = Trace()
    options = {"solver": run.solver, "tol": run.tol, "max_iter": MAX_ITER, "callback": trace}
    start = {"init": run.init, "random_state": run.seed}
    if run.method == "nmf":
        result = nmf(X, run.rank, **options, **start)
        return _record(result, trace), result.W, result.H
    options |= {"n_extra": run.extra, "tol_intermediate": run.loose}
    if run.loose == run.tol and (standard := store.get(run.standard())):
        # The initial stage is the standard NMF: go on from its end.
        W, H = (F.astype(X.dtype) for F in store.factors(run.standard()))
        result = nmf_merge(X, run.rank, **options, init=(W, H))
        return _joined(standard, _record(result, trace)), result.W, result.H
    result = nmf_merge(X, run.rank, **options, **start)
    return _record(result, trace), result.W, result.H


class Trace:
    """A callback that asks for the fitting error at iterations in geometric progression."""

    def __init__(self) -> None:
        self.points: list[tuple[str, float, float]] = []
        self._stage, self._next = "", 1

    def __call__(self, progress) -> None:
        """Note the error of an iteration whose turn it is."""
        if progress.stage != self._stage:
            self._stage, self._next = progress.stage, 1
        if progress.iteration == self._next:
            self._next = max(self._next + 1, int(1.2 * self._next))
            self.points.append((progress.stage, progress.seconds, progress.fitting_error))


def _record(result: nmfmerge.Factorization, trace: Trace) -> dict:
    stages = [
        {"name": stage.name, "seconds": stage.seconds, "n_iter": stage.n_iter,
         "error": stage.fitting_error}
        for stage in result.stages
    ]  # fmt: skip
    ends, clock = [], 0.0
    for stage in result.stages:
        clock = stage.history.seconds[-1] if stage.history else clock + stage.seconds
        ends.append((stage.name, float(clock), stage.fitting_error))
    points = sorted([*trace.points, *ends], key=lambda point: point[1])
    return {
        "error": result.fitting_error,
        "seconds": result.seconds,
        "n_iter": result.n_iter,
        "converged": result.converged,
        "stages": stages,
        "trace": [(name, round(seconds, 6), error) for name, seconds, error in points],
    }


def _joined(standard: dict, merge: dict) -> dict:
    """The record of NMF-Merge whose initial stage is a standard run made before."""
    initial = standard["stages"][0] | {"name": "initial"}
    before = [("initial", seconds, error) for _, seconds, error in standard["trace"]]
    skipped = max(t for name, t, _ in merge["trace"] if name == "initial")
    shift = before[-1][1] - skipped
    after = [(name, t + shift, error) for name, t, error in merge["trace"] if name != "initial"]
    return merge | {
        "seconds": merge["seconds"] + shift,
        "n_iter": merge["n_iter"] - merge["stages"][0]["n_iter"] + initial["n_iter"],
        "stages": [initial, *merge["stages"][1:]],
        "trace": before + after,
    }


def _perform_sklearn(run: Run, X) -> tuple[dict, np.ndarray, np.ndarray]:
    init = None if run.init == "default" else run.init
    model = NMF(run.rank, init=init, tol=run.tol, max_iter=MAX_ITER, random_state=run.seed)
    began = time.perf_counter()
    W = model.fit_transform(X)
    seconds = time.perf_counter() - began
    record = {
        "error": metrics.fitting_error(X, W, model.components_),
        "seconds": seconds,
        "n_iter": int(model.n_iter_),
        "converged": model.n_iter_ < MAX_ITER,
        "stages": [],
        "trace": [],
    }
    return record, W, model.components_
