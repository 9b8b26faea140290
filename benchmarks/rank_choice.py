"""How often the rank of generated data is found: by our assessment, and by what people use now.

``python -m benchmarks rank_choice [SEEDS] [JOBS]``: seeds as "8,9,10,11". Rules and
thresholds were chosen with lower ones.
"""

import warnings

import numpy as np
from joblib import Parallel, delayed
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import squareform
from sklearn.metrics import silhouette_score

from benchmarks.common import load, store
from benchmarks.rank_sets import CHOSEN_ON, cases
from nmfmerge import metrics, nmf, rank_path
from nmfmerge.results.assessment import STABLE, Evidence, assess, last_bend, noise_floor

N_MAX = 20  # of every path, whatever the rank
STARTS = 10  # random starts for each rank, for what people use now
SILHOUETTE = 0.8  # the usual threshold
STARTS_SEED = 2  # of the data sets on which these are tried


def main(seeds="8,9,10,11", jobs="1"):
    """Judge every criterion on every data set, ``jobs`` at once; keep what is stored already."""
    seeds = [int(seed) for seed in seeds.split(",")]
    rows = (load("rank_choice") or {"rows": []})["rows"]
    known = {_key(row) for row in rows}
    missing = [case for case in cases([STARTS_SEED, *seeds]) if case[:4] not in known]
    rows += Parallel(n_jobs=int(jobs))(delayed(judge)(*case) for case in missing)
    store("rank_choice", {"n_max": N_MAX, "starts": STARTS, "rows": rows})
    print(table())
    print(confidence_table())


def _key(row):
    return tuple(row[name] for name in ("kind", "rank", "what", "seed"))


def judge(kind, rank, what, seed, X):
    """The evidence of our criteria on one data set, or the ranks of those over random starts."""
    warnings.simplefilter("ignore")
    print(kind, rank, what, seed, flush=True)
    row = {"kind": kind, "rank": rank, "what": what, "seed": seed}
    if seed == STARTS_SEED:
        return row | {"over starts": over_starts(X)}
    path = rank_path(X, min(N_MAX, *X.shape), stability=True)
    return row | {"evidence": path.evidence().as_record()}


def answers(row):
    """The rank that each criterion finds on a stored data set."""
    if "over starts" in row:
        return row["over starts"]
    evidence = Evidence.from_record(row["evidence"])
    floor = noise_floor(evidence.usable())
    return {
        "**`path.assess()`, stability measured**": assess(evidence).rank,
        "**`path.assess()`**": assess(without_stability(evidence)).rank,
        "residual is noise": None if floor is None else floor.first,
        "last bend of error and merge penalty": last_bend(evidence.usable()),
        "stable in split halves": last_stable(evidence.usable()),
        "knee of error": knee(evidence.ranks, evidence.errors),
        "drop above white noise": above_noise(evidence),
    }


def without_stability(evidence):
    """The same evidence without the fits of halves of the data."""
    unknown = np.full(len(evidence.ranks), np.nan)
    return Evidence(
        evidence.ranks, evidence.errors, evidence.penalties, evidence.structure, unknown,
        evidence.shape,
    )  # fmt: skip


def last_stable(evidence):
    """The highest rank at which both halves of the data give the same components."""
    stable = evidence.ranks[evidence.stability >= STABLE]
    return int(stable[-1]) if len(stable) else None


def knee(ranks, errors):
    """The rank farthest below the line between the ends of the error curve."""
    fall = (errors[0] - errors) / max(errors[0] - errors[-1], 1e-300)
    return int(ranks[np.argmax(fall - np.linspace(0, 1, len(ranks)))])


def above_noise(evidence):
    """The last rank, after the lowest, that gains more than the largest component of white noise.

    σ²(√m + √n)² is the square of the largest singular value of noise of variance σ².
    """
    (m, n), ranks, errors = evidence.shape, evidence.ranks, evidence.errors
    freedom = np.maximum(m * n - ranks * (m + n - ranks), 1)
    edge = errors / freedom * (np.sqrt(m) + np.sqrt(n)) ** 2
    above = -np.diff(errors) > edge[1:]
    return int(ranks[1:][above][-1]) if above.any() else int(ranks[0])


def over_starts(X):
    """Cophenetic correlation, dispersion and silhouette over random starts at each rank."""
    ranks = np.arange(2, min(N_MAX, *X.shape) + 1)
    measured = np.array([_agreement(X, int(r)) for r in ranks])
    cophenetic, dispersion, silhouette = measured.T
    stable = silhouette >= SILHOUETTE
    return {
        "cophenetic correlation": int(ranks[np.argmax(cophenetic[:-1] - cophenetic[1:])]),
        "dispersion": int(ranks[np.argmax(dispersion)]),
        "silhouette": int(ranks[stable][-1]) if stable.any() else None,
    }


def _agreement(X, r):
    """How alike the fits from random starts are, in three ways."""
    fits = [nmf(X, r, init="random", random_state=seed, tol=1e-3) for seed in range(STARTS)]
    consensus = np.mean([_same_cluster(fit) for fit in fits], axis=0)
    distance = squareform(1 - consensus, checks=False)
    tree = linkage(distance, "average")
    spread = np.std(distance) > 0
    cophenetic = cophenet(tree, distance)[0] if spread else 1.0
    dispersion = np.mean(4 * (consensus - 0.5) ** 2)
    return cophenetic, dispersion, _silhouette([fit.W for fit in fits])


def _same_cluster(fit):
    """Which columns have the same largest component (Brunet et al. 2004)."""
    label = np.argmax(fit.H * np.linalg.norm(fit.W, axis=0)[:, None], axis=0)
    return (label[:, None] == label).astype(float)


def _silhouette(Ws):
    """Mean silhouette of components, clustered by matching each fit to the first."""
    labels, points = [], []
    for W in Ws:
        order, _ = metrics.match_components(Ws[0], W)
        points.append(W[:, order].T)
        labels += range(W.shape[1])
    points = np.concatenate(points) + 1e-12
    return silhouette_score(points, labels, metric="cosine")


def table(stored=None):
    """How often each criterion is right, and within one, as Markdown."""
    rows = (stored or load("rank_choice"))["rows"]
    found = [answers(row) for row in rows]
    groups = {"all": rows, **_by_origin(rows)}
    groups |= {kind: _of_kind(rows, kind) for kind in dict.fromkeys(row["kind"] for row in rows)}
    names = dict.fromkeys(name for answer in found for name in answer)
    scored = {
        name: {
            key: _misses(group, [answers(row).get(name, "-") for row in group])
            for key, group in groups.items()
        }
        for name in names
    }
    lines = ["| criterion | " + " | ".join(groups) + " |", "|---" * (len(groups) + 1) + "|"]
    for name, misses in sorted(scored.items(), key=lambda item: -np.mean(item[1]["all"] <= 1)):
        cells = [_share(misses[key]) for key in groups]
        lines.append("| " + " | ".join([name, *cells]) + " |")
    return "\n".join(lines)


def confidence_table(stored=None):
    """How often the assessment is right at each level of confidence, as Markdown."""
    rows = [row for row in (stored or load("rank_choice"))["rows"] if "evidence" in row]
    groups = {"all": rows, **_by_origin(rows)}
    lines = ["| stability | confidence | " + " | ".join(groups) + " |", "|---" * 5 + "|"]
    for measured in (True, False):
        for level in ("high", "medium", "low", "none"):
            cells = []
            for group in groups.values():
                found = [(row, _assessment(row, measured)) for row in group]
                found = [(row, said) for row, said in found if said.confidence == level]
                misses = _misses([row for row, _ in found], [said.rank for _, said in found])
                cells.append(f"{len(found)}: {_share(misses)}" if found else "0")
            known = "measured" if measured else "not measured"
            lines.append("| " + " | ".join([known, level, *cells]) + " |")
    return "\n".join(lines)


def _assessment(row, measured):
    evidence = Evidence.from_record(row["evidence"])
    return assess(evidence if measured else without_stability(evidence))


def _by_origin(rows):
    chosen = [row for row in rows if row["kind"] in CHOSEN_ON]
    return {
        "kinds chosen on": chosen,
        "other kinds": [row for row in rows if row["kind"] not in CHOSEN_ON],
    }


def _of_kind(rows, kind):
    return [row for row in rows if row["kind"] == kind]


def _misses(rows, found):
    """How far each answer is from the rank; far where there is none. "-" was not asked."""
    return np.array(
        [
            99 if rank is None else abs(rank - row["rank"])
            for rank, row in zip(found, rows, strict=True)
            if rank != "-"
        ]
    )


def _share(misses):
    """Percent of answers that are right, and within one."""
    return f"{100 * np.mean(misses == 0):.0f} / {100 * np.mean(misses <= 1):.0f}"
