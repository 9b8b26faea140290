"""Which solver is the default: HALS or accelerated HALS, in `nmf` and `nmf_merge`, many starts."""

import warnings

import numpy as np

from benchmarks.common import dense_sets, geometric_mean, load, store
from nmfmerge import nmf, nmf_merge

CONTENDERS = {
    "nmf hals": (nmf, "hals"),
    "nmf accelerated": (nmf, "accelerated"),
    "merge hals": (nmf_merge, "hals"),
    "merge accelerated": (nmf_merge, "accelerated"),
}

FEW = 1  # starts of the slowest contender on the large sets


def main(starts="20", *only):
    """Fit every data set from NNDSVD and ``starts`` random starts; keep what is stored already."""
    warnings.simplefilter("ignore")
    runs = (load("solvers") or {}).get("runs", {})
    for name, X, rank in dense_sets(only or None):
        for seed in [None, *range(int(starts))]:
            for label, (function, solver) in CONTENDERS.items():
                if X.size > 5e5 and label == "merge hals" and (seed or 0) >= FEW:
                    continue
                key = f"{name} | {label} | {'nndsvd' if seed is None else seed}"
                if key in runs:
                    continue
                start = {"init": "nndsvd" if seed is None else "random", "random_state": seed}
                result = function(X, rank, solver=solver, n_init=1, **start)
                runs[key] = {
                    "error": result.fitting_error,
                    "seconds": result.seconds,
                    "iterations": result.n_iter,
                    "converged": result.converged,
                }
                print(key, f"{result.fitting_error:.5f} {result.seconds:.2f} s", flush=True)
            store("solvers", {"runs": runs})
    print(table(runs))


def mean_differences(runs):
    """Least and largest of mean(accelerated) − mean(plain) over the data sets, for `nmf`."""
    means = [
        [np.mean([run["error"] for run in by_label[f"nmf {solver}"].values()])
         for solver in ("accelerated", "hals")]
        for by_label in _random_starts(runs).values()
    ]  # fmt: skip
    differences = [fast - plain for fast, plain in means]
    return min(differences), max(differences)


def _random_starts(runs):
    groups = {}
    for key, run in runs.items():
        name, label, start = key.split(" | ")
        if start != "nndsvd":
            groups.setdefault(name, {}).setdefault(label, {})[start] = run
    return groups


def table(runs):
    """Mean error, spread and time of each contender on each data set, as Markdown."""
    groups = _random_starts(runs)
    lines = [
        "| data | starts | " + " | ".join(CONTENDERS) + " | speed-up nmf | speed-up merge |",
        "|---" * (len(CONTENDERS) + 4) + "|",
    ]
    for name, by_label in groups.items():
        cells = []
        for label in CONTENDERS:
            errors = [run["error"] for run in by_label[label].values()]
            few = f" (of {len(errors)})" if len(errors) < len(by_label["nmf hals"]) else ""
            cells.append(f"{np.mean(errors):.4f} ± {np.std(errors):.4f}{few}")
        speedups = []
        for kind in ("nmf", "merge"):
            slow, fast = by_label[f"{kind} hals"], by_label[f"{kind} accelerated"]
            ratios = [slow[s]["seconds"] / fast[s]["seconds"] for s in fast if s in slow]
            speedups.append(geometric_mean(ratios))
        cells += [f"{ratio:.1f}×" for ratio in speedups]
        lines.append(f"| {name} | {len(by_label['nmf hals'])} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
