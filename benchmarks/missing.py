"""Missing values: time beside a fit of all entries, ratings, and real data with entries hidden.

The parts on real data hide entries on purpose, so that what is said of them can be compared.
``RATINGS_PYTHON=… python -m benchmarks missing ratings`` also times scikit-surprise and nimfa, in
an environment that has them: ``pip install scikit-surprise nimfa pandas 'numpy<2'``.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks.common import has_real_data, load, print_rows, store
from nmfmerge import datasets, nmf
from nmfmerge.inputs.check import check_X
from nmfmerge.losses import KULLBACK_LEIBLER
from reproduce import real

SHARE = 0.1  # of the entries that are missing
RATINGS = (943, 1682, 100_000)  # users, films and ratings, in the shape of MovieLens 100k
RANK = 10
PENALTY = 0.06  # for each rating, on both factors: the default of scikit-surprise
GENES = 2000  # the most variable ones of pbmc3k
COUNT_RANKS = (1, 2, 4, 6, 8, 10, 12, 16)
STARTS = 2
DEAD = 0.1  # of bands, in as large a part of the columns of the picture
BLOCK = 16  # pixels on a side that saturate
SATURATED = 0.1  # of the frames
MARK = "<!-- {} of the stored numbers -->"


def main(*words):
    """Measure all parts, or those named; ``--quick`` takes small data and stores nothing."""
    warnings.simplefilter("ignore")
    quick = "--quick" in words
    named = [word for word in words if not word.startswith("-")]
    for part, measure in PARTS.items():
        if (named and part not in named) or (part in REAL and not has_real_data()):
            continue
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
    X, found = X[keep[0]][:, keep[1]], []
    nmf(X, RANK, missing="zeros", max_iter=5), nmf(X, RANK, max_iter=5)  # compiles
    penalty = PENALTY * X.nnz / (X.shape[0] * X.shape[1])
    for missing, tol in (("zeros", 1e-2), ("zeros", 1e-4), ("nan", 1e-4)):
        began = time.perf_counter()
        fit = nmf(X, RANK, missing=missing, alpha_W=penalty, tol=tol, n_jobs=1)
        seconds = time.perf_counter() - began
        rmse = float(np.sqrt(np.mean((stars[known] - _at(fit.W, fit.H, at)) ** 2)))
        found.append(
            {
                "who": f"nmfmerge, tol={tol:g}, one thread",
                "not rated is": "missing" if missing == "zeros" else "zero",
                "held-out RMSE": rmse,
                "seconds": seconds,
            }
        )
    return found + _by_others(X, at, stars[known])


def _by_others(X, at, stars):
    """The rows of other packages, where ``RATINGS_PYTHON`` names a Python that has them."""
    python = os.environ.get("RATINGS_PYTHON")
    if python is None:
        return []
    rows, columns = X.nonzero()
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    alone |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ratings.npz"
        np.savez(file, shape=X.shape, rows=rows, columns=columns, stars=X.data,
                 test_rows=at[0], test_columns=at[1], test_stars=stars)  # fmt: skip
        command = [python, "-P", Path(__file__).with_name("ratings_run.py"), file, str(RANK)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=alone)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def _counts(quick):
    """Counts of single cells with a tenth hidden: deviance of the hidden ones, by rank."""
    X = real.load_pbmc3k().X
    X = sp.csr_array(X if X.shape[0] < X.shape[1] else X.T).astype(float)  # cells × genes
    mean = np.asarray(X.mean(axis=0)).ravel()
    spread = np.asarray(X.multiply(X).mean(axis=0)).ravel() - mean**2
    kept = np.argsort(-spread / np.maximum(mean, 1e-12), kind="stable")[: 60 if quick else GENES]
    X = X[:, np.sort(kept)].toarray()
    X = X[X.sum(axis=1) > 0][: 200 if quick else None]
    X = X[:, X.sum(axis=0) > 0]
    hidden = np.random.default_rng(0).random(X.shape) < SHARE
    for axis in (0, 1):  # every line keeps a count
        empty = (X * ~hidden).sum(axis=axis) == 0
        hidden &= ~(empty[None] if axis == 0 else empty[:, None])
    holes = sp.csr_array(np.where(hidden, np.nan, X))
    data = check_X(holes)
    at = np.nonzero(hidden)
    w, h = data.margins()
    margins = _at(w.T, h, at) * data.unit**2
    rows = []
    for r in COUNT_RANKS[:3] if quick else COUNT_RANKS:
        began = time.perf_counter()
        fit = nmf(
            holes, r, init="random", n_init=STARTS, tol=1e-3, beta_loss="kullback-leibler"
        )  # fmt: skip
        seconds = time.perf_counter() - began
        ones = np.ones(len(at[0]))
        error = KULLBACK_LEIBLER.held_out_error(X[at], ones, _at(fit.W, fit.H, at), margins)
        rows.append(
            {"r": r, "observed, %": fit.fitting_error, "hidden, %": error, "seconds": seconds}
        )
    return rows


def _bands(quick):
    """A hyperspectral picture in which some bands are dead in some columns."""
    data = real.load_samson()
    X = data.X[:, ::40] if quick else data.X  # bands × pixels
    rng = np.random.default_rng(0)
    columns = np.arange(X.shape[1]) % 95
    dead = np.zeros(X.shape, dtype=bool)
    for band in rng.choice(len(X), int(DEAD * len(X)), replace=False):
        dead[band] = np.isin(columns, rng.choice(95, int(DEAD * 95), replace=False))
    return _hidden(X, dead, np.where(dead, 0, X), "zero", 3)


def _block(quick):
    """A calcium movie in which a block of pixels is saturated for a tenth of the time."""
    X = real.load_ca_mouse().X  # pixels × frames
    X = X[:, ::10] if quick else X
    pixels = np.arange(len(X)).reshape(64, 64)[24 : 24 + BLOCK, 24 : 24 + BLOCK].ravel()
    n = X.shape[1]
    hidden = np.zeros(X.shape, dtype=bool)
    hidden[pixels, int(0.4 * n) : int((0.4 + SATURATED) * n)] = True
    return _hidden(X, hidden, np.where(hidden, X.max(), X), "saturated", 10)


def _hidden(X, hidden, instead, name, r):
    """Errors at hidden entries of fits that know them, miss them, or see something else there."""
    fits = {"known": X, "missing": np.where(hidden, np.nan, X), name: instead}
    rows = []
    for label, given in fits.items():
        began = time.perf_counter()
        fit = nmf(given, r)
        seconds = time.perf_counter() - began
        miss = (X - fit.W @ fit.H)[hidden]
        rows.append(
            {
                "hidden entries are": label,
                "share, %": 100 * hidden.mean(),
                "error there, %": 100 * float(np.vdot(miss, miss) / np.sum(X[hidden] ** 2)),
                "seconds": seconds,
            }
        )
    return rows


def _at(W, H, at):
    """WH at some entries."""
    return np.einsum("ek,ek->e", W[at[0]], H.T[at[1]])


PARTS = {
    "time": _times, "ratings": _ratings, "counts": _counts, "bands": _bands, "block": _block,
}  # fmt: skip
REAL = {  # parts on real data, and what their tables say
    "counts": (
        "Counts of 2,700 blood cells (pbmc3k, the 2,000 most variable genes) with a tenth of the "
        "entries hidden,\nKullback–Leibler, the better of two random starts: deviance in percent "
        "of that of the margins, of the entries that\nthe fit has seen and of the hidden ones. "
        "Beyond the right rank some of these become absurd."
    ),
    "bands": (
        "A hyperspectral picture (Samson, r = 3) in which a tenth of the bands is dead in a tenth "
        "of the picture:\nerror at the dead entries."
    ),
    "block": (
        "A calcium movie (ca_mouse, r = 10) in which a block of 16 × 16 pixels reads the largest "
        "value in a tenth of the frames:\nerror at the saturated entries."
    ),
}


def section():
    """The stored tables on real data, as the page on missing values has them."""
    found = {part: load(f"missing/{part}") for part in REAL}
    return "".join(
        f"\n{REAL[part]}\n\n{_table(content['rows'])}\n"
        for part, content in found.items()
        if content
    )


def _table(rows):
    lines = ["| " + " | ".join(rows[0]) + " |", "|" + len(rows[0]) * "---|"]
    for row in rows:
        cells = (f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values())
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def with_section(page):
    """The text of the page with the tables as they are stored now."""
    before, rest = page.split(MARK.format("start"))
    after = rest.split(MARK.format("end"))[1]
    begin, end = (MARK.format(word) for word in ("start", "end"))
    return f"{before}{begin}\n{section()}\n{end}{after}"
