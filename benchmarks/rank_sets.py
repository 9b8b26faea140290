"""Generated matrices of known rank, of many kinds: what `rank_choice` judges criteria by.

``CHOSEN_ON`` are the kinds that criteria and thresholds were chosen on, ``HELD_OUT`` those that
were only looked at afterwards.
"""

import numpy as np

from nmfmerge import datasets

SHAPE = (80, 100)


def gaussian(seed):
    for noise in (0.01, 0.05, 0.15):
        for overlap in (0.3, 0.6):
            for rank in (3, 6, 10):
                yield rank, f"noise {noise}, overlap {overlap}", bumps(rank, overlap, noise, seed)


def lcms(seed):
    for noise in (0.01, 0.05, 0.2):
        for overlap in (0.2, 0.8):
            for rank in (4, 8, 12):
                data = datasets.lcms_like(
                    100, 150, rank, coelution=overlap, noise=noise, random_state=seed
                )
                yield rank, f"noise {noise}, coelution {overlap}", data.X


def melody(seed):
    for noise in (0.0, 0.1, 0.3):
        for notes in ("EDCDEEE", "EDCFGDEC", "CDEFGABAGFEDC"):
            data = datasets.melody(65, 120, notes=notes, noise=noise, random_state=seed)
            yield data.n_components, f"noise {noise}", data.X


def bumps(rank, overlap, noise, seed, shape=SHAPE):
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


def sparse_product(rng, m, n, rank, shape=0.5):
    """WH of gamma factors, with mean 1."""
    L = rng.gamma(shape, 1, (m, rank)) @ rng.gamma(shape, 1, (rank, n))
    return L / L.mean()


def poisson(seed):
    rng = np.random.default_rng((1, seed))
    for depth in (0.5, 3, 20):
        for rank in (3, 6, 10):
            for m, n in ((80, 100), (150, 300)):
                L = sparse_product(rng, m, n, rank)
                yield rank, f"mean count {depth}, {m} × {n}", rng.poisson(depth * L).astype(float)


def unequal(seed):
    rng = np.random.default_rng((2, seed))
    for least in (0.3, 0.1):
        for noise in (0.01, 0.1):
            for rank in (3, 6, 10):
                W, H = rng.gamma(0.4, 1, (90, rank)), rng.gamma(0.4, 1, (rank, 120))
                W, H = W / np.linalg.norm(W, axis=0), H / np.linalg.norm(H, axis=1)[:, None]
                L = (W * np.geomspace(1, least, rank)) @ H
                X = np.maximum(L + noise * L.std() * rng.standard_normal(L.shape), 0)
                yield rank, f"sizes 1 to {least}, noise {noise}", X


def baseline(seed):
    """Peaks on a smooth background, which counts as a component."""
    rng = np.random.default_rng((3, seed))
    t, s = np.linspace(0, 1, 120), np.linspace(0, 1, 90)
    for level in (0.1, 1.0):
        for noise in (0.01, 0.05):
            for rank in (3, 6, 9):
                W = rng.gamma(0.3, 1, (90, rank))
                centres = rng.permutation((np.arange(rank) + rng.uniform(0.2, 0.8, rank)) / rank)
                H = np.exp(-0.5 * ((t - centres[:, None]) / (0.4 / rank)) ** 2)
                background = np.outer(1 + 0.5 * np.sin(3 * s), 1 + t)
                L = W @ H + level * (W @ H).mean() * background
                X = np.maximum(L + noise * L.std() * rng.standard_normal(L.shape), 0)
                yield rank + 1, f"background {level}, noise {noise}", X


def rank_one(seed):
    rng = np.random.default_rng((4, seed))
    for m, n in ((80, 60), (30, 200)):
        for noise in (0.03, 0.3):
            L = np.outer(rng.gamma(2, 1, m), rng.gamma(2, 1, n))
            X = np.maximum(0, L + noise * L.std() * rng.standard_normal(L.shape))
            yield 1, f"normal noise {noise}, {m} × {n}", X
        for depth in (2, 20):
            L = np.outer(rng.gamma(2, 1, m), rng.gamma(2, 1, n))
            yield 1, f"mean count {depth}, {m} × {n}", rng.poisson(depth * L / L.mean()) * 1.0


def exact(seed):
    rng = np.random.default_rng((5, seed))
    for rank in range(2, 8):
        yield rank, "gamma factors", sparse_product(rng, 40, 60, rank)
        W, H = (rng.random((p, rank)) * (rng.random((p, rank)) < 0.5) for p in (50, 45))
        yield rank, "half zeros", W @ H.T


def no_structure(seed):
    """Independent entries: their mean is the only component."""
    rng = np.random.default_rng((6, seed))
    for m, n in ((80, 100), (40, 300)):
        yield 1, f"uniform, {m} × {n}", rng.random((m, n))
        yield 1, f"exponential, {m} × {n}", rng.exponential(1, (m, n))
        yield 1, f"counts, {m} × {n}", rng.poisson(1.5, (m, n)).astype(float)


def cells(seed):
    """Counts of cells, a few programmes each, with depths that differ and noise above Poisson's."""
    rng = np.random.default_rng((7, seed))
    for depth in (2, 10):
        for rank in (4, 7, 10):
            genes = rng.gamma(0.3, 1, (rank, 150)) * rng.gamma(1, 1, 150)
            usage = rng.dirichlet(np.full(rank, 0.3), 300)
            L = usage @ (genes / genes.sum(axis=1, keepdims=True)) * 150 * depth
            L *= rng.lognormal(0, 0.4, (300, 1))
            yield rank, f"depth {depth}", rng.poisson(L * rng.gamma(5, 1 / 5, L.shape)) * 1.0


def texts(seed):
    """Counts of words by frequency rank, topics that share the frequent words."""
    rng = np.random.default_rng((8, seed))
    zipf = 1 / np.arange(1, 301)
    for words in (60, 300):
        for rank in (4, 8):
            topics = zipf * rng.gamma(0.15, 1, (rank, 300))
            topics /= topics.sum(axis=1, keepdims=True)
            mixture = rng.dirichlet(np.full(rank, 0.1), 200)
            X = np.array([rng.multinomial(words, p) for p in mixture @ topics])
            yield rank, f"{words} words", X[:, X.any(axis=0)].astype(float)


CHOSEN_ON = {"Gaussian": gaussian, "LC-MS": lcms, "melody": melody}
HELD_OUT = {
    "Poisson": poisson, "unequal": unequal, "baseline": baseline, "rank 1": rank_one,
    "exact": exact, "no structure": no_structure, "cells": cells, "texts": texts,
}  # fmt: skip


def cases(seeds):
    """Yield kind, rank, description, seed and X."""
    for kind, make in (CHOSEN_ON | HELD_OUT).items():
        for seed in seeds:
            for rank, what, X in make(seed):
                yield kind, rank, what, seed, X
