"""Several starts: batched or one by one, the default against scikit-learn's, a busy machine."""

import os
import subprocess
import sys
import time
import warnings

import numpy as np
from sklearn.decomposition import NMF

from benchmarks.common import print_rows, run_parts
from nmfmerge import metrics, nmf, nmf_merge
from nmfmerge.datasets import lcms_like
from reproduce.sets import REAL, SETS, matrix

N_INIT = 20
SMALL = ("mhll", "wt15", "ko15", "pf1")


def main(*names):
    """Run both parts, or those named, print them, and store each."""
    warnings.simplefilter("ignore")
    run_parts((batched, default, busy), names, "starts")


def batched(repeats=3):
    """Twenty starts at once and one by one, in seconds; the errors of both must agree."""
    rows = []
    for name in SMALL:
        X, r = matrix(name), SETS[name].rank
        seeds = [start.seed for start in nmf_merge(X, r, n_init=N_INIT).starts]

        def together():
            return [start.fitting_error for start in nmf_merge(X, r, n_init=N_INIT).starts]  # noqa: B023

        def one_by_one():
            merged = [
                nmf_merge(X, r, n_init=1, init="random", random_state=seed)  # noqa: B023
                for seed in seeds[1:]  # noqa: B023
            ]
            return [found.fitting_error for found in (nmf(X, r), *merged)]  # noqa: B023

        seconds, errors = _by_turns({"together": together, "alone": one_by_one}, repeats)
        difference = np.abs(np.divide(errors["together"], errors["alone"]) - 1).max()
        rows.append({
            "data": name, "components": r, "together": seconds["together"],
            "one by one": seconds["alone"], "ratio": seconds["together"] / seconds["alone"],
            "largest difference of errors": float(difference),
        })  # fmt: skip
        print_rows(rows[-1:])
    return rows


def default(repeats=2):
    """`nmf_merge` and scikit-learn's NMF with their defaults: error and seconds."""
    rows = []
    for name in REAL:
        X, r = matrix(name), SETS[name].rank

        def ours():
            return nmf_merge(X, r).fitting_error  # noqa: B023

        def theirs(max_iter=10_000):
            model = NMF(r, max_iter=max_iter, random_state=0)  # noqa: B023
            W = model.fit_transform(X)  # noqa: B023
            return metrics.fitting_error(X, W, model.components_)  # noqa: B023

        contenders = {"ours": ours, "theirs": theirs, "at 200": lambda: theirs(200)}
        seconds, errors = _by_turns(contenders, repeats)
        rows.append({
            "data": name, "components": r, "our error": errors["ours"],
            "their error": errors["theirs"],
            "error ratio": _ratio(errors["ours"], errors["theirs"]),
            "our seconds": seconds["ours"], "their seconds": seconds["theirs"],
            "time ratio": seconds["ours"] / seconds["theirs"],
            "error ratio at 200": _ratio(errors["ours"], errors["at 200"]),
            "time ratio at 200": seconds["ours"] / seconds["at 200"],
        })  # fmt: skip
        print_rows(rows[-1:])
    return rows


def busy(repeats=5):
    """A fit alone and beside busy processes, in wall and processor seconds; medians."""
    X = lcms_like().X
    rows = []
    for n_init in (1, 4, 32):
        nmf_merge(X, 17, n_init=n_init)
        row = {"data": "generated LC-MS run, 400 × 600, r = 17", "starts": n_init}
        for name, n_busy in (("alone", 0), ("busy", os.cpu_count())):
            loops = [subprocess.Popen([sys.executable, "-c", "while 1: 0"]) for _ in range(n_busy)]
            try:
                taken = [_timed(X, n_init) for _ in range(repeats)]
            finally:
                for loop in loops:
                    loop.kill()
            wall, processor = np.median(taken, axis=0).tolist()
            row |= {f"{name} (s)": wall, f"{name}, processor (s)": processor}
        rows.append(row)
    return rows


def _timed(X, n_init):
    began = time.perf_counter(), time.process_time()
    nmf_merge(X, 17, n_init=n_init)
    return time.perf_counter() - began[0], time.process_time() - began[1]


def _ratio(ours, theirs):
    """1 where both are exact fits."""
    return 1.0 if max(ours, theirs) < 1e-5 else ours / theirs


def _by_turns(contenders, repeats):
    """Call each by turns; return the least seconds and the last result of each."""
    least, results = dict.fromkeys(contenders, np.inf), {}
    for _ in range(repeats):
        for name, function in contenders.items():
            began = time.perf_counter()
            results[name] = function()
            least[name] = min(least[name], time.perf_counter() - began)
    return least, results
