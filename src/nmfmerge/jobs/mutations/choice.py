"""How many signatures? The rule of SigProfiler on the stability of each rank, or the assessment."""

from collections.abc import Sequence
from typing import NamedTuple

from nmfmerge.results.consensus import Consensus

MEAN, LEAST, SUM = 0.8, 0.2, 1.0  # silhouettes of stable signatures


class Stability(NamedTuple):
    """How stable the signatures of one rank are.

    Attributes
    ----------
    signatures : int
        The rank.
    mean, least : float
        Silhouettes: the mean and the least of the signatures.
    agreement : float
        Share of the fits that have all signatures, with a cosine of at least 0.95.
    fitting_error : float
        Of the consensus, in percent of the deviance of the margins.
    stable : bool
        Mean silhouette at least 0.8, the least at least 0.2, and their sum at least 1.0.
    """

    signatures: int
    mean: float
    least: float
    agreement: float
    fitting_error: float
    stable: bool


def stability_of(found: Consensus) -> tuple[Stability, ...]:
    """How stable the signatures of each rank are."""
    return tuple(
        Stability(
            rank,
            one.silhouette,
            one.least_silhouette,
            one.agreement,
            one.fitting_error,
            is_stable(one.silhouette, one.least_silhouette),
        )
        for rank in found.ranks
        for one in (found.at(rank),)
    )


def is_stable(mean: float, least: float) -> bool:
    """The rule of SigProfiler."""
    return mean >= MEAN and least >= LEAST and mean + least >= SUM


def chosen(found: Consensus, stability: Sequence[Stability], choose: str) -> tuple[int, str]:
    """The number of signatures, and why."""
    assessment = found.assess()
    if choose == "assessment":
        return found.first_choice, assessment.reason
    stable = [one.signatures for one in stability if one.stable]
    if not stable:
        rank = max(stability, key=lambda one: one.mean + one.least).signatures
        return rank, f"No number of signatures is stable; the least unstable is {rank}."
    rank = max(stable)
    return rank, f"The highest stable number of signatures is {rank}."
