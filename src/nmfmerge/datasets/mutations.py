"""Mutation catalogues of known truth: signatures, sparse activities, Poisson counts."""

from itertools import product

import numpy as np

from nmfmerge.datasets.base import Axis, Dataset

_CHANGES = ("C>A", "C>G", "C>T", "T>A", "T>C", "T>G")
_TYPES = [f"{a}[{change}]{b}" for change in _CHANGES for a, b in product("ACGT", "ACGT")]
_MOST_ALIKE = 0.8  # cosine of two signatures
_TRIES = 1000
_TIMES = 50.0  # as many mutations as usual in a hypermutated sample


def mutation_catalogue(
    n_signatures: int = 5,
    n_samples: int = 100,
    *,
    mutations: float = 3000.0,
    density: float = 0.4,
    overdispersion: float = 0.0,
    n_hypermutated: int = 0,
    random_state: int = 0,
) -> Dataset:
    """Make counts of the 96 types of single base substitutions in samples, with known signatures.

    Parameters
    ----------
    n_signatures, n_samples : int
        Number of signatures and of samples. The first signature is nearly flat; no two have a
        cosine above 0.8.
    mutations : float
        About how many a signature makes in a sample where it is active.
    density : float
        Share of the samples in which a signature is active. Each sample has at least one.
    overdispersion : float
        The variance of a count of mean y is y + overdispersion·y²; 0 is Poisson.
    n_hypermutated : int
        How many samples, the last ones, have fifty times more mutations of one signature.
    random_state : int
        Seed.

    Returns
    -------
    Dataset
        X has mutation types in rows and samples in columns. W holds the signatures, which add up
        to 1, and H the activities: expected mutations of each signature in each sample.
    """
    if n_signatures < 1 or n_samples < 1 or not 0 <= n_hypermutated <= n_samples:
        raise ValueError(
            f"n_signatures={n_signatures}, n_samples={n_samples}, n_hypermutated={n_hypermutated}: "
            "use at least one signature and sample, and no more hypermutated samples than samples"
        )
    rng = np.random.default_rng(random_state)
    W = _signatures(n_signatures, rng)
    H = rng.lognormal(np.log(mutations), 0.7, (n_signatures, n_samples))
    active = rng.random(H.shape) < density
    active[rng.integers(n_signatures, size=n_samples), np.arange(n_samples)] = True
    H *= active
    for j in range(n_samples - n_hypermutated, n_samples):
        k = int(rng.integers(n_signatures))
        H[k, j] = _TIMES * mutations * rng.uniform(0.7, 1.4)
    names = [f"sample{j + 1:0{len(str(n_samples))}d}" for j in range(n_samples)]
    return Dataset(
        name="mutation_catalogue",
        X=_counts(W @ H, overdispersion, rng),
        n_components=n_signatures,
        rows=Axis("MutationType", np.array(_TYPES)),
        columns=Axis("sample", np.array(names)),
        W=W,
        H=H,
        description="Generated counts of single base substitutions with sparse activities.",
    )


def _signatures(n: int, rng: np.random.Generator) -> np.ndarray:
    """A nearly flat one, then ones that favour one or two of the six substitutions."""
    found = [rng.gamma(6.0, 1.0, len(_TYPES))]
    for _ in range(_TRIES * n):
        if len(found) == n:
            break
        weights = rng.dirichlet(np.full(len(_CHANGES), 0.3))
        new = rng.gamma(rng.uniform(0.2, 1.0), 1.0, len(_TYPES)) * np.repeat(weights, 16)
        if max(_cosine(new, old) for old in found) < _MOST_ALIKE:
            found.append(new)
    else:
        raise ValueError(f"n_signatures={n} is too many to be different: use fewer")
    W = np.stack(found, axis=1)
    return np.asarray(W / W.sum(axis=0))


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def _counts(means: np.ndarray, overdispersion: float, rng: np.random.Generator) -> np.ndarray:
    """Poisson counts, of rates that vary by a gamma distribution."""
    if overdispersion > 0:
        means = means * rng.gamma(1 / overdispersion, overdispersion, means.shape)
    return rng.poisson(means).astype(np.float64)
