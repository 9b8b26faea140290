"""Missing values: time beside a fit of all entries, and ratings that no fit has seen."""

import time
import warnings

import numpy as np
import scipy.sparse as sp

from benchmarks.common import print_rows, store
from nmfmerge import datasets, nmf

SHARE = 0.1  # of the entries that are missing
RATINGS = (943, 1682, 100_000)  # users, films and ratings, in the shape of MovieLens 100k
RANK = 10


def main(*words):
    """Measure both; ``--quick`` takes small data and stores nothing."""
    warnings.simplefilter("ignore")
    quick = "--quick" in words
    for part, measure in (("time", _times), ("ratings", _ratings)):
        rows = measure(quick)
        print(f"\n{part}")
        print_rows(rows)
        if not quick:
            store(f"missing/{part}", {"rows": rows})


def _times(quick):
    """Plain fits, and fits of the same data with a tenth missing, from the same random starts."""
    sizes = [(60, 80, 5)] if quick else [(600, 500, 17), (2000, 1500, 20)]
    rows = []
    for m, n, r in sizes:
        X = datasets.lcms_like(n_mz=m, n_scans=n, n_compounds=r).X
        holes = np.where(np.random.default_rng(0).random(X.shape) < SHARE, np.nan, X)
        nmf(X, r, max_iter=5), nmf(holes, r, max_iter=5)  # compiles
        for seed in range(1 if quick else 5):
            row = {"m": m, "n": n, "r": r, "seed": seed}
            for name, given in (("plain", X), ("missing", holes)):
                began = time.perf_counter()
                found = nmf(given, r, init="random", random_state=seed)
                row |= {
                    f"{name} seconds": time.perf_counter() - began,
                    f"{name} iterations": found.n_iter,
                    f"{name} error": found.fitting_error,
                }
            rows.append(row | {"ratio": row["missing seconds"] / row["plain seconds"]})
    return rows


def _ratings(quick):
    """Root mean square error at held-out ratings: what is not rated as missing, or as zero."""
    users, films, count = (90, 120, 3000) if quick else RATINGS
    rng = np.random.default_rng(0)
    truth = rng.gamma(1.0, size=(users, 5)) @ rng.gamma(1.0, size=(5, films))
    truth = 1 + 4 * truth / np.quantile(truth, 0.99)
    places = rng.choice(users * films, count, replace=False)
    rows, columns = np.divmod(places, films)
    stars = np.clip(np.rint(truth[rows, columns] + 0.5 * rng.normal(size=count)), 1, 5)
    test = rng.random(count) < 0.1
    X = sp.csr_array((stars[~test], (rows[~test], columns[~test])), (users, films))
    keep = [np.flatnonzero(X.sum(axis=axis)) for axis in (1, 0)]
    known = test & np.isin(rows, keep[0]) & np.isin(columns, keep[1])
    at = np.searchsorted(keep[0], rows[known]), np.searchsorted(keep[1], columns[known])
    found = []
    for missing in ("zeros", "nan"):
        began = time.perf_counter()
        fit = nmf(X[keep[0]][:, keep[1]], RANK, missing=missing, alpha_W=1e-4)
        seconds = time.perf_counter() - began
        y = np.einsum("ek,ke->e", fit.W[at[0]], fit.H[:, at[1]])
        rmse = float(np.sqrt(np.mean((stars[known] - y) ** 2)))
        name = "missing" if missing == "zeros" else "zero"
        found.append({"not rated is": name, "held-out RMSE": rmse, "seconds": seconds})
    return found
