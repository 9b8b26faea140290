"""Kullback–Leibler: time to scikit-learn's loss, whether merging pays, a large corpus."""

import resource
import time
import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import NMF
from threadpoolctl import threadpool_limits

from benchmarks.common import has_real_data, load, print_rows, store
from nmfmerge import datasets, metrics, nmf, nmf_merge
from nmfmerge.matrices import wrap
from reproduce import real

KL = {"beta_loss": "kullback-leibler"}
SETS = {  # name: loader, rank, scikit-learn's iterations, starts to equal loss
    "pf1": (real.load_pf1, 13, 1000, 4),
    "lcms": (lambda: real.load_lcms("wt15"), 17, 1000, 4),
    "mhll": (real.load_mhll, 3, 2000, 4),
    "brca21": (real.load_brca21, 5, 5000, 4),
    "pbmc3k": (real.load_pbmc3k, 10, 200, 2),
    "tdt2": (real.load_tdt2, 20, 200, 2),
}
MERGED = {  # name: loader, rank, random starts
    "pf1": (real.load_pf1, 13, 30),
    "lcms": (lambda: real.load_lcms("wt15"), 17, 17),
    "swimmer": (real.load_swimmer, 16, 30),
    "mhll": (real.load_mhll, 3, 30),
    "brca21": (real.load_brca21, 5, 30),
    "brca21, r = 8": (real.load_brca21, 8, 30),
}
SMALL = {"generated": (lambda: datasets.lcms_like(40, 60, 4), 4, 200, 2)}  # with --quick
LEVELS = {"4500 (whole genomes)": 1.0, "450": 0.1, "135 (exomes)": 0.03}
CORPORA = {  # name: shape, tokens, threads
    "one thread": ((18_774, 55_911), 3_500_000, 1),  # the shape of 20 Newsgroups
    "all cores": ((18_774, 55_911), 3_500_000, None),
    "single cells": ((68_579, 20_387), 82_500_000, None),  # the shape of 68 k blood cells
}
CORPUS_RANK = 10
DOCUMENTS = 20_000  # at a time
BETTER = 0.1  # percent of the error


def main(*words):
    """Run parts, all or those named, on the data sets named, or on those not yet stored.

    ``--again`` measures what is stored, too; ``--quick`` tries all parts on small generated data
    and stores nothing.
    """
    warnings.simplefilter("ignore")
    quick, again = "--quick" in words, "--again" in words
    names = [word for word in words if not word.startswith("--") and word not in PARTS]
    for part in [word for word in words if word in PARTS] or PARTS:
        known = rows_of(part)
        every = ["small"] if quick and part != "both_losses" else list(PARTS[part][1])
        chosen = names or (every if again or quick else [one for one in every if one not in known])
        for name in [one for one in every if one in chosen]:
            began = time.perf_counter()
            row = {"data": name, **PARTS[part][0](name, quick)}
            print(f"\n{part}, {name}: {time.perf_counter() - began:.0f} s")
            print_rows([row])
            if not quick:
                known[name] = row
                store(f"kl/{part}", {"rows": [known[one] for one in every if one in known]})


def rows_of(part):
    """The stored rows of a part, by the name of the data."""
    return {row["data"]: row for row in (load(f"kl/{part}") or {"rows": []})["rows"]}


def to_equal_loss(name, quick):
    """Time of scikit-learn's MU divided by our time to its loss, one thread, the same starts.

    A start that ends in another optimum, above the loss of MU, counts with its time to the end.
    """
    loader, r, n_iter, n_starts = SMALL["generated"] if quick else SETS[name]
    X = loader().X
    if sp.issparse(X):  # scikit-learn's updates mistake the order of the values of a CSC matrix
        X = sp.csr_array(X)
    nmf(X, r, init="random", max_iter=30, **KL)  # compiles
    with threadpool_limits(1):
        starts = [_to_equal_loss(X, r, seed, n_iter) for seed in range(n_starts)]
    ratios = [theirs / ours for theirs, ours, *_ in starts]
    same = [ratio for ratio, start in zip(ratios, starts, strict=True) if start[3]]
    return {
        "shape": f"{X.shape[0]} × {X.shape[1]}",
        "r": r,
        "starts": n_starts,
        "MU iterations": n_iter,
        "MU (s)": float(np.median([start[0] for start in starts])),
        "our iterations": int(np.median([start[2] for start in starts])),
        "ours (s)": float(np.median([start[1] for start in starts])),
        "times faster": float(np.median(ratios)),
        "least": min(ratios),
        "reached": sum(start[3] for start in starts),
        "times faster, of those that reached it": float(np.median(same or [np.nan])),
    }


def _to_equal_loss(X, r, seed, n_iter):
    """Seconds of both, our iterations, and whether we reached the loss of MU."""
    W, H = (F * wrap(X).unit for F in wrap(X).random_start(r, np.random.default_rng(seed)))
    model = NMF(r, init="custom", solver="mu", beta_loss="kullback-leibler", max_iter=n_iter, tol=0)
    began = time.thread_time()
    W = model.fit_transform(X, W=np.ascontiguousarray(W.T), H=H)
    theirs = time.thread_time() - began
    goal = metrics.fitting_error(X, W, model.components_, **KL)

    def arrived(progress):
        return progress.fitting_error <= goal * (1 + 1e-6)

    found = nmf(X, r, tol=1e-6, init="random", random_state=seed, callback=arrived, **KL)
    again = {"tol": 1e-12, "max_iter": found.n_iter, "random_state": seed, "n_jobs": 1}
    seconds = [_seconds(X, r, time.thread_time, **again)[0] for _ in "123"]
    return theirs, min(seconds), found.n_iter, found.fitting_error <= goal * 1.0001


def merging(name, quick):
    """NMF-Merge against standard NMF from the same random starts, and the best of four of these."""
    loader, r, n_starts = (SMALL["generated"][0], 4, 8) if quick else MERGED[name]
    X, inits = loader().X, ["random"] * n_starts
    errors, seconds = {}, {}
    for method in (nmf, nmf_merge):
        began = time.process_time()
        found = method(X, r, init=inits, random_state=0, **KL)
        seconds[method] = time.process_time() - began
        errors[method] = np.array([start.fitting_error for start in found.starts])
    plain, merged = errors[nmf], errors[nmf_merge]
    fours = [plain[i : i + 4].min() for i in range(0, n_starts - 3, 4)]
    margin = BETTER / 100 * plain
    wins, losses = (merged < plain - margin).sum(), (merged > plain + margin).sum()
    return {
        "r": r,
        "starts": n_starts,
        "plain": f"{plain.mean():.4f} ± {plain.std():.4f}",
        "best of 4 plain": f"{np.mean(fours):.4f}",
        "merge": f"{merged.mean():.4f} ± {merged.std():.4f}",
        "lower / equal / higher": f"{wins} / {n_starts - wins - losses} / {losses}",
        "exact, plain": int((plain < 1e-3).sum()),
        "exact, merge": int((merged < 1e-3).sum()),
        "time / plain": seconds[nmf_merge] / seconds[nmf],
    }


def corpus(name, quick):
    """An iteration and a whole fit of a generated corpus, and the most memory of the process."""
    shape, n_tokens, threads = CORPORA[name] if not quick else ((300, 900), 20_000, None)
    X = generated_corpus(shape, n_tokens)
    with threadpool_limits(threads):
        _seconds(X, CORPUS_RANK, tol=0, max_iter=12)  # compiles
        few, many = (_seconds(X, CORPUS_RANK, tol=0, max_iter=n)[0] for n in (12, 32))
        seconds, fit = _seconds(X, CORPUS_RANK, tol=1e-4)
    return {
        "shape": f"{X.shape[0]} × {X.shape[1]}",
        "stored": X.nnz,
        "r": CORPUS_RANK,
        "iteration (s)": (many - few) / 20,
        "fit to tol 1e-4 (s)": seconds,
        "iterations": fit.n_iter,
        "error (%)": fit.fitting_error,
        "log-likelihood less constant": float(-fit.objective),
        "most memory (GiB)": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def _seconds(X, r, clock=time.perf_counter, **settings):
    began = clock()
    result = nmf(X, r, init="random", **settings, **KL)
    return clock() - began, result


def generated_corpus(shape, n_tokens, n_topics=20, seed=0):
    """Documents of words from mixtures of topics, word frequencies by Zipf's law; counts (CSR)."""
    m, n = shape
    rng = np.random.default_rng(seed)
    words = rng.permutation(1 / np.arange(3, n + 3) ** 1.05)
    topics = (words * rng.gamma(0.15, size=(n_topics, n))).cumsum(axis=1)
    lengths = rng.lognormal(0.0, 0.9, m)
    tokens = rng.poisson(n_tokens * lengths / lengths.sum())
    mixtures = rng.dirichlet(np.full(n_topics, 0.1), m)
    shares = np.stack(
        [rng.multinomial(count, mix) for count, mix in zip(tokens, mixtures, strict=True)]
    )
    parts = range(0, m, DOCUMENTS)  # so that not all tokens are in memory
    return sp.vstack([_documents(shares[i : i + DOCUMENTS], topics, rng) for i in parts], "csr")


def _documents(shares, topics, rng):
    """Counts of words of documents, which have so many tokens of each topic."""
    rows, columns = [], []
    for topic, cumulated in enumerate(topics):
        rows.append(np.repeat(np.arange(len(shares)), shares[:, topic]))
        places = rng.random(len(rows[-1])) * cumulated[-1]
        columns.append(np.searchsorted(cumulated, places))
    at = np.concatenate(rows), np.concatenate(columns)
    shape = len(shares), topics.shape[1]
    return sp.csr_array(sp.coo_array((np.ones(len(at[0])), at), shape=shape))


def both_losses(name, quick):
    """Cosine of the signature that is recovered worst, by either loss, from the same counts."""
    least = {"frobenius": [], "kullback-leibler": []}
    for seed in range(4, 6 if quick else 14):
        X, signatures = _mutations(seed, LEVELS[name])
        for loss, cosines in least.items():
            W = nmf_merge(X, 6, beta_loss=loss).W
            cosines.append(metrics.match_components(signatures, W)[1].min())
    squared, kl = (np.array(cosines) for cosines in least.values())
    return {
        "squared error": f"{squared.mean():.3f} ± {squared.std():.3f}",
        "Kullback–Leibler": f"{kl.mean():.3f} ± {kl.std():.3f}",
        "better under Kullback–Leibler": f"{(kl > squared).sum()} of {len(kl)}",
    }


def _mutations(seed, level):
    """Counts of 120 tumours and their six signatures, as in the gallery's example."""
    rng = np.random.default_rng(seed)
    kinds = (
        (8.0, 1, 1, 1, 1, 1, 1), (0.2, 1, 1, 1, 1, 1, 1), (0.3, 0, 0, 1, 0, 0.1, 0),
        (0.5, 1, 0.1, 0.1, 0.2, 0, 0), (0.5, 0.1, 1, 1, 0, 0, 0.1), (1.0, 0, 0, 0.2, 0.2, 1, 1),
    )  # fmt: skip
    each = [rng.gamma(shape, 1.0, 96) * np.repeat(weights, 16) for shape, *weights in kinds]
    signatures = np.stack(each, axis=1)
    signatures /= signatures.sum(axis=0)
    activities = rng.lognormal(7.0, 0.8, (6, 120))
    activities *= rng.random((6, 120)) < 0.5
    activities[0] = rng.lognormal(6.5, 0.5, 120)
    counts = np.random.default_rng(1000 + seed).poisson(level * signatures @ activities)
    return counts, signatures


def table():
    """The rows of both losses as the page on the loss has them."""
    lines = [
        "| mutations of a tumour | squared error | Kullback–Leibler | better under "
             "Kullback–Leibler |", "|---|---|---|---|"]  # fmt: skip
    rows = rows_of("both_losses")
    lines += [
        "| " + " | ".join(str(value) for value in rows[name].values()) + " |" for name in rows
    ]
    return "\n".join(lines)


PARTS = {  # function, names of its rows
    "to_equal_loss": (to_equal_loss, SETS if has_real_data() else ()),
    "merging": (merging, MERGED if has_real_data() else ()),
    "corpus": (corpus, CORPORA),
    "both_losses": (both_losses, LEVELS),
}
