"""Writes the tables of docs/choosing.md again: ``python docs/figures/choosing.py``."""

from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from nmfmerge import datasets, merge_components, metrics, nmf_merge

PAGE = Path(__file__).parents[1] / "choosing.md"
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


def features():
    """Eight features and noise."""
    clean = datasets.gaussian_features(8).X
    noise = 0.02 * np.random.default_rng(0).standard_normal(clean.shape)
    return np.maximum(clean + noise, 0)


def by_rank(G):
    """What tells the rank of the eight features."""
    lines = [
        "| r | error (%) | largest subspace mismatch | least cosine | largest merge penalty |",
        "|---|---|---|---|---|",
    ]
    for r in range(5, 13):
        runs = [nmf_merge(G, r, init="random", random_state=seed) for seed in range(4)]
        first, *others = runs
        error = min(run.fitting_error for run in runs)
        mismatch = max(metrics.subspace_mismatch(first.W, run.W) for run in others)
        cosine = min(metrics.match_components(first.W, run.W)[1].min() for run in others)
        penalty = first.merges.penalties.max()
        name = f"**{r}**" if r == 8 else r
        lines.append(f"| {name} | {error:.4f} | {mismatch:.2g} | {cosine:.3f} | {penalty:.3f} |")
    return lines


def errors_by_rank(X):
    """The error curve of the LC-MS run."""
    ranks = range(8, 17)
    errors = [f"{nmf_merge(X, r).fitting_error:.4f}" for r in ranks]
    return [
        f"| r | {' | '.join(map(str, ranks))} |",
        "|---" * (1 + len(ranks)) + "|",
        f"| error (%) | {' | '.join(errors)} |",
    ]


def penalties(X):
    """What the merges from 16 components to one cost."""
    many = nmf_merge(X, 16)
    tree = merge_components(many.W, many.H)[2]
    costs = 100 * tree.penalties / np.sum(X**2)
    return ["```text", " ".join(map(str, costs.round(3))), "```"]


def by_setting(X):
    """Errors and iterations of many starts by each setting."""
    results = {
        name: [
            nmf_merge(X, 12, init="random", random_state=seed, **settings) for seed in range(STARTS)
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


def main():
    """Replace what stands between each pair of marks."""
    G = features()
    X = datasets.lcms_like(n_mz=200, n_scans=300, n_compounds=12, random_state=1).X
    page = PAGE.read_text(encoding="utf-8")
    with threadpool_limits(1):
        parts = {
            "rank": by_rank(G),
            "curve": errors_by_rank(X),
            "penalties": penalties(X),
            "settings": by_setting(X),
        }
    for name, lines in parts.items():
        before, rest = page.split(f"<!-- {name} -->\n")
        after = rest.split(f"<!-- end of {name} -->")[1]
        marked = [f"<!-- {name} -->", "", *lines, "", f"<!-- end of {name} -->"]
        page = before + "\n".join(marked) + after
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
