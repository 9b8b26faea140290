"""Consensus of many fits: how many are needed, by NMF and by NMF-Merge, and which rank is chosen.

``python -m benchmarks consensus [PART ...] [FITS]``: the parts below, with at most so many fits.
"""

import tempfile
import time
import warnings
from itertools import combinations
from pathlib import Path

import numpy as np

from benchmarks.common import run_parts
from nmfmerge import consensus, datasets
from nmfmerge.metrics import SAME_VECTOR, match_components

SEEDS = (0, 1, 2)
COUNTS = (5, 10, 20, 50, 100)
LOSSES = ("frobenius", "kullback-leibler")


def main(*words):
    """Run all parts, or those named, and store them."""
    warnings.simplefilter("ignore")
    most = next((int(word) for word in words if word.isdecimal()), max(COUNTS))
    names = [word for word in words if not word.isdecimal()]

    def fits():
        """Fits that are needed: components found, agreement, and the same answer from seeds."""
        return [row for case in cases() for row in by_count(*case, most)]

    def ranks():
        """The assessed rank of generated counts of known rank, and the last rank with agreement."""
        return [assessed(seed, loss, min(most, 20)) for seed in range(20) for loss in LOSSES]

    run_parts((fits, ranks), names, "consensus")


def cases():
    """Yield name, X, the true components (rows of H), the loss, and how data are drawn."""
    lcms = datasets.lcms_like(n_mz=200, n_scans=300, n_compounds=12, random_state=1)
    yield "LC-MS, 12 compounds", lcms.X.T, lcms.W.T, "frobenius", None
    yield "LC-MS, 12 compounds, rows drawn", lcms.X.T, lcms.W.T, "frobenius", "rows"
    for samples, signatures, overdispersion in ((60, 5, 0.0), (100, 12, 0.05), (300, 20, 0.05)):
        data = datasets.mutation_catalogue(
            signatures, samples, overdispersion=overdispersion, random_state=0
        )
        X, H = (data.X, data.H) if data.X.shape[0] == samples else (data.X.T, data.W.T)
        name = f"{signatures} signatures, {samples} samples" + ", overdispersed" * (
            overdispersion > 0
        )
        yield name, X, H, "kullback-leibler", "poisson"


def by_count(name, X, truth, loss, resample, most):
    """One row for each method and number of fits; the fits of fewer are those of more."""
    rows = []
    for merge in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            spent = dict.fromkeys(SEEDS, 0.0)
            for n_fits in [count for count in COUNTS if count <= most]:
                found = []
                for seed in SEEDS:
                    began = time.perf_counter()
                    result = consensus(
                        X, len(truth), n_fits=n_fits, merge=merge, beta_loss=loss,
                        resample=resample, random_state=seed,
                        checkpoint=Path(folder) / f"{seed}.npz",
                    )  # fmt: skip
                    spent[seed] += time.perf_counter() - began
                    found.append(result.results[0])
                method = "NMF-Merge" if merge else "NMF"
                rows.append(row(name, method, n_fits, truth, found, list(spent.values())))
                print(rows[-1], flush=True)
    return rows


def row(name, method, n_fits, truth, found, seconds):
    """The consensus of every seed beside the truth, and beside those of the other seeds."""
    beside = [match_components(truth.T, at.H.T)[1] for at in found]
    pairs = [match_components(a.H.T, b.H.T)[1].min() for a, b in combinations(found, 2)]
    return {
        "data": name,
        "method": method,
        "fits": n_fits,
        "components": len(truth),
        "found": float(np.mean([(cosines >= SAME_VECTOR).sum() for cosines in beside])),
        "least cosine": float(min(cosines.min() for cosines in beside)),
        "agreement": float(np.mean([at.agreement for at in found])),
        "silhouette": float(np.mean([at.silhouette for at in found])),
        "between seeds": float(min(pairs)),
        "iterations": float(np.mean([at.n_iter.mean() for at in found])),
        "seconds": float(np.mean(seconds)),
    }


def assessed(seed, loss, n_fits):
    """One generated matrix of counts: its rank, the assessed one, and what the fits say alone."""
    X, rank = counts(seed)
    result = consensus(
        X, range(1, rank + 5), n_fits=n_fits, resample="poisson", beta_loss=loss, tol=1e-3
    )
    assessment = result.assess()
    stable = [at.n_components for at in result.results if at.likeness.min() >= 0.9]
    rule = [
        at.n_components
        for at in result.results
        if at.silhouette >= 0.8 and at.least_silhouette >= 0.2
    ]
    return {
        "seed": seed,
        "loss": loss,
        "shape": f"{X.shape[0]} × {X.shape[1]}",
        "rank": rank,
        "assessed": assessment.rank,
        "finding": str(assessment.finding),
        "confidence": str(assessment.confidence),
        "highest with mean cosine 0.9": max(stable, default=0),
        "highest with silhouettes 0.8 and 0.2": max(rule, default=0),
    }


def counts(seed):
    """Poisson counts of sparse components, some of them overdispersed; and their number."""
    rng = np.random.default_rng(seed)
    rank, m = int(rng.integers(3, 9)), int(rng.integers(50, 120))
    H = rng.gamma(rng.choice([0.2, 0.4]), 1, (rank, 96)) + 1e-6
    H /= H.sum(axis=1, keepdims=True)
    W = rng.gamma(0.5, 10 ** rng.uniform(2, 4), (m, rank))
    means = (W * (rng.random(W.shape) < rng.choice([0.5, 1]))) @ H
    if rng.random() < 0.4:
        means *= rng.gamma(20, 1 / 20, means.shape)
    return rng.poisson(means).astype(float), rank
