"""Speed on a CPU: per iteration, to equal error, sparse, scaling, merge, memory, first call."""

import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import NMF
from sklearn.decomposition._nmf import _update_coordinate_descent
from threadpoolctl import threadpool_limits

from benchmarks.common import (
    dense_sets,
    fastest,
    geometric_mean,
    more_sets,
    run_parts,
    sparse_sets,
)
from nmfmerge import merge_components, nmf, nmf_merge
from nmfmerge.backends.numba import one_blas_thread
from nmfmerge.losses import FROBENIUS, Problem
from nmfmerge.matrices import wrap
from nmfmerge.method.init import INITS
from nmfmerge.solvers import HALS, Batch

STARTS = 3


def main(*names):
    """Run all parts, or those named, print them, and store each by the number of cores."""
    warnings.simplefilter("ignore")
    parts = (per_iteration, threads, to_equal_error, merge_pipeline, merge_alone, single_precision,
             memory, first_call, sparse, scaling)  # fmt: skip
    run_parts(parts, names, f"cpu-{os.cpu_count()}-cores")


def per_iteration():
    """One iteration of HALS beside its floor, the four BLAS products, and scikit-learn's."""
    sets = [*dense_sets(), ("20000 × 5000", _random_dense(20_000, 5000), 50)]
    return [_per_iteration(name, X, r) for name, X, r in sets]


def _random_dense(m, n, dtype=np.float64):
    return np.random.default_rng(0).random((m, n), dtype=dtype)


def _per_iteration(name, X, r):
    m, n = X.shape
    data = wrap(X)
    Wt, H = INITS["random"](data, r, np.random.default_rng(0))
    batch, fast_batch = _batch(data, Wt, H), _batch(data, Wt, H)
    solver, fast = HALS(batch), _FourSweeps(fast_batch)
    G, C_W, C_H = np.empty((r, r), X.dtype), np.empty_like(Wt), np.empty_like(H)
    W_sk, Ht_sk = Wt.T.copy(), H.T.copy()

    def floor():
        np.dot(H, H.T, out=G)
        np.dot(H, X.T, out=C_W)
        np.dot(Wt, Wt.T, out=G)
        np.dot(Wt, X, out=C_H)

    def scikit_learn():
        rng = np.random.RandomState(0)
        _update_coordinate_descent(X, W_sk, Ht_sk, 0, 0, False, rng)
        _update_coordinate_descent(X.T, Ht_sk, W_sk, 0, 0, False, rng)

    best = fastest(
        {
            "floor": floor,
            "hals": lambda: solver.passes(batch, 0.0, _PASSES),
            "four sweeps": lambda: fast.passes(fast_batch, 0.0, _PASSES),
            "scikit-learn": scikit_learn,
        },
        repeats=8 if X.size < 1e7 else 3,
        contexts=dict.fromkeys(("floor", "hals", "four sweeps", "scikit-learn"), _one_thread),
    )
    passes = _passes_in_a_row(data, r)
    best["hals"] /= passes
    best["four sweeps"] /= passes
    return {
        "data": name,
        "m": m,
        "n": n,
        "r": r,
        "floor (ms)": 1e3 * best["floor"],
        "HALS / floor": best["hals"] / best["floor"],
        "four sweeps / floor": best["four sweeps"] / best["floor"],
        "scikit-learn / floor": best["scikit-learn"] / best["floor"],
    }


def _batch(data, Wt, H):
    """A batch of one start, with factors of its own."""
    return Batch(Problem(data, FROBENIUS), Wt[None].copy(), H[None].copy())


class _FourSweeps(HALS):
    """As the accelerated solver does it: four sweeps a cross product."""

    n_sweeps = 4


_PASSES = 20


def _passes_in_a_row(data, r):
    """How many passes of `_PASSES` are done in one call."""
    return 1 if data.for_passes(r) is None else _PASSES


def _one_thread():
    return threadpool_limits(1, user_api="blas")


def threads():
    """The gain from all cores by default: an iteration and a whole fit, against one thread."""
    return [_threads(name, X, r) for name, X, r in [*dense_sets(), *more_sets(), *sparse_sets()]]


def _threads(name, X, r):
    data = wrap(X)
    Wt, H = INITS["random"](data, r, np.random.default_rng(0))
    out_W, out_H, G = np.empty_like(Wt), np.empty_like(H), np.empty((r, r), data.dtype)

    def floor():
        data.HXt(H, out=out_W)
        data.WtX(Wt, out=out_H)
        if not sp.issparse(X):
            np.dot(H, H.T, out=G)
            np.dot(Wt, Wt.T, out=G)

    with _one_thread():
        batches = [_batch(wrap(X), Wt, H)]
    batches.append(_batch(data, Wt, H))
    solvers = [HALS(batch) for batch in batches]
    iteration = fastest(
        {
            "floor": floor,
            "one": lambda: solvers[0].passes(batches[0], 0.0, _PASSES),
            "usual": lambda: solvers[1].passes(batches[1], 0.0, _PASSES),
        },
        contexts={"one": _one_thread, "usual": one_blas_thread},
    )
    passes = _passes_in_a_row(data, r)
    iteration |= {name: iteration[name] / passes for name in ("one", "usual")}
    whole = fastest(
        {name: lambda: nmf_merge(X, r, n_init=1) for name in ("one", "usual")},
        repeats=2,
        seconds=0.3,
        contexts={"one": _one_thread},
    )
    return {
        "data": name,
        "r": r,
        "iteration, one thread (ms)": 1e3 * iteration["one"],
        "iteration (ms)": 1e3 * iteration["usual"],
        "floor (ms)": 1e3 * iteration["floor"],
        "iteration / floor": iteration["usual"] / iteration["floor"],
        "nmf_merge, one thread (s)": whole["one"],
        "nmf_merge (s)": whole["usual"],
        "nmf_merge / one thread": whole["usual"] / whole["one"],
    }


def to_equal_error():
    """Time to the error that HALS stops at, ε = 1e-4, against scikit-learn's same iterates."""
    rows = []
    for name, X, r in dense_sets():
        seeds = range(STARTS if X.size < 5e5 else 1)
        starts = [("nndsvd", 0), *(("random", seed) for seed in seeds)]
        rows += [_to_equal_error(name, X, r, init, seed) for init, seed in starts]
    by_data = {}
    for row in rows:
        if row["reached"]:
            by_data.setdefault(row["data"], []).append(row["times faster"])
    means = {name: geometric_mean(ratios) for name, ratios in by_data.items()}
    rows += [{"data": f"{name}, geometric mean", "times faster": m} for name, m in means.items()]
    overall = geometric_mean(means.values())
    return [*rows, {"data": "geometric mean of the data sets", "times faster": overall}]


def _to_equal_error(name, X, r, init, seed, repeats=3):
    data = wrap(X)
    Wt, H = INITS[init](data, r, np.random.default_rng(seed))
    W0 = np.ascontiguousarray(Wt.T)
    hals = nmf(X, r, solver="hals", init=(W0, H))
    peer_seconds, peer_error = _scikit_learn(X, W0, H, hals.n_iter)
    target = peer_error * (1 + 1e-6)
    n_iter = _iterations_to(target, X, (W0, H))
    seconds = []
    for _ in range(repeats):
        ours = _accelerated(X, (W0, H), n_iter)
        seconds.append(ours.seconds)
        again, _ = _scikit_learn(X, W0, H, hals.n_iter) if peer_seconds < 5 else (peer_seconds, 0)
        peer_seconds = min(peer_seconds, again)
    return {
        "data": name,
        "start": init if init == "nndsvd" else f"random {seed}",
        "HALS iterations": hals.n_iter,
        "error (%)": peer_error,
        "scikit-learn (s)": peer_seconds,
        "HALS (s)": hals.seconds,
        "accelerated (s)": min(seconds),
        "reached": ours.fitting_error <= target,
        "times faster": peer_seconds / min(seconds),
    }


def _iterations_to(target, X, factors):
    """The fewest iterations of the accelerated solver that lead to a fitting error.

    A callback only looks now and then: it gives a bound, below which is searched by halves, as the
    error falls with every iteration.
    """
    found = nmf(
        X, len(factors[1]), init=factors, tol=1e-7, max_iter=20_000,
        callback=lambda progress: progress.fitting_error <= target,
    )  # fmt: skip
    too_few, enough = 0, found.n_iter
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if _accelerated(X, factors, middle).fitting_error <= target:
            enough = middle
        else:
            too_few = middle
    return enough


def _accelerated(X, factors, n_iter):
    """So many iterations of the accelerated solver, which is not watched meanwhile."""
    return nmf(X, len(factors[1]), init=factors, tol=1e-7, max_iter=n_iter)


def _scikit_learn(X, W0, H0, iterations):
    """Seconds and fitting error of scikit-learn's coordinate descent after so many iterations."""
    model = NMF(len(H0), init="custom", solver="cd", tol=0, max_iter=iterations)
    W, H = np.ascontiguousarray(W0).copy(), np.ascontiguousarray(H0).copy()
    began = time.perf_counter()
    W = model.fit_transform(X, W=W, H=H)
    seconds = time.perf_counter() - began
    Wt, H = np.ascontiguousarray(W.T), np.ascontiguousarray(model.components_)
    data = wrap(X)
    return seconds, 100 * data.residual_norm2(Wt, H) / data.norm2


def merge_pipeline():
    """`nmf_merge` from one start, NNDSVD, against plain HALS from the same start."""
    rows = []
    for name, X, r in dense_sets():
        contenders = {"hals": [], "merge": []}
        for _ in range(5 if X.size < 5e5 else 1):
            contenders["hals"].append(nmf(X, r, solver="hals"))
            contenders["merge"].append(nmf_merge(X, r, n_init=1))
        seconds = {key: min(run.seconds for run in runs) for key, runs in contenders.items()}
        rows.append(
            {
                "data": name,
                "HALS error (%)": contenders["hals"][0].fitting_error,
                "NMF-Merge error (%)": contenders["merge"][0].fitting_error,
                "HALS (s)": seconds["hals"],
                "NMF-Merge (s)": seconds["merge"],
                "NMF-Merge / HALS": seconds["merge"] / seconds["hals"],
            }
        )
    return rows


def sparse():
    """Sparse data: products against SciPy's, and time to scikit-learn's error."""
    rows = []
    for name, X, r in sparse_sets():
        for kind in ("csr", "csc"):
            rows.append(_sparse(name, X.asformat(kind), r))
    return rows or [{"data": "none: NMFMERGE_DATA is not set"}]


def _sparse(name, X, r, iterations=200):
    data = wrap(X)
    Wt, H = INITS["random"](data, r, np.random.default_rng(0))
    W, Ht = np.ascontiguousarray(Wt.T), np.ascontiguousarray(H.T)
    out_W, out_H = np.empty_like(Wt), np.empty_like(H)

    def ours():
        data.HXt(H, out=out_W)
        data.WtX(Wt, out=out_H)

    def scipys():
        X @ Ht
        X.T @ W

    best = fastest({"ours": ours, "scipy": scipys})
    peer_seconds, peer_error = _scikit_learn(X, W, H, iterations)
    target = peer_error * (1 + 1e-6)
    n_iter = _iterations_to(target, X, (W, H))
    tracemalloc.start()
    _accelerated(X, (W, H), n_iter)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    ours = _accelerated(X, (W, H), n_iter)
    stored = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    return {
        "data": f"{name} {X.format}",
        "r": r,
        "products (ms)": 1e3 * best["ours"],
        "SciPy / ours": best["scipy"] / best["ours"],
        "scikit-learn (s)": peer_seconds,
        "accelerated (s)": ours.seconds,
        "reached": ours.fitting_error <= target,
        "times faster": peer_seconds / ours.seconds,
        "extra memory / stored X": peak / stored,
    }


def scaling():
    """Seconds per iteration as m, n, r and the number of stored values grow."""
    rng = np.random.default_rng(0)
    shapes = [(1000, 1000, 10), (4000, 1000, 10), (1000, 4000, 10), (1000, 1000, 40)]
    rows = []
    for m, n, r in shapes:
        rows.append(_time_iteration(f"dense {m} × {n}", wrap(rng.random((m, n))), r))
    for density in (0.01, 0.04):
        X = sp.random(20_000, 5000, density=density, format="csr", random_state=0)
        rows.append(_time_iteration(f"sparse 20000 × 5000, {X.nnz} stored", wrap(X), 20))
    large = _large_sparse(200_000, 20_000, 500)
    rows.append(_time_iteration(f"sparse 200000 × 20000, {large.nnz} stored", wrap(large), 20))
    return rows


def _large_sparse(m, n, per_row):
    """A CSR matrix of ``per_row`` values in each row, made without a dense step."""
    rng = np.random.default_rng(0)
    stride = n // per_row
    places = rng.integers(0, stride, (m, per_row), dtype=np.int32)
    places += np.arange(0, stride * per_row, stride, dtype=np.int32)
    indptr = np.arange(0, m * per_row + 1, per_row, dtype=np.int64)
    values = rng.random(m * per_row)
    return sp.csr_array((values, places.ravel(), indptr), shape=(m, n))


def _time_iteration(name, data, r):
    batch = _batch(data, *INITS["random"](data, r, np.random.default_rng(0)))
    solver = HALS(batch)
    best = fastest({"hals": lambda: solver.iterate(batch)}, repeats=3)
    return {"data": name, "r": r, "iteration (ms)": 1e3 * best["hals"]}


def merge_alone():
    """Merging 600 to 500 components of length 100,000 each side, beside its two Grams."""
    rng = np.random.default_rng(0)
    Wt, H = rng.random((600, 100_000)), rng.random((600, 100_000))
    best = fastest(
        {
            "grams": lambda: (Wt @ Wt.T, H @ H.T),
            "merge": lambda: merge_components(Wt.T, H, 500),
        },
        repeats=10,  # allocating what is returned takes 0.1 to 0.8 s here, by chance
    )
    return [
        {
            "Grams (s)": best["grams"],
            "merge (s)": best["merge"],
            "merge / Grams": best["merge"] / best["grams"],
        }
    ]


def single_precision():
    """The cost of float32 in final error, and its gain in time."""
    rows = []
    for name, X, r in dense_sets():
        double, single = (nmf_merge(Y, r, n_init=1) for Y in (X, X.astype(np.float32)))
        rows.append(
            {
                "data": name,
                "float64 error (%)": double.fitting_error,
                "float32 error (%)": single.fitting_error,
                "float64 (s)": double.seconds,
                "float32 (s)": single.seconds,
            }
        )
    return rows


def memory():
    """Peak memory beside X, in units of W and H together (r components)."""
    rows = []
    for m, n, r in [(6000, 2000, 40), (2000, 6000, 40), (4000, 4000, 40)]:
        X = _random_dense(m, n)
        for label, function in (("nmf", nmf), ("nmf_merge", nmf_merge)):
            for order in "CF":
                X_ordered = np.asarray(X, order=order)
                tracemalloc.start()
                function(X_ordered, r, init="random", n_init=1, tol=1e-2, max_iter=60)
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                rows.append(
                    {
                        "X": f"{m} × {n}, {order} order",
                        "call": label,
                        "peak / (W + H)": peak / (8 * r * (m + n)),
                    }
                )
    return rows


def first_call():
    """The first `nmf_merge` of a process, without and with a compile cache."""
    code = (
        "import time, nmfmerge; X = nmfmerge.datasets.paper_example().X; t = time.perf_counter();"
        "nmfmerge.nmf_merge(X, 4, n_init=1); print(time.perf_counter() - t)"
    )
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        seconds = [
            float(subprocess.run([sys.executable, "-c", code], env=environment,
                                 capture_output=True, text=True, check=True).stdout)
            for _ in range(2)
        ]  # fmt: skip
    return [{"cold (s)": seconds[0], "warm cache (s)": seconds[1]}]
