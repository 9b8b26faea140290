"""A path through all ranks against three separate fits at each rank: error and time."""

import warnings
from time import process_time

import numpy as np

from benchmarks.common import has_real_data, load, store
from benchmarks.freshness import remark
from nmfmerge import datasets, nmf, nmf_merge, rank_path
from reproduce import sets

HIGHEST = {"pf1": 25, "wt15": 33, "ko15": 39, "samson": 7, "ca_mouse": 15}
GENERATED = {"lcms_like": 20, "melody": 6}
SEPARATE = {
    "nmf, NNDSVD": lambda X, r: nmf(X, r, tol=1e-3),
    "nmf, NNDSVDa": lambda X, r: nmf(X, r, init="nndsvda", tol=1e-3),
    "nmf_merge": lambda X, r: nmf_merge(X, r, tol=1e-3, n_init=1),
}
ALLOWED, BETTER = 0.2, 0.1  # percent of the best separate fit


def main(turns="3", *only):
    """Measure the data sets named, or all; CPU times are the least of several turns, by turns."""
    warnings.simplefilter("ignore")
    highest = HIGHEST if has_real_data() else GENERATED
    rows = {row["data"]: row for row in (load("path") or {"rows": []})["rows"]}
    _compile()
    for name in only or highest:
        rows[name] = measure(name, highest[name], int(turns))
        store("path", {"rows": [rows[known] for known in highest if known in rows]})
        print({key: value for key, value in rows[name].items() if key != "ranks"}, flush=True)
    print(table(load("path")["rows"]))


def measure(name, n_max, turns):
    """Errors of the path and of the best separate fit at each rank, and the least time of each."""
    X = sets.matrix(name) if name in HIGHEST else getattr(datasets, name)().X
    seconds, separate_seconds = np.inf, np.inf
    for _ in range(turns):
        separate, took = _separate_fits(X, n_max)
        separate_seconds = min(separate_seconds, took)
        began = process_time()
        path = rank_path(X, n_max)
        seconds = min(seconds, process_time() - began)
    assert (np.diff(path.fitting_errors) <= 0).all()
    change = 100 * (path.fitting_errors / separate.min(axis=0) - 1)
    return {
        "data": name,
        "n_max": n_max,
        "share not above": float(np.mean(change <= ALLOWED)),
        "share better": float(np.mean(change < -BETTER)),
        "worst": float(change.max()),
        "best": float(change.min()),
        "seconds": seconds,
        "separate seconds": separate_seconds,
        "ranks": [
            {"rank": int(rank), "path": float(error), **dict(zip(SEPARATE, errors, strict=True))}
            for rank, error, errors in zip(
                path.ranks, path.fitting_errors, separate.T.tolist(), strict=True
            )
        ],
    }


def _separate_fits(X, n_max):
    """Fitting errors (fits × ranks) of the separate fits, and the time of all."""
    began = process_time()
    errors = [[fit(X, r).fitting_error for r in range(1, n_max + 1)] for fit in SEPARATE.values()]
    return np.array(errors), process_time() - began


def _compile():
    X = np.random.default_rng(0).random((30, 20))
    _separate_fits(X, 4)
    rank_path(X, 4)


def table(rows):
    """One line for each data set and one for all of them, as Markdown."""
    lines = [
        "| data | ranks | at most 0.2 % above | better by > 0.1 % | worst | best | seconds "
        "| three fits | share of their time |",
        "|---" * 9 + "|",
    ]
    count = np.array([row["n_max"] for row in rows])
    for row in rows:
        lines.append(_line(row["data"], f"1–{row['n_max']}", row))
    if len(rows) > 1:
        whole = {
            key: float(np.average([row[key] for row in rows], weights=count))
            for key in ("share not above", "share better")
        }
        whole |= {key: sum(row[key] for row in rows) for key in ("seconds", "separate seconds")}
        whole |= {"worst": max(row["worst"] for row in rows)}
        whole |= {"best": min(row["best"] for row in rows)}
        lines.append(_line("all", str(count.sum()), whole))
    return "\n".join(lines)


def _line(name, ranks, row):
    cells = [
        name,
        ranks,
        f"{100 * row['share not above']:.0f} %",
        f"{100 * row['share better']:.0f} %",
        f"{row['worst']:+.2f} %",
        f"{row['best']:+.2f} %",
        f"{row['seconds']:.2f}",
        f"{row['separate seconds']:.2f}",
        f"{row['seconds'] / row['separate seconds']:.2f}",
    ]
    return "| " + " | ".join(cells) + " |"


def section():
    """The part of the benchmarks page, or nothing where nothing is stored."""
    stored = load("path")
    if stored is None:
        return ""
    environment = stored["environment"]
    place = (
        f"{environment['cpu']}, {environment['cores']} cores, {environment['threads'][0]} "
        f"thread(s), {environment['date']}, commit {environment['commit']}{remark('path')}"
    )
    return f"""
## A path through all ranks

`rank_path` against the best of three separate fits at each rank (`nmf` from NNDSVD and from NNDSVDa, `nmf_merge`; all
with `tol` = 1e-3): at how many ranks its fitting error is at most {ALLOWED} % above the best of them, at how many it is
better by more than {BETTER} %, and the CPU time it takes (seconds, the least of
several turns). Remake with `python -m benchmarks path`.

{table(stored["rows"])}

*{place}*
"""
