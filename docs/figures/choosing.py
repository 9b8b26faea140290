"""Writes the tables of docs/choosing.md again: ``python docs/figures/choosing.py [PART …]``.

Run it in the root of the repository, with ``PYTHONPATH=.``.
"""

import re
import sys
import textwrap
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import rank_choice
from benchmarks.common import load
from benchmarks.freshness import remark
from nmfmerge import datasets, nmf_merge, plot, rank_path

PAGE = Path(__file__).parents[1] / "choosing.md"
FIGURE = Path(__file__).with_name("rank-path.png")
STARTS = 20
REACHED = 0.001
SETTINGS = {
    "**defaults** (`n_extra=2`, `tol=1e-4`, `tol_intermediate=1e-2`)": {},
    "`n_extra=0`: standard NMF": {"n_extra": 0},
    "`n_extra=1`": {"n_extra": 1},
    "`n_extra=4`": {"n_extra": 4},
    "`n_extra=6`": {"n_extra": 6},
    "`tol_intermediate=1e-1`": {"tol_intermediate": 1e-1},
    "`tol_intermediate=1e-3`": {"tol_intermediate": 1e-3},
    "`tol_intermediate=1e-4`": {"tol_intermediate": 1e-4},
    "`tol=1e-2` (and 1e-1 between)": {"tol": 1e-2},
    "`tol=1e-3` (and 3e-2 between)": {"tol": 1e-3},
    "`tol=1e-5` (and 3e-3 between)": {"tol": 1e-5},
    '`solver="hals"`': {"solver": "hals"},
    '`solver="gcd"`': {"solver": "gcd"},
    '`solver="alspgrad"`': {"solver": "alspgrad"},
    '`solver="mu"`': {"solver": "mu"},
}


def lcms_run():
    """The LC-MS run of 12 compounds."""
    return datasets.lcms_like(n_mz=200, n_scans=300, n_compounds=12, random_state=1).X


def the_path():
    """The printed path of the LC-MS run, and its figure."""
    path = rank_path(lcms_run(), 20, stability=True)
    plot.rank_path(path).savefig(FIGURE, dpi=110)
    head, *lines = repr(path).splitlines()
    head = re.sub(r", [^,]*$", "", head)  # the time differs from machine to machine
    lines = [line[: line.rindex(" ")].rstrip().removesuffix("  seconds").rstrip() for line in lines]
    said = textwrap.fill(str(path.assess()), 90)
    return ["```text", head, *lines, "", *said.splitlines(), "```"]


def criteria():
    """How often each criterion finds the rank of generated data."""
    return rank_choice.table().splitlines()


def confidence():
    """How often the assessment is right at each level of confidence."""
    environment = load("rank_choice")["environment"]
    place = f"{environment['date']}, commit {environment['commit']}{remark('rank_choice')}"
    return [*rank_choice.confidence_table().splitlines(), "", f"*Both tables: {place}*"]


def by_setting():
    """Errors and iterations of many starts by each setting."""
    X = lcms_run()
    results = {
        name: [
            nmf_merge(X, 12, init="random", n_init=1, random_state=seed, **settings)
            for seed in range(STARTS)
        ]
        for name, settings in SETTINGS.items()
    }
    errors = {name: np.array([run.fitting_error for run in runs]) for name, runs in results.items()}
    lowest = min(some.min() for some in errors.values())
    lines = [
        f"*Reached* counts runs within {REACHED} percentage points of the lowest error that any",
        f"run found ({lowest:.4f} %).",
        "",
        f"| setting | mean error (%) | reached, of {STARTS} | iterations (median) |",
        "|---|---|---|---|",
    ]
    for name, runs in results.items():
        reached = np.sum(errors[name] < lowest + REACHED)
        iterations = np.median([run.n_iter for run in runs])
        error = errors[name].mean()
        lines.append(f"| {name} | {error:.4f} | {reached} | {iterations:.0f} |")
    return lines


PARTS = {"path": the_path, "criteria": criteria, "confidence": confidence, "settings": by_setting}


def main(*only):
    """Replace what stands between each pair of marks: of all parts, or of those named."""
    page = PAGE.read_text(encoding="utf-8")
    for name in only or PARTS:
        with threadpool_limits(1):
            lines = PARTS[name]()
        before, rest = page.split(f"<!-- {name} -->\n")
        after = rest.split(f"<!-- end of {name} -->")[1]
        marked = [f"<!-- {name} -->", "", *lines, "", f"<!-- end of {name} -->"]
        page = before + "\n".join(marked) + after
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
