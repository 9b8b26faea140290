"""Activities of signatures in samples: mutations of each, with intervals from resampled counts."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from nmfmerge.api import transform
from nmfmerge.jobs.mutations.catalogue import Catalogue

_ROWS = 20_000  # samples that are fitted at once
BAND = (0.05, 0.95)  # quantiles of an interval


@dataclass(frozen=True, eq=False)
class Activities:
    """Mutations of each signature in each sample.

    Attributes
    ----------
    catalogue : Catalogue
        The counts.
    names : tuple of str
        Of the signatures.
    signatures : array (n_types, r)
        Each adds up to 1.
    values : array (r, n_samples)
        Mutations of each signature in each sample. Those of a sample add up to its mutations.
    low, high : arrays (r, n_samples)
        Interval of 90 %: quantiles of the activities in resampled counts, where each count is
        drawn from the Poisson distribution with this mean. The signatures are the same in all.
    cosine : array (n_samples,)
        Cosine of the counts of each sample and their fit.
    """

    catalogue: Catalogue
    names: tuple[str, ...]
    signatures: np.ndarray = field(repr=False)
    values: np.ndarray = field(repr=False)
    low: np.ndarray = field(repr=False)
    high: np.ndarray = field(repr=False)
    cosine: np.ndarray = field(repr=False)

    def only(self, order: Sequence[int], names: Sequence[str] = ()) -> "Activities":
        """Some of the signatures, in this order, with other names if any are given."""
        order = list(order)
        return replace(
            self,
            names=tuple(names) or tuple(self.names[k] for k in order),
            signatures=self.signatures[:, order],
            values=self.values[order],
            low=self.low[order],
            high=self.high[order],
        )

    def __repr__(self) -> str:
        return (
            f"Activities of {len(self.names)} signatures in {len(self.catalogue.samples)} samples: "
            f"median cosine {np.median(self.cosine):.3f}"
        )


def activities(
    catalogue: Catalogue,
    signatures: np.ndarray,
    names: Sequence[str],
    *,
    sparse: bool = False,
    n_resamples: int = 100,
    random_state: int = 0,
) -> Activities:
    """Fit the counts of each sample by known signatures, by the likelihood of Poisson counts.

    Parameters
    ----------
    catalogue : Catalogue
    signatures : array (n_types, r)
        Nonnegative, in the order of the types of the catalogue.
    names : sequence of str
        Of the signatures.
    sparse : bool
        Whether each sample is fitted by the few signatures that it needs (see `needed`), instead
        of by all.
    n_resamples : int
        Resampled counts of each sample, for the intervals.
    random_state : int
        Seed of the resampling.
    """
    S = np.ascontiguousarray((signatures / signatures.sum(axis=0)).T)
    X = np.ascontiguousarray(catalogue.counts.T)
    used = np.ones((len(X), len(S)), dtype=bool)
    if sparse:
        used = np.array([needed(x, S) for x in X])
    values = _fitted(X, S, used)
    drawn = _resampled(X, S, used, n_resamples, np.random.default_rng(random_state))
    low, high = np.quantile(drawn, BAND, axis=0) if n_resamples else (values, values)
    return Activities(catalogue, tuple(names), S.T, values.T, low.T, high.T, cosines(X, values @ S))


def needed(x: np.ndarray, S: np.ndarray) -> np.ndarray:
    """The signatures that the counts of one sample need; a boolean for each row of S.

    One signature after another is added, the one towards which the likelihood rises most, as long
    as the logarithm of the likelihood gains more than ½ log N + log r: N mutations, r signatures
    to choose from. Then those are taken out again that are worth less than this.
    """
    price = 0.5 * np.log(max(x.sum(), 2.0)) + np.log(len(S))
    used = np.zeros(len(S), dtype=bool)
    fit, level = np.full(len(x), x.sum() / len(x)), -np.inf
    for _ in range(len(S)):
        slope = S @ np.divide(x, fit, out=np.zeros_like(x), where=fit > 0)
        slope[used] = -np.inf
        more = used.copy()
        more[int(slope.argmax())] = True
        new_fit, new_level = _with(x, S, more)
        if new_level - level <= price:
            break
        used, fit, level = more, new_fit, new_level
    while used.sum() > 1:
        fewer = [(_without(x, S, used, k), k) for k in np.flatnonzero(used).tolist()]
        best, k = max(fewer)
        if level - best > price:
            break
        used[k], level = False, best
    return used


def _without(x: np.ndarray, S: np.ndarray, used: np.ndarray, k: int) -> float:
    fewer = used.copy()
    fewer[k] = False
    return _with(x, S, fewer)[1]


def _with(x: np.ndarray, S: np.ndarray, used: np.ndarray) -> tuple[np.ndarray, float]:
    """The fit of one sample by some signatures, and its log-likelihood up to a constant."""
    fit = (transform(x[None], S[used], beta_loss="kullback-leibler") @ S[used])[0]
    floor = np.finfo(np.float64).tiny
    return fit, float(x @ np.log(np.maximum(fit, floor)) - fit.sum())


def _fitted(X: np.ndarray, S: np.ndarray, used: np.ndarray) -> np.ndarray:
    """The activities in each row of X of the signatures that it may use.

    Samples that may use the same ones are fitted together.
    """
    out = np.zeros(used.shape)
    choices, which = np.unique(used, axis=0, return_inverse=True)
    for number, choice in enumerate(choices):
        rows = np.flatnonzero(which.ravel() == number)
        for start in range(0, len(rows), _ROWS):
            part = rows[start : start + _ROWS]
            weights = transform(X[part], S[choice], beta_loss="kullback-leibler")
            out[np.ix_(part, np.flatnonzero(choice))] = weights
    return out


def _resampled(
    X: np.ndarray, S: np.ndarray, used: np.ndarray, n: int, rng: np.random.Generator
) -> np.ndarray:
    """Activities in n resampled copies of the counts (n × n_samples × r)."""
    drawn = np.empty((n, *used.shape))
    at_once = max(1, _ROWS // len(X))
    for start in range(0, n, at_once):
        size = min(at_once, n - start)
        copies = rng.poisson(np.broadcast_to(X, (size, *X.shape))).astype(np.float64)
        fitted = _fitted(copies.reshape(-1, X.shape[1]), S, np.tile(used, (size, 1)))
        drawn[start : start + size] = fitted.reshape(size, *used.shape)
    return drawn


def cosines(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Cosine of each row of A with that of B; 0 where one is zero."""
    size = np.sqrt((A * A).sum(axis=1) * (B * B).sum(axis=1))
    return np.divide((A * B).sum(axis=1), size, out=np.zeros(len(A)), where=size > 0)
