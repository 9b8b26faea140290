"""Which rank? One assessment, shown by paths, fits, reports, the terminal and the explorer.

Input: fitting error, merge penalty, structure of the residual and, where it was measured,
stability at consecutive ranks. Output: a rank that stands out, a range, or that none does, with
the reason in words and a confidence.

Every criterion looks at neighbouring ranks only, so that a short path around one rank and a path
through all ranks judge that rank alike. `python -m benchmarks rank_choice` measures how often the
assessment is right on generated data of known rank, most of them of kinds that no threshold was
chosen on; the page on choosing the rank shows its tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np

from nmfmerge.losses import LOSSES

STRUCTURED = 1.5  # structure of the residual above which a component is clearly missing
FAINT = 1.25  # below which nothing is; NMF of pure noise leaves 1.0 to 1.2
IN_A_ROW = 4  # ranks without structure that are needed to believe it
FALL = 1.2  # factor by which the structure falls at the rank that takes up the last of it
STEEP_FALL = 1.6  # the same where nothing else is needed to believe it
BEND = 3.0  # factor by which gain and merge penalty fall at a rank that stands out
STABLE = (
    0.9  # cosine of W in the halves of the data; less than SAME_VECTOR, as each half is noisier
)
LEAST_RANKS = 4  # that are needed to tell anything
ROOM = 3  # ranks are judged up to this part of the smaller side; beyond, noise is fitted too well
NOTHING = 1e-4  # percent of ‖X‖²: a smaller error or penalty is a leftover of convergence


class Confidence(StrEnum):
    """How sure an assessment is.

    On generated data of known rank at least 95 % of "high" and 80 % of "medium" are within one.
    """

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    NONE = "none"


class Finding(StrEnum):
    """The findings at the rank of an assessment."""

    NOISE = "noise"  # from this rank on the residual is noise
    BEND = "bend"  # the next component brings far less, but the residual is not noise
    RANGE = "range"  # clear structure below the range, noise above it
    STABLE = "stable"  # fits agree up to this rank, and not beyond
    NONE = "none"  # no rank stands out
    WITHHELD = "withheld"  # too little to tell


_ARRAYS = ("ranks", "errors", "penalties", "structure", "stability")


@dataclass(frozen=True)
class Evidence:
    """The input of the assessment: one entry for each of consecutive ranks.

    ``errors`` and ``penalties`` are in percent of ‖X‖², or of what the loss has in its place.
    ``structure`` compares the residual with itself under random signs (`nmfmerge.ranks.residual`),
    about 1 for noise. ``stability`` is the smallest cosine between components found in both
    halves of the data, or with ``stable_in="fits"`` the smallest mean cosine between a component of
    a consensus and those of its fits. NaN marks values that were not measured.
    ``thresholds`` are the values of these two that the assessment compares with.
    """

    thresholds: ClassVar[Mapping[str, float]] = {"structure": STRUCTURED, "stability": STABLE}

    ranks: np.ndarray
    errors: np.ndarray
    penalties: np.ndarray
    structure: np.ndarray
    stability: np.ndarray
    shape: tuple[int, int]
    loss: str = "frobenius"
    stable_in: str = "halves"

    def usable(self) -> "Evidence":
        """The ranks that are low enough for these data."""
        keep = self.ranks <= min(self.shape) // ROOM
        return Evidence(
            self.ranks[keep], self.errors[keep], self.penalties[keep], self.structure[keep],
            self.stability[keep], self.shape, self.loss, self.stable_in,
        )  # fmt: skip

    def as_record(self) -> dict[str, Any]:
        """The evidence as values for JSON, which has no NaN."""
        arrays = {name: getattr(self, name).tolist() for name in _ARRAYS}
        known = {
            name: [value if np.isfinite(value) else None for value in values]
            for name, values in arrays.items()
        }
        facts = {"shape": list(self.shape), "loss": self.loss, "stable_in": self.stable_in}
        return known | facts

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Evidence":
        """Undo `as_record`."""
        ranks, errors, penalties, structure, stability = (
            np.array([np.nan if value is None else value for value in record[name]], dtype=float)
            for name in _ARRAYS
        )
        for values in (errors, penalties, structure, stability):
            if len(values) != len(ranks) or len(ranks) == 0:
                raise ValueError("the evidence about the rank has lists of different lengths")
        if not (np.diff(ranks) == 1).all():
            raise ValueError("the evidence about the rank is not of consecutive ranks")
        m, n = record["shape"]
        shape = (int(m), int(n))
        loss = str(record.get("loss", "frobenius"))  # older fits do not say
        stable_in = str(record.get("stable_in", "halves"))
        return cls(
            ranks.astype(int), errors, penalties, structure, stability, shape, loss, stable_in
        )

    def index(self, rank: int) -> int:
        """Index of a rank."""
        return rank - int(self.ranks[0])


@dataclass(frozen=True)
class Assessment:
    """The assessment of the rank, with its reason.

    Attributes
    ----------
    rank : int or None
        The most likely rank. Where none stands out (``confidence`` "none"), the most pronounced
        bend of the error; None where the data are too small to tell.
    low, high : int or None
        Range that the rank may lie in.
    confidence : Confidence
        "high", "medium", "low" or "none".
    finding : Finding
        What was found there.
    reason : str
        Why, in a sentence or two.
    """

    rank: int | None
    low: int | None
    high: int | None
    confidence: Confidence
    finding: Finding
    reason: str

    @property
    def stands_out(self) -> bool:
        """True if there is a rank of high or medium confidence."""
        return self.confidence in (Confidence.HIGH, Confidence.MEDIUM)

    def __str__(self) -> str:
        return self.reason

    def judge(self, rank: int) -> str:
        """One sentence that assesses a given rank."""
        if self.rank is None or not self.stands_out or rank == self.rank:
            return self.reason
        looks = "looks" if self.confidence is Confidence.HIGH else "may be"
        if rank < self.rank:
            return f"Rank {rank} {looks} too low. {self.reason}"
        if self.finding is Finding.BEND:
            return f"Rank {rank} goes beyond the rank that stands out. {self.reason}"
        return f"Rank {rank} {looks} too high. {self.reason}"


def assess(evidence: Evidence) -> Assessment:
    """Assess the rank from the evidence; with a confidence for the squared error alone."""
    found = _assess(evidence)
    calibrated = LOSSES[evidence.loss].calibrated or found.finding is Finding.WITHHELD
    return found if calibrated else _without_confidence(found, evidence)


def _without_confidence(found: Assessment, evidence: Evidence) -> Assessment:
    """The same assessment without a confidence, which is not calibrated for this loss."""
    rank, low, high = found.rank, found.low, found.high
    parts = {
        Finding.NOISE: f"what {rank} component{'s leave' if rank != 1 else ' leaves'} looks like "
        "noise" + f", what {(rank or 0) - 1} leave does not" * ((rank or 0) > 2),
        Finding.BEND: f"after rank {rank} one more component brings less than a third as much as "
        "the last",
        Finding.RANGE: f"from rank {low} on no clear structure is left, from rank {high} on none",
        Finding.STABLE: f"fits agree on all components up to rank {rank}, and not beyond",
        Finding.NONE: f"no rank stands out; the error bends most at rank {rank}",
    }
    said = parts[found.finding]
    if found.finding in (Finding.NOISE, Finding.BEND) and rank == last_stable(evidence.usable()):
        said += f", and fits agree on all components up to rank {rank}, not beyond"
    reason = (
        f"{said[0].upper()}{said[1:]}. No confidence is given: it is calibrated for the squared "
        "error, not for this loss."
    )
    return Assessment(rank, None, None, Confidence.NONE, found.finding, reason)


def _assess(evidence: Evidence) -> Assessment:
    known = evidence.usable()
    if len(known.ranks) < LEAST_RANKS or np.isnan(known.errors).any():
        return _withheld(evidence)
    noise, bend = noise_floor(known), last_bend(known)
    sharp = noise is not None and noise.fall > FALL
    if noise and sharp:
        near = _bend_near(known, noise.first)
        if near is not None and (near > 1 or noise.is_quiet):
            sure = Confidence.HIGH if noise.is_quiet else Confidence.MEDIUM
            return _noise(known, noise, sure, bend=near)
        stable = is_last_stable(known, noise.first)
        if noise.is_quiet and (stable or noise.fall > STEEP_FALL):
            return _noise(known, noise, Confidence.MEDIUM, stable=stable)
    if bend and bend > 1:
        stable = is_last_stable(known, bend)
        if stable or not sharp:
            agreed = stable or np.isnan(known.stability).all()
            return _bend(known, bend, Confidence.MEDIUM if agreed else Confidence.LOW)
    if noise and noise.last is not None and noise.holds:
        return _range(known, noise.first, noise.last)
    agreed_up_to = last_stable(known)
    return _none(known) if agreed_up_to is None else _stable(agreed_up_to)


@dataclass(frozen=True)
class NoiseFloor:
    """Where the residual becomes noise.

    ``first`` is the first of four ranks in a row that leave no clear structure, ``last`` the first
    of four that leave none at all (None if there are none), ``fall`` the factor by which the
    structure falls from the rank before to ``first``. ``is_quiet``: the ranks after ``first`` leave
    no structure at all. ``holds``: no higher rank leaves clear structure.
    """

    first: int
    last: int | None
    fall: float
    is_quiet: bool
    holds: bool


def noise_floor(evidence: Evidence) -> NoiseFloor | None:
    """The rank from which no clear structure is left; None where it is not reached or not known."""
    ranks, structure = evidence.ranks, evidence.structure
    if np.isnan(structure).any():
        return None
    structure = np.where(evidence.errors < NOTHING, 1.0, structure)
    first = _first_in_a_row(structure <= STRUCTURED)
    if first is None or (first == 0 and ranks[0] > 1):  # it may lie below the ranks that are known
        return None
    faint = structure <= FAINT
    last = _first_in_a_row(faint, first)
    return NoiseFloor(
        first=int(ranks[first]),
        last=None if last is None else int(ranks[last]),
        fall=np.inf if first == 0 else float(structure[first - 1] / structure[first]),
        is_quiet=bool(faint[first + 1 : first + 3].all()),
        holds=bool((structure[first:] <= STRUCTURED).all()),
    )


def last_bend(evidence: Evidence) -> int | None:
    """The highest rank after which both gain and merge penalty are far smaller."""
    bends = np.flatnonzero(bend_sizes(evidence) > BEND)
    return int(evidence.ranks[bends[-1]]) if len(bends) else None


def _bend_near(evidence: Evidence, rank: int) -> int | None:
    """The highest bend within one of a rank."""
    bends = evidence.ranks[bend_sizes(evidence) > BEND]
    near = bends[np.abs(bends - rank) <= 1]
    return int(near[-1]) if len(near) else None


def bend_sizes(evidence: Evidence) -> np.ndarray:
    """The factor by which gain and merge penalty fall after each rank, the lesser of the two.

    At rank 1, gain and penalty are all that it explains. NaN at the ends of the path.
    """
    errors, penalties = evidence.errors, evidence.penalties.astype(float)
    before = np.nan
    if evidence.ranks[0] == 1:
        before, penalties = 100.0, np.concatenate([[100 - errors[0]], penalties[1:]])
    gains = np.maximum(-np.diff(errors, prepend=before), NOTHING)
    penalties = np.maximum(penalties, NOTHING)
    falls = [values[:-1] / values[1:] for values in (gains, penalties)]
    return np.append(np.minimum(*falls), np.nan)


def largest_bend(evidence: Evidence) -> int:
    """The rank with the most pronounced bend; the lowest where there are too few to tell.

    Rank 1 is left out: its bend only reflects the mean of the data.
    """
    sizes = bend_sizes(evidence)
    sizes[evidence.ranks == 1] = np.nan
    known = np.flatnonzero(np.isfinite(sizes))
    return int(evidence.ranks[known[np.argmax(sizes[known])] if len(known) else 0])


def is_last_stable(evidence: Evidence, rank: int) -> bool:
    """True if the halves of the data give the same components up to about this rank only."""
    stable = evidence.stability >= STABLE
    first = max(0, evidence.index(rank) - 1)
    return any(
        stable[i] and not stable[i + 1 : i + 3].any()
        for i in range(first, min(evidence.index(rank) + 2, len(stable) - 2))
    )


def last_stable(evidence: Evidence) -> int | None:
    """The highest rank on whose components the fits of a consensus agree; None if it is not clear.

    It must have more than one component, and there must be higher ranks, where they do not agree.
    """
    stable = np.flatnonzero(evidence.stability >= STABLE)
    if evidence.stable_in != "fits" or len(stable) == 0 or stable[-1] == len(evidence.ranks) - 1:
        return None
    rank = int(evidence.ranks[stable[-1]])
    return rank if rank > 1 else None


def _first_in_a_row(where: np.ndarray, start: int = 0) -> int | None:
    """The first index from which a condition holds for several ranks in a row."""
    for i in range(start, len(where) - IN_A_ROW + 1):
        if where[i : i + IN_A_ROW].all():
            return i
    return None


def _noise(
    evidence: Evidence,
    noise: NoiseFloor,
    sure: Confidence,
    bend: int | None = None,
    stable: bool = False,
) -> Assessment:
    """A rank from which only noise is left; where the bend comes one rank before it, the bend."""
    rank = noise.first if bend is None else min(bend, noise.first)
    if evidence.errors[evidence.index(rank)] < NOTHING:
        why = f"{rank} component{'s fit' if rank > 1 else ' fits'} the data exactly"
        why += ", one fewer does not" * (rank > 1)
    elif rank < noise.first:
        why = "one more brings less than a third as much as the last, and then only noise is left"
    elif rank == 1:
        why = "what one component leaves looks like noise"
    else:
        why = f"what {rank} components leave looks like noise, what one fewer leaves does not"
        if bend is not None:
            why += ", and one more brings less than a third as much as the last"
        elif stable:
            both = "both halves of the data have the same components"
            both = "fits agree on all components" if evidence.stable_in == "fits" else both
            why += f", and {both} up to about here"
    if not noise.is_quiet:
        why += "; weak structure may be left"
    reason = f"Rank {rank} stands out ({sure} confidence): {why}."
    return Assessment(rank, rank, noise.first, sure, Finding.NOISE, reason)


def _bend(evidence: Evidence, bend: int, sure: Confidence) -> Assessment:
    stands_out = "stands out" if sure is Confidence.MEDIUM else "may stand out"
    reason = (
        f"Rank {bend} {stands_out} ({sure} confidence): one more component brings less than a "
        "third as much as the last. What is left is not all noise: further components find finer "
        "detail."
    )
    if sure is Confidence.LOW:
        halves = "Fits of the two halves of the data"
        halves = "The fits that agree" if evidence.stable_in == "fits" else halves
        reason += f" {halves} do not single out this rank."
    return Assessment(bend, bend, bend, sure, Finding.BEND, reason)


def _stable(rank: int) -> Assessment:
    sure = Confidence.LOW
    reason = (
        f"Rank {rank} may stand out ({sure} confidence): fits agree on all of its components, and "
        "at higher ranks they do not. Neither the error nor the residual singles it out."
    )
    return Assessment(rank, rank, rank, sure, Finding.STABLE, reason)


def _range(evidence: Evidence, low: int, high: int) -> Assessment:
    where = f"about {low}" if low == high else f"between {low} and {high}"
    reason = (
        f"Of ranks {evidence.ranks[0]} to {evidence.ranks[-1]}, {where} components may do (low "
        "confidence): fewer leave clear structure, more fit noise, and no single rank stands out."
    )
    return Assessment(low, low, high, Confidence.LOW, Finding.RANGE, reason)


def _none(evidence: Evidence) -> Assessment:
    first, last = int(evidence.ranks[0]), int(evidence.ranks[-1])
    reason = f"No rank from {first} to {last} stands out: {_fall_in_words(evidence)}"
    if evidence.structure[-1] > STRUCTURED:
        reason += ", and what is left at the highest rank still has structure"
    reason += ". Take as many components as you can interpret."
    rank = largest_bend(evidence)
    return Assessment(rank, None, None, Confidence.NONE, Finding.NONE, reason)


def _fall_in_words(evidence: Evidence) -> str:
    """How fast the error falls over the upper half of the ranks."""
    errors = np.maximum(evidence.errors[len(evidence.ranks) // 2 :], NOTHING)
    percent = 100 * (1 - (errors[-1] / errors[0]) ** (1 / max(1, len(errors) - 1)))
    return f"each further component lowers the error by about {percent:.2g} %"


def _withheld(evidence: Evidence) -> Assessment:
    m, n = evidence.shape
    if np.isnan(evidence.errors).any():
        reason = "The rank is not judged: the run was stopped before that."
    elif min(m, n) < LEAST_RANKS * ROOM:
        reason = (
            f"The rank is not judged: {m} × {n} data are too small to tell components from noise "
            f"(at least {LEAST_RANKS * ROOM} rows and columns are needed)."
        )
    elif evidence.ranks[-1] > min(m, n) // ROOM:
        reason = (
            f"The rank is not judged: above {min(m, n) // ROOM}, a third of the smaller side of "
            f"the data ({m} × {n}), noise is fitted as well as components."
        )
    else:
        reason = f"The rank is not judged: that takes at least {LEAST_RANKS} consecutive ranks."
    return Assessment(None, None, None, Confidence.NONE, Finding.WITHHELD, reason)
