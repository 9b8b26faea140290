"""Many starts on a GPU: the paper's figure (a), an iteration and its parts, against a CPU."""

import time
import warnings

import numpy as np
import torch

from benchmarks.common import dense_sets, print_rows, run_parts
from nmfmerge import nmf, nmf_merge
from nmfmerge.backends import torch as on_torch
from nmfmerge.losses import FROBENIUS, Problem
from nmfmerge.matrices import wrap
from nmfmerge.matrices.torch import TorchData
from nmfmerge.method.init import INITS
from nmfmerge.solvers import HALS, AcceleratedHALS, Batch

N_STARTS = 200
N_RESAMPLES = 10
DEVICE = "cuda"
KL = {"beta_loss": "kullback-leibler"}


def main(*names):
    """Run all parts, or those named, print them, and store each."""
    warnings.simplefilter("ignore")
    parts = (iteration, large_iteration, agreement, figure_a, kullback_leibler)
    run_parts(parts, names, "gpu", gpu=torch.cuda.get_device_name())


def figure_a():
    """Standard NMF and NMF-Merge from 200 random starts of each data set, float64, in seconds."""
    rows = []
    methods = {"standard": nmf, "NMF-Merge": nmf_merge}
    for name, X, r in dense_sets():
        X = torch.from_numpy(np.ascontiguousarray(X)).to(DEVICE)
        for title, method in methods.items():
            options = {"init": "random", "n_init": N_STARTS, "random_state": 0, "max_iter": 10**5}
            seconds, result = _seconds(lambda: method(X, r, **options))  # noqa: B023
            again, _ = _seconds(lambda: method(X, r, **options))  # noqa: B023
            errors = np.array([start.fitting_error for start in result.starts])
            rows.append({
                "data": name, "method": title, "seconds": min(seconds, again),
                "first call": seconds,
                "mean error": errors.mean(), "deviation": errors.std(),
                "iterations": float(np.mean([start.n_iter for start in result.starts])),
            })  # fmt: skip
            print_rows(rows[-1:])
    rows.append({"data": "all", "method": "both", "seconds": sum(row["seconds"] for row in rows)})
    rows[-1]["first call"] = sum(row["first call"] for row in rows[:-1])
    return rows


def iteration():
    """One accelerated iteration with four sweeps, 200 starts, and its parts, in milliseconds."""
    rows = []
    for name, X, r in dense_sets():
        for n_components in (r, r + max(1, round(0.2 * r))):
            data = TorchData(torch.from_numpy(np.ascontiguousarray(X)).to(DEVICE))
            batch = _random_batch(data, n_components, N_STARTS)
            rows.append({"data": name, "components": n_components, **_parts(batch)})
    return rows


def _parts(batch):
    solver = HALS(batch)
    for _ in range(5):
        solver.iterate(batch)
    solver = AcceleratedHALS(batch)
    batch.active = on_torch.numbers(batch.n_starts, True, batch.H)
    n = batch.data.iterations_per_sync
    passes = lambda: solver.passes(batch, 0.0, n)  # noqa: E731
    whole = min(_seconds(passes)[0] for _ in range(8)) / n
    F = {side: batch.factor(side).clone() for side in ("W", "H")}
    G = {side: batch.gram(side).clone() for side in ("W", "H")}
    C = {side: batch.cross(side).clone() for side in ("W", "H")}

    def sweeps(n_sweeps):
        for side, other in (("W", "H"), ("H", "W")):
            on_torch.hals_sweep_(F[side], G[other], C[side], n_sweeps, batch.active)

    def grams():
        for side in ("W", "H", "H"):
            batch.data.gram(F[side], out=G[side])

    def cross():
        for side, other in (("W", "H"), ("H", "W")):
            batch.data.cross(side, F[other], out=C[side])

    parts = {
        "sweeps": lambda: sweeps(4),
        "one sweep": lambda: sweeps(1),
        "cross products": cross,
        "Grams": grams,
    }
    return {"ms": 1e3 * whole} | {name: 1e3 * _event_seconds(part) for name, part in parts.items()}


def large_iteration():
    """One iteration on 100,000 × 20,000 dense float32, r = 64, against its bare cross products."""
    torch.manual_seed(0)
    X = torch.rand((100_000, 64), device=DEVICE) @ torch.rand((64, 20_000), device=DEVICE)
    X += 0.1 * torch.rand(X.shape, device=DEVICE)
    rows = []
    for tf32 in (False, True):
        data = TorchData(X, unit_exponent=3, tf32=tf32)
        batch = _random_batch(data, 64, 1)
        H, Wt = batch.H.clone(), batch.Wt.clone()
        C = {side: torch.empty_like(batch.factor(side)) for side in ("W", "H")}

        def cross():
            data.cross("W", H, out=C["W"])  # noqa: B023
            data.cross("H", Wt, out=C["H"])  # noqa: B023

        bare = _event_seconds(cross)
        row = {"tf32": tf32, "cross products": 1e3 * bare}
        for solver in (HALS(batch), AcceleratedHALS(batch)):
            batch.active = None
            n = data.iterations_per_sync
            seconds = min(_seconds(lambda: solver.passes(batch, 0.0, n))[0] for _ in range(5)) / n  # noqa: B023
            name = type(solver).__name__
            row |= {name: 1e3 * seconds, f"{name} ratio": seconds / bare}
        row["error after these"] = float(batch.fitting_errors()[0])
        rows.append(row)
        print_rows(rows[-1:])
    return rows


def agreement():
    """Largest difference of factors after 100 iterations: CPU and GPU, batched and alone."""
    rows = []
    for name, X, r in dense_sets():
        X_device = torch.from_numpy(np.ascontiguousarray(X)).to(DEVICE)
        options = {"tol": 0, "max_iter": 100, "init": "random", "random_state": 0}
        cpu = nmf(X, r, **options)
        alone = nmf(X_device, r, **options)
        batched = nmf(X_device, r, n_init=20, return_all=True, **options).solutions[0]
        rows.append({
            "data": name,
            "CPU and GPU": _difference(cpu, alone),
            "batched and alone": _difference(batched, alone),
        })  # fmt: skip
    return rows


def _difference(a, b):
    """Of W and H, relative to the largest entry of each component."""
    worst = 0.0
    for F, G in ((a.W.T, b.W.T), (a.H, b.H)):
        F, G = (np.asarray(A.cpu() if hasattr(A, "cpu") else A) for A in (F, G))
        size = np.abs(F).max(axis=1)
        worst = max(worst, float((np.abs(F - G).max(axis=1) / np.where(size > 0, size, 1)).max()))
    return worst


def _random_batch(data, r, n_starts):
    host = wrap(np.ones(data.shape)) if n_starts > 1 else None
    if host is None:
        Wt, H = (torch.rand((1, r, p), device=DEVICE, dtype=torch.float32) for p in data.shape)
        return Batch(Problem(data, FROBENIUS), Wt, H)
    starts = [INITS["random"](host, r, np.random.default_rng(i)) for i in range(n_starts)]
    Wt, H = (data.place(np.stack([start[side] for start in starts])) for side in (0, 1))
    return Batch(Problem(data, FROBENIUS), Wt, H)


def _seconds(function):
    torch.cuda.synchronize()
    began = time.perf_counter()
    result = function()
    torch.cuda.synchronize()
    return time.perf_counter() - began, result


def _event_seconds(function, repeats=10):
    """Least time of a call on the device."""
    for _ in range(2):
        function()
    best = np.inf
    for _ in range(repeats):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        function()
        ended.record()
        torch.cuda.synchronize()
        best = min(best, began.elapsed_time(ended) / 1e3)
    return best


def kullback_leibler():
    """Whole fits by Kullback–Leibler of Poisson counts, 96 × 2780, float32, to tol 1e-4.

    A hundred starts of one matrix as one batch, and one start of each of some resamples of it.
    """
    expected, rows = _mutation_rates(), []
    rng = np.random.default_rng(1)
    X, *resamples = (rng.poisson(expected).astype(np.float32) for _ in range(1 + N_RESAMPLES))
    for r in (5, 12, 25):
        options = {"init": "random", "tol": 1e-4, "max_iter": 10**5, **KL}
        placed = torch.from_numpy(X).to(DEVICE)
        nmf(placed, r, **{**options, "max_iter": 40, "n_init": 2})  # compiles
        for title, method in {"standard": nmf, "NMF-Merge": nmf_merge}.items():
            seconds, result = _seconds(lambda: method(placed, r, n_init=100, **options))  # noqa: B023
            each, fits = _seconds(
                lambda: [method(A, r, n_init=1, device=DEVICE, **options) for A in resamples]  # noqa: B023
            )
            errors = np.array([start.fitting_error for start in result.starts])
            rows.append({
                "r": r, "method": title, "100 starts (s)": seconds,
                "iterations": float(np.mean([start.n_iter for start in result.starts])),
                "mean error": errors.mean(), "deviation": errors.std(),
                "one resample (s)": each / len(resamples),
                "its iterations": float(np.mean([fit.n_iter for fit in fits])),
            })  # fmt: skip
            print_rows(rows[-1:])
    return rows


def _mutation_rates():
    """Expected counts of 96 types of mutations in 2780 tumours, by 25 signatures."""
    rng = np.random.default_rng(0)
    signatures = rng.dirichlet(np.full(96, 0.1), 25).T
    activities = rng.lognormal(5, 1.5, (25, 2780)) * (rng.random((25, 2780)) < 0.2)
    return signatures @ activities
