"""Found signatures beside a catalogue of known ones: the most alike, and sums of a few."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.fields.mutations import MutationTypes
from nmfmerge.jobs.mutations.catalogue import Catalogue, catalogue

GAIN = 0.01  # by which the cosine must rise for one more known signature


class Match(NamedTuple):
    """The known signature that is most like a found one."""

    signature: str
    known: str
    cosine: float


class Part(NamedTuple):
    """A known signature in the sum that is most like a found one.

    Attributes
    ----------
    signature, known : str
        Names of the found signature and of the known one.
    share : float
        Of the mutations of the sum, from 0 to 1.
    cosine : float
        Of the found signature and the whole sum.
    """

    signature: str
    known: str
    share: float
    cosine: float


def known_signatures(table: Any, kind: MutationTypes, argument: str = "reference") -> Catalogue:
    """Read known signatures: a table of mutation types × signatures or the other way round."""
    known = catalogue(table, argument)
    if known.kind is not kind:
        raise ArgumentError(
            argument,
            f"has signatures of {known.kind.name}, and the table has counts of {kind.name}",
            expected=f"signatures of {kind.name}",
        )
    return known


def matches(W: np.ndarray, names: Sequence[str], known: Catalogue) -> list[Match]:
    """The known signature of the highest cosine for each column of W."""
    cosine = _units(W).T @ _units(known.counts)
    best = cosine.argmax(axis=1)
    return [
        Match(name, known.samples[j], float(cosine[i, j]))
        for i, (name, j) in enumerate(zip(names, best.tolist(), strict=True))
    ]


def decomposition(
    W: np.ndarray, names: Sequence[str], known: Catalogue, gain: float = GAIN
) -> list[Part]:
    """Each column of W as a sum of a few known signatures, the largest share first.

    One known signature after another is added, the one that raises the cosine most, as long as it
    rises by more than ``gain``; then those are taken out again without which it hardly falls.
    """
    R = known.counts / known.counts.sum(axis=0)
    parts = []
    for w, name in zip(W.T, names, strict=True):
        chosen, weights, cosine = _sum_of_few(w, R, gain)
        shares = weights / (weights.sum() or 1.0)
        for i in np.argsort(-shares, kind="stable").tolist():
            parts.append(Part(name, known.samples[chosen[i]], float(shares[i]), cosine))
    return parts


def _sum_of_few(w: np.ndarray, R: np.ndarray, gain: float) -> tuple[list[int], np.ndarray, float]:
    """The chosen columns of R, their weights, and the cosine of their sum with w."""
    chosen: list[int] = []
    weights, cosine = np.zeros(0), 0.0
    while len(chosen) < R.shape[1]:
        tried = [(_fit(w, R, [*chosen, j])[1], j) for j in range(R.shape[1]) if j not in chosen]
        best, j = max(tried)
        if best - cosine <= gain:
            break
        chosen, cosine = [*chosen, j], best
    while len(chosen) > 1:
        fewer = [(_fit(w, R, [i for i in chosen if i != j])[1], j) for j in chosen]
        best, j = max(fewer)
        if cosine - best > gain:
            break
        chosen, cosine = [i for i in chosen if i != j], best
    weights, cosine = _fit(w, R, chosen)
    return chosen, weights, cosine


def _fit(w: np.ndarray, R: np.ndarray, chosen: list[int]) -> tuple[np.ndarray, float]:
    """Weights of nonnegative least squares, and the cosine of the sum with w."""
    if not chosen:  # nnls corrupts memory without columns
        return np.zeros(0), 0.0
    from scipy.optimize import nnls  # slow to import

    weights, _ = nnls(R[:, chosen], w)
    fit = R[:, chosen] @ weights
    size = np.linalg.norm(fit) * np.linalg.norm(w)
    return weights, float(fit @ w / size) if size > 0 else 0.0


def _units(F: np.ndarray) -> np.ndarray:
    return np.asarray(F / np.linalg.norm(F, axis=0))
