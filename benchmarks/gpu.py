"""Many starts on a GPU: the paper's figure (a), an iteration and its parts, against a CPU."""

import time
import warnings

import numpy as np
import torch

from benchmarks.common import dense_sets, print_rows, run_parts
from nmfmerge import nmf, nmf_merge
from nmfmerge.data import wrap
from nmfmerge.data.on_torch import TorchData
from nmfmerge.init import INITS
from nmfmerge.kernels import on_torch
from nmfmerge.solvers import HALS, AcceleratedHALS, Point

N_STARTS = 200
DEVICE = "cuda"


def main(*names):
    """Run all parts, or those named, print them, and store each."""
    warnings.simplefilter("ignore")
    parts = (iteration, large_iteration, agreement, figure_a)
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
            point = _random_point(data, n_components, N_STARTS)
            rows.append({"data": name, "components": n_components, **_parts(point)})
    return rows


def _parts(point):
    solver = HALS(point)
    for _ in range(5):
        solver.iterate(point)
    solver = AcceleratedHALS(point)
    point.active = on_torch.numbers(point.n_starts, True, point.H)
    n = point.data.passes_at_once
    passes = lambda: solver.passes(point, 0.0, n)  # noqa: E731
    whole = min(_seconds(passes)[0] for _ in range(8)) / n
    F = {side: point.factor(side).clone() for side in ("W", "H")}
    G = {side: point.gram(side).clone() for side in ("W", "H")}
    C = {side: point.cross(side).clone() for side in ("W", "H")}

    def sweeps(n_sweeps):
        for side, other in (("W", "H"), ("H", "W")):
            on_torch.hals_sweep_(F[side], G[other], C[side], n_sweeps, point.active)

    def grams():
        for side in ("W", "H", "H"):
            point.data.gram(F[side], out=G[side])

    def cross():
        for side, other in (("W", "H"), ("H", "W")):
            point.data.cross(side, F[other], out=C[side])

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
        point = _random_point(data, 64, 1)
        H, Wt = point.H.clone(), point.Wt.clone()
        C = {side: torch.empty_like(point.factor(side)) for side in ("W", "H")}

        def cross():
            data.cross("W", H, out=C["W"])  # noqa: B023
            data.cross("H", Wt, out=C["H"])  # noqa: B023

        bare = _event_seconds(cross)
        row = {"tf32": tf32, "cross products": 1e3 * bare}
        for solver in (HALS(point), AcceleratedHALS(point)):
            point.active = None
            n = data.passes_at_once
            seconds = min(_seconds(lambda: solver.passes(point, 0.0, n))[0] for _ in range(5)) / n  # noqa: B023
            name = type(solver).__name__
            row |= {name: 1e3 * seconds, f"{name} ratio": seconds / bare}
        row["error after these"] = float(point.fitting_errors()[0])
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
        batched = nmf(X_device, r, n_init=20, keep_all=True, **options).solutions[0]
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


def _random_point(data, r, n_starts):
    host = wrap(np.ones(data.shape)) if n_starts > 1 else None
    if host is None:
        Wt, H = (torch.rand((1, r, p), device=DEVICE, dtype=torch.float32) for p in data.shape)
        return Point(data, Wt, H)
    starts = [INITS["random"](host, r, np.random.default_rng(i)) for i in range(n_starts)]
    Wt, H = (data.place(np.stack([start[side] for start in starts])) for side in (0, 1))
    return Point(data, Wt, H)


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
