"""Mutational signatures on generated catalogues of known truth, beside another program.

``python -m benchmarks signatures [SEEDS] [FITS] [CASES]``: seeds of the fits as "0,1,2", the fits
at each number of signatures, and of the catalogues below only the first so many. Where
``SIGPROFILER_PYTHON`` names a Python that has SigProfilerExtractor (1.4.1 needs NumPy below 2.4),
that gets the same tables, as many fits and the same numbers of signatures; only the first
catalogues and the first seed, as it takes much longer.
"""

import os
import subprocess
import tempfile
import time
import warnings
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment

from benchmarks.common import load, print_rows, store
from nmfmerge import datasets, jobs

N_MAX = 15  # signatures tried, whatever the truth
FOUND = 0.9  # cosine from which a true signature counts as found
CASES = (  # signatures, samples, overdispersion, hypermutated samples
    (5, 50, 0.0, 0),
    (5, 50, 0.05, 1),
    (8, 100, 0.0, 1),
    (8, 100, 0.05, 1),
    (10, 200, 0.02, 1),
    (12, 500, 0.05, 1),
)
N_PEER = 2  # catalogues that the other program gets
METHODS = {  # arguments of `jobs.signatures`
    "NMF-Merge": {},
    "standard NMF": {"merge": False},
}
SIGPROFILER = "SigProfilerExtractor"
_PROGRAM = """
import sys
from SigProfilerExtractor import sigpro
if __name__ == "__main__":
    table, out, most, fits, seed, cores = sys.argv[1:]
    sigpro.sigProfilerExtractor(
        "matrix", out, table, minimum_signatures=1, maximum_signatures=int(most),
        nmf_replicates=int(fits), cpu=int(cores), make_decomposition_plots=False, seeds=seed,
        volume=out,
    )
"""


def main(seeds="0,1,2", n_fits="20", n_cases=""):
    """Find the signatures of every catalogue with every seed, by every method, and store them."""
    warnings.simplefilter("ignore")
    seeds = [int(seed) for seed in seeds.split(",")]
    rows = []
    for i, case in enumerate(CASES[: int(n_cases or len(CASES))]):
        data = catalogue(*case)
        for method in methods(i):
            used = seeds[:1] if method == SIGPROFILER else seeds
            runs = [run(method, data, int(n_fits), seed) for seed in used]
            for choice in runs[0]:
                rows.append(judge(case, f"{method}, {choice}", data.W, [r[choice] for r in runs]))
            print_rows(rows[-len(runs[0]) :])
        store("signatures", {"n_max": N_MAX, "n_fits": int(n_fits), "seeds": seeds, "rows": rows})
    print(table())


def methods(i):
    """Names of the methods for a catalogue: the other program, where it is there, for the first."""
    peer = i < N_PEER and "SIGPROFILER_PYTHON" in os.environ
    return [*METHODS, *([SIGPROFILER] if peer else [])]


def catalogue(n_signatures, n_samples, overdispersion, n_hypermutated):
    """Counts whose signatures are known."""
    return datasets.mutation_catalogue(
        n_signatures, n_samples, overdispersion=overdispersion, n_hypermutated=n_hypermutated,
        random_state=n_signatures,
    )  # fmt: skip


def run(method, data, n_fits, seed):
    """The signatures by each way to choose their number, with the seconds of the whole job."""
    began = time.perf_counter()
    if method == SIGPROFILER:
        chosen = {"its suggestion": sigprofiler(data, n_fits, seed)}
    else:
        found = jobs.signatures(
            data, N_MAX, n_fits=n_fits, random_state=seed, n_resamples=0, **METHODS[method]
        )  # fmt: skip
        assessed = found.consensus.at(found.consensus.first_choice).W
        chosen = {"stability": found.signatures, "assessment": assessed}
    took = time.perf_counter() - began
    return {choice: (W, took) for choice, W in chosen.items()}


def sigprofiler(data, n_fits, seed):
    """The signatures that SigProfilerExtractor suggests, in the order of the types of ``data``."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        types = pd.Index(data.rows.values, name="Mutation Types")
        counts = pd.DataFrame(data.X.astype(int), types, data.columns.values)
        counts.to_csv(folder / "counts.txt", sep="\t")
        (folder / "program.py").write_text(_PROGRAM)
        seeds = pd.DataFrame({"Seed": [seed]})
        seeds.to_csv(folder / "seeds.txt", sep="\t")
        words = ["counts.txt", "out", str(N_MAX), str(n_fits), "seeds.txt", str(os.cpu_count())]
        subprocess.run(
            [os.environ["SIGPROFILER_PYTHON"], "program.py", *words],
            cwd=folder, check=True, capture_output=True,
        )  # fmt: skip
        (file,) = (folder / "out").glob(
            "*/Suggested_Solution/*De-Novo*/Signatures/*De-Novo_Signatures.txt"
        )
        return pd.read_csv(file, sep="\t", index_col=0).loc[data.rows.values].to_numpy()


def judge(case, method, true, runs):
    """How many signatures are right in each run, and how alike the runs are."""
    found = [matched(true, W) for W, _ in runs]
    pairs = [
        (W1.shape[1] == W2.shape[1]) and matched(W1, W2) == W1.shape[1]
        for (W1, _), (W2, _) in combinations(runs, 2)
    ]
    n_signatures, n_samples, overdispersion, n_hypermutated = case
    return {
        "signatures": n_signatures,
        "samples": n_samples,
        "overdispersion": overdispersion,
        "hypermutated": n_hypermutated,
        "method": method,
        "number": [W.shape[1] for W, _ in runs],
        "found": found,
        "false": [W.shape[1] - n for (W, _), n in zip(runs, found, strict=True)],
        "same": all(pairs) if pairs else None,  # of one run
        "seconds": float(np.median([seconds for _, seconds in runs])),
    }


def matched(W1, W2):
    """How many columns of two W match one to one with a cosine of at least 0.9."""
    units = (W / np.linalg.norm(W, axis=0) for W in (W1, W2))
    cosine = next(units).T @ next(units)
    return int((cosine[linear_sum_assignment(-cosine)] >= FOUND).sum())


def table():
    """The stored results as a table for a page."""
    stored = load("signatures")
    lines = [
        "| method | true signatures found | false ones | number right | within one "
        "| same in all runs | median seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for method in dict.fromkeys(row["method"] for row in stored["rows"]):
        rows = [row for row in stored["rows"] if row["method"] == method]
        off = [abs(n - row["signatures"]) for row in rows for n in row["number"]]
        true = sum(row["signatures"] * len(row["found"]) for row in rows)
        found = sum(sum(row["found"]) for row in rows)
        lines.append(
            f"| {method} | {found} of {true} | {sum(sum(row['false']) for row in rows)} "
            f"| {off.count(0)} of {len(off)} | {off.count(0) + off.count(1)} of {len(off)} "
            f"| {_same(rows)} "
            f"| {np.median([row['seconds'] for row in rows]):.0f} |"
        )
    return "\n".join(lines)


def _same(rows):
    """In how many cases all runs agreed, of those with several runs."""
    judged = [row["same"] for row in rows if row["same"] is not None]
    return f"{sum(judged)} of {len(judged)}" if judged else "–"
