"""How often criteria find the rank of generated data: ours, and those that people use now."""

import warnings
from dataclasses import replace
from time import process_time

import numpy as np
from joblib import Parallel, delayed
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import squareform
from sklearn.metrics import silhouette_score

from benchmarks.common import load, store
from nmfmerge import datasets, metrics, nmf, rank_path
from nmfmerge.suggest import (
    Evidence,
    Suggestion,
    error_knee,
    last_stable,
    penalty_gap,
    penalty_levels,
    suggest,
)

N_MAX = 20  # of every path, whatever the rank
STARTS = 10  # random starts for each rank, for what people use now
SILHOUETTE = 0.8  # the usual threshold
OURS = {
    "knee of log error": error_knee,
    "gap of merge penalty": penalty_gap,
    "two levels of merge penalty": penalty_levels,
    "stable in split halves": last_stable,
}


def cases(seeds):
    """Yield kind, rank, noise, overlap, seed and X."""
    for seed in range(seeds):
        for noise in (0.01, 0.05, 0.15):
            for overlap in (0.3, 0.6):
                for rank in (3, 6, 10):
                    yield "Gaussian", rank, noise, overlap, seed, bumps(rank, overlap, noise, seed)
        for noise in (0.01, 0.05, 0.2):
            for overlap in (0.2, 0.8):
                for rank in (4, 8, 12):
                    data = datasets.lcms_like(
                        100, 150, rank, coelution=overlap, noise=noise, random_state=seed
                    )
                    yield "LC-MS", rank, noise, overlap, seed, data.X
        for noise in (0.0, 0.1, 0.3):
            for notes in ("EDCDEEE", "EDCFGDEC", "CDEFGABAGFEDC"):
                data = datasets.melody(65, 120, notes=notes, noise=noise, random_state=seed)
                yield "melody", data.n_components, noise, 0.0, seed, data.X


def bumps(rank, overlap, noise, seed, shape=(80, 100)):
    """Gaussian features: bumps as wide as ``overlap`` of their distance, two of them in each H."""
    rng = np.random.default_rng(seed)

    def side(p):
        centres, width = (np.arange(rank) + 0.5) * p / rank, overlap * p / rank
        return np.exp(-0.5 * ((np.arange(p)[:, None] - centres) / width) ** 2)

    W = side(shape[0]) * rng.uniform(0.5, 1.5, rank)
    H = side(shape[1])
    H = H[:, rng.permutation(rank)] + 0.6 * H[:, rng.permutation(rank)]
    X = W @ H.T
    return np.maximum(X + noise * X.max() * rng.standard_normal(X.shape), 0)


def main(seeds="3", jobs="1"):
    """Judge every criterion on every data set; ``jobs`` processes at once."""
    work = [delayed(judge)(*case) for case in cases(int(seeds))]
    rows = Parallel(n_jobs=int(jobs))(work)
    store("rank_choice", {"n_max": N_MAX, "starts": STARTS, "rows": rows})
    print(table())
    print(confidence_table())


def judge(kind, rank, noise, overlap, seed, X):
    """What criteria look at on one data set, and what those over random starts say."""
    warnings.simplefilter("ignore")
    began = process_time()
    path = rank_path(X, N_MAX, stability=True)
    path_seconds = process_time() - began
    began = process_time()
    over_random_starts = over_starts(X)
    starts_seconds = process_time() - began
    print(kind, rank, noise, overlap, seed, flush=True)
    return {
        "kind": kind, "rank": rank, "noise": noise, "overlap": overlap, "seed": seed,
        "shape": list(X.shape),
        "errors": path.fitting_errors.tolist(),
        "penalties": path.penalties[1:].tolist(),
        "stability": path.stability.tolist(),
        "over starts": over_random_starts,
        "path seconds": path_seconds,
        "starts seconds": starts_seconds,
    }  # fmt: skip


def answers(row):
    """What each criterion says of a stored data set, and the confidence of our suggestion."""
    ranks, errors = np.arange(1, N_MAX + 1), np.array(row["errors"])
    evidence = Evidence(
        ranks, errors, np.array([np.nan, *row["penalties"]]), np.array(row["stability"])
    )
    first = next(iter(suggest(evidence)), Suggestion(-99, "", "none"))
    quick = replace(evidence, stability=np.full(len(ranks), np.nan))
    found = {
        "**`path.suggest()`, stability measured**": first.rank,
        "**`path.suggest()`**": suggest(quick)[0].rank,
    }
    found |= {name: criterion(evidence) for name, criterion in OURS.items()}
    found["knee of error"] = knee(ranks, errors)
    found["drop above white noise"] = above_noise(ranks, errors, row["shape"])
    return found | row["over starts"], first.confidence


def knee(ranks, errors):
    """The rank farthest below the line between the ends of the error curve."""
    fall = (errors[0] - errors) / (errors[0] - errors[-1])
    return int(ranks[np.argmax(fall - np.linspace(0, 1, len(ranks)))])


def above_noise(ranks, errors, shape):
    """The last rank whose component lowers the error by more than the largest of white noise.

    σ²(√m + √n)² is the square of the largest singular value of noise of variance σ².
    """
    m, n = shape
    freedom = m * n - ranks * (m + n - ranks)
    edge = errors / freedom * (np.sqrt(m) + np.sqrt(n)) ** 2
    above = -np.diff(errors) > edge[1:]
    return int(ranks[1:][above][-1]) if above.any() else int(ranks[0])


def over_starts(X):
    """Cophenetic correlation, dispersion and silhouette over random starts at each rank."""
    ranks = np.arange(2, N_MAX + 1)
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
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    most = {kind: max(row["noise"] for row in rows if row["kind"] == kind) for kind in kinds}
    noisy = np.array([row["noise"] == most[row["kind"]] for row in rows])
    groups = {"all": np.full(len(rows), True)}
    groups |= {kind: np.array([row["kind"] == kind for row in rows]) for kind in kinds}
    groups |= {"little noise": ~noisy, "most noise": noisy}
    lines = ["| criterion | " + " | ".join(groups) + " |", "|---" * (len(groups) + 1) + "|"]
    found = [answers(row)[0] for row in rows]
    scored = {name: _misses(rows, [answer[name] for answer in found]) for name in found[0]}
    for name, misses in sorted(scored.items(), key=lambda item: -np.mean(item[1] <= 1)):
        cells = [_share(misses[group]) for group in groups.values()]
        lines.append("| " + " | ".join([name, *cells]) + " |")
    return "\n".join(lines)


def confidence_table(stored=None):
    """How often the first suggestion is right at each level of confidence, as Markdown."""
    rows = (stored or load("rank_choice"))["rows"]
    found = [answers(row) for row in rows]
    misses = _misses(rows, [next(iter(answer.values())) for answer, _ in found])
    levels = np.array([level for _, level in found])
    lines = ["| confidence | data sets | right / within one |", "|---|---|---|"]
    for level in ("high", "medium", "low", "none"):
        if (levels == level).any():
            count = np.count_nonzero(levels == level)
            lines.append(f"| {level} | {count} | {_share(misses[levels == level])} |")
    return "\n".join(lines)


def _misses(rows, found):
    """How far each answer is from the rank; far where there is none."""
    return np.array(
        [
            99 if rank is None else abs(rank - row["rank"])
            for rank, row in zip(found, rows, strict=True)
        ]
    )


def _share(misses):
    """Percent of answers that are right, and within one."""
    return f"{100 * np.mean(misses == 0):.0f} / {100 * np.mean(misses <= 1):.0f}"
