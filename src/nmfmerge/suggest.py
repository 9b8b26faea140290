"""Which rank? Criteria that read a path through all ranks, and what they say together.

Comes in: fitting errors, merge penalties and, where it was measured, stability at each rank. Goes
out: suggestions with a reason in words and how sure it is. `python -m benchmarks rank_choice`
measures how often each criterion finds the rank of generated data; the page on choosing the rank
shows its table. What ships is what did best there.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

STABLE = 0.8  # cosine from which a component counts as found again
_LEAST = 5  # ranks that a criterion needs to tell anything
_ROUNDING = 1e-12  # of the largest error or penalty: less is zero


@dataclass(frozen=True)
class Suggestion:
    """A rank to consider.

    Attributes
    ----------
    rank : int
        Number of components.
    reason : str
        Why, in words.
    confidence : str
        "high" if all criteria point to within one of this rank, "medium" if most do, else "low".
    """

    rank: int
    reason: str
    confidence: str

    def __str__(self) -> str:
        return f"rank {self.rank} ({self.confidence} confidence): {self.reason}"


@dataclass(frozen=True)
class Evidence:
    """What criteria look at: one entry for each rank, ascending.

    ``stability`` is the least cosine of the components found in both halves of the data, NaN
    where it was not measured.
    """

    ranks: np.ndarray
    errors: np.ndarray
    penalties: np.ndarray
    stability: np.ndarray


def error_knee(evidence: Evidence) -> int | None:
    """The rank at which the logarithm of the error bends most: farthest below its chord."""
    errors = evidence.errors
    if len(errors) < _LEAST or not 0 < errors[0] < np.inf:
        return None
    drop = _logarithm(errors[0], errors)
    if drop[-1] == 0:
        return None
    below = drop / drop[-1] - np.linspace(0, 1, len(drop))
    return int(evidence.ranks[np.argmax(below)]) if below.max() > 0 else None


def penalty_gap(evidence: Evidence) -> int | None:
    """The last rank before the merge penalty falls most: its components are all needed."""
    penalties = evidence.penalties[1:]
    if len(penalties) < _LEAST - 1 or not 0 < np.max(penalties) < np.inf:
        return None
    fall = np.diff(_logarithm(np.max(penalties), penalties))
    return int(evidence.ranks[1:][np.argmax(fall)])


def penalty_levels(evidence: Evidence) -> int | None:
    """The rank that best divides merge penalties into a high level and a low one."""
    penalties = evidence.penalties[1:]
    if len(penalties) < _LEAST - 1 or not 0 < np.max(penalties) < np.inf:
        return None
    values = _logarithm(np.max(penalties), penalties)
    spread = [_spread(values[:i]) + _spread(values[i:]) for i in range(1, len(values))]
    return int(evidence.ranks[1:][np.argmin(spread)])


def last_stable(evidence: Evidence) -> int | None:
    """The highest rank at which both halves of the data give the same components."""
    measured = ~np.isnan(evidence.stability)
    if np.count_nonzero(measured) < _LEAST:
        return None
    stable = measured & (evidence.stability >= STABLE)
    return int(evidence.ranks[stable][-1]) if stable.any() else None


Criterion = Callable[[Evidence], int | None]

_REASONS: dict[Criterion, str] = {
    error_knee: "the fitting error bends here: it falls more slowly with each further component",
    penalty_gap: "with one more component, two of them could be merged at far less cost",
    penalty_levels: "up to here merging components is costly, beyond it is cheap",
    last_stable: "the highest rank at which both halves of the data give the same components",
}


def suggest(evidence: Evidence) -> list[Suggestion]:
    """Ranks to consider, the most likely first; none if the path is too short or X is zero.

    Three criteria vote: the gap of the merge penalty, the knee of the error, and stability in split
    halves of the data or, where that was not measured, the two levels of the merge penalty. The
    middle one comes first; what the others say follows.
    """
    measured = not np.isnan(evidence.stability).all()
    criteria = (penalty_gap, error_knee, last_stable if measured else penalty_levels)
    found: dict[Criterion, int] = {}
    for criterion in criteria:
        rank = criterion(evidence)
        if rank is not None:
            found[criterion] = rank
    if not found:
        return []
    ordered = sorted(found.values())
    middle = ordered[(len(ordered) - 1) // 2]
    others = sorted(set(ordered) - {middle}, key=lambda rank: abs(rank - middle))
    return [_suggestion(rank, middle, found, evidence) for rank in (middle, *others)]


def _suggestion(
    rank: int, middle: int, found: dict[Criterion, int], evidence: Evidence
) -> Suggestion:
    near = sum(abs(vote - rank) <= 1 for vote in found.values())
    confidence = "low"
    if len(found) > 1 and 2 * near > len(found):
        confidence = "high" if near == len(found) and rank == middle else "medium"
    reason = "; ".join(_REASONS[criterion] for criterion, vote in found.items() if vote == rank)
    if rank == evidence.ranks[-1]:
        reason += "; but the path ends here, so try a higher rank"
    if rank == middle and confidence == "low":
        said = ", ".join(str(vote) for vote in sorted(found.values()))
        reason += f"; criteria disagree ({said}), so none of them is to be trusted on these data"
    return Suggestion(rank, reason, confidence)


def _logarithm(unit: float, values: np.ndarray) -> np.ndarray:
    """log(unit / values), with values that are rounding errors taken as equal."""
    return -np.log(np.maximum(values / unit, _ROUNDING))


def _spread(values: np.ndarray) -> float:
    return float(np.sum(np.square(values - values.mean())))
