"""What a reader wants to know first, in plain sentences.

Comes in: a result and what else was measured: errors with one component fewer and one more, the
error of standard NMF, a path through all ranks. Goes out: whether the rank is too low, too high or
fine; what NMF-Merge changed; how stable the components are.

The rank is judged by what a component of noise would bring: of noise of the size of the residual,
the leading singular vectors carry the share (1/√m + 1/√n)². That this tells ranks below, at and
above the true one apart is tested on generated data of known rank, with several kinds of noise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from nmfmerge.metrics import next_merges, shares
from nmfmerge.report import stability
from nmfmerge.report.words import apart, count, number, percent
from nmfmerge.result import Factorization
from nmfmerge.result_path import RankPath

AS_NOISE = 2.5  # times what a component of noise carries: no more than chance
MUCH = 0.1  # of the error: a component that lowers it by more is not to be missed
MOST = 0.5  # of the error: a component that lowers it by more is missing
KNEE = 0.3  # of what the last component brought: the next one brings far less
NEXT_TO_NOTHING = 1e-3  # percent: a smaller error is not worth a component
SAME = 1e-3  # relative: errors that differ by less are called the same
CHEAP = 5.0  # times what a component of noise carries: a merge that might be done
EXACT = 1e-8  # percent
ROUNDING = 1e-12  # of ‖WH‖²: a merge that costs less costs nothing
_LOWER = {True: "lower", False: "higher"}


class Rank(StrEnum):
    """What can be said of a rank."""

    TOO_LOW = "too low"
    MORE_TO_FIND = "more to find"
    FINE = "fine"
    TOO_HIGH = "too high"


@dataclass(frozen=True)
class Neighbours:
    """Errors in percent at this rank, with one component fewer and one more; None: not known."""

    error: float
    fewer: float | None
    more: float | None


def verdict(
    result: Factorization, about: Mapping[str, Any], path: RankPath | None = None
) -> list[tuple[str, str]]:
    """Topics, each with what can be said of it; those of which nothing is known are left out."""
    said = {
        "Rank": " ".join(filter(None, (of_rank(result, about, path), _suggested(result, path)))),
        "Against standard NMF": against_standard(result, about),
        "Stability": stability.lead(result),
    }
    return [(topic, sentence) for topic, sentence in said.items() if sentence]


def of_rank(result: Factorization, about: Mapping[str, Any], path: RankPath | None = None) -> str:
    """Whether the rank is too low, too high or fine; nothing where that cannot be told."""
    near = neighbours(result, about, path)
    kind = judged(result, about, path)
    if near is None or kind is None:
        cheap = cheap_merges(result)
        if not cheap:
            return ""
        return f"Fewer components might do; try {count(result.n_components - cheap, 'component')}."
    return _SENTENCES[kind](near, result)


def judged(
    result: Factorization, about: Mapping[str, Any], path: RankPath | None = None
) -> Rank | None:
    """What the errors beside this rank say of it; None where they are not known or not enough."""
    near = neighbours(result, about, path)
    return None if near is None else judge(near, (len(result.W), result.H.shape[1]))


def neighbours(
    result: Factorization, about: Mapping[str, Any], path: RankPath | None = None
) -> Neighbours | None:
    """The errors beside this rank: of the path, or those that were measured."""
    r, error = result.n_components, result.fitting_error
    given = about.get("neighbours") or {}
    fewer, more = (_known(given.get(name)) for name in ("fewer", "more"))
    if path is not None:
        fewer, more = (
            path[rank].fitting_error if rank in path else other
            for rank, other in ((r - 1, fewer), (r + 1, more))
        )
    if fewer is None and r == 1:
        fewer = 100.0
    if r == 0 or not np.isfinite(error) or (more is None and (fewer is None or r == 1)):
        return None
    return Neighbours(error, fewer, more)


def _known(error: Any) -> float | None:
    return float(error) if error is not None and np.isfinite(error) else None


def judge(near: Neighbours, shape: tuple[int, int]) -> Rank | None:
    """Judge a rank by the errors beside it, for data of ``shape``."""
    error, fewer, more = near.error, near.fewer, near.more
    if fewer is not None and fewer < NEXT_TO_NOTHING:
        return Rank.TOO_HIGH
    if error < NEXT_TO_NOTHING:
        return None if fewer is None else Rank.FINE
    chance = _by_chance(error, shape)
    if fewer is not None and fewer - error <= chance:
        return Rank.TOO_HIGH
    if more is None:
        return None
    gain = error - more
    if gain >= MOST * error:
        return Rank.TOO_LOW
    if gain <= chance or (fewer is not None and gain < KNEE * (fewer - error)):
        return Rank.FINE if fewer is not None else None
    return Rank.TOO_LOW if gain >= MUCH * error else Rank.MORE_TO_FIND


def _of_noise(shape: tuple[int, int]) -> float:
    """Share of white noise that its leading singular vectors carry."""
    m, n = shape
    return float((m**-0.5 + n**-0.5) ** 2)


def _by_chance(error: float, shape: tuple[int, int]) -> float:
    """What one more component may lower an error by if only noise is left."""
    return AS_NOISE * _of_noise(shape) * error


def _too_low(near: Neighbours, result: Factorization) -> str:
    assert near.more is not None
    now, then = apart(near.error, near.more)
    return (
        f"This rank looks too low: one more component would take the error from {now} % to "
        f"{then} %. Try more."
    )


def _more_to_find(near: Neighbours, result: Factorization) -> str:
    assert near.more is not None
    now, more, fewer = apart(near.error, near.more, near.fewer or np.inf)
    raised = f", and one fewer raise it to {fewer} %" if near.fewer is not None else ""
    return (
        f"No rank stands out here: one more component would lower the error a little, from {now} % "
        f"to {more} %{raised}. What is left is more than noise; more components would find more, "
        "each of less weight."
    )


def _fine(near: Neighbours, result: Factorization) -> str:
    assert near.fewer is not None
    gain = 0.0 if near.more is None else max(0.0, near.error - near.more)
    now, fewer, more = apart(near.error, near.fewer, near.error - gain)
    text = f"This rank looks right: one component fewer would raise the error from {now} % to "
    if near.more is None or near.error < NEXT_TO_NOTHING:
        return f"{text}{fewer} %."
    if gain <= _by_chance(near.error, (len(result.W), result.H.shape[1])):
        lowered = f"lower it to {more} % only" if more != now else "not lower it"
        return f"{text}{fewer} %, and one more would {lowered}, no more than fitting noise does."
    return (
        f"{text}{fewer} %, while one more would bring far less ({now} % to {more} %). Something is "
        "left that is more than noise."
    )


def _too_high(near: Neighbours, result: Factorization) -> str:
    assert near.fewer is not None
    now, fewer = apart(near.error, max(near.fewer, near.error))
    how_many = count(_enough(result), "component")
    less = f"would be {fewer} % instead of {now} %, which is no more than fitting noise does"
    if now == fewer:
        less = f"would be {now} % as well"
    return f"This rank looks too high: with one component fewer the error {less}. Try {how_many}."


_SENTENCES = {
    Rank.TOO_LOW: _too_low,
    Rank.MORE_TO_FIND: _more_to_find,
    Rank.FINE: _fine,
    Rank.TOO_HIGH: _too_high,
}


def _suggested(result: Factorization, path: RankPath | None) -> str:
    """What the path through all ranks suggests, unless its criteria disagree."""
    best = (path.suggest() if path is not None else [])[:1]
    if not best or best[0].confidence == "low":
        return ""
    same = best[0].rank == result.n_components
    which = "this rank" if same else f"rank {best[0].rank}"
    return f"The path through all ranks suggests {which} ({best[0].confidence} confidence)."


def cheap_merges(result: Factorization) -> int:
    """How many further merges cost little more than a component of noise carries."""
    if (
        result.n_components < 2
        or result.fitting_error < EXACT
        or not shares(result.W, result.H).all()
        or not np.isfinite(result.model_norm2)
    ):
        return 0
    return _merges_below(result, CHEAP * _noise2(result))


def _enough(result: Factorization) -> int:
    """How many components are left when all are merged that cost little or nothing."""
    total = result.model_norm2
    if not np.isfinite(total):
        return result.n_components - 1
    least = max(CHEAP * _noise2(result), ROUNDING * total)
    return result.n_components - max(1, _merges_below(result, least))


def _noise2(result: Factorization) -> float:
    """Square of what a component of noise carries, if the residual is noise."""
    return 2 * result.objective * _of_noise((len(result.W), result.H.shape[1]))


def _merges_below(result: Factorization, penalty: float) -> int:
    """How many merges can be done, the cheapest first, before one costs more than a penalty."""
    penalties = next_merges(result.W, result.H).penalties
    return int(np.argmax(np.append(penalties > penalty, True)))


def against_standard(result: Factorization, about: Mapping[str, Any]) -> str:
    """What NMF-Merge changed against standard NMF; nothing where that was not measured."""
    measured = about.get("standard")
    if measured and np.isfinite(measured.get("fitting_error", np.nan)):
        merged, n = result.fitting_error, int(measured.get("n_init", 1))
        standard, stopped = float(measured["fitting_error"]), measured.get("status") == "max_time"
    else:
        compare = about.get("compare") or {}
        errors = [compare.get(name) or [] for name in ("standard_errors", "merge_errors")]
        if not all(errors):
            return ""
        standard, merged, n, stopped = min(errors[0]), min(errors[1]), len(errors[0]), False
    return _compared(standard, merged, n, stopped)


def _compared(standard: float, merged: float, n: int, stopped: bool) -> str:
    starts = "the same start" if n == 1 else f"the same {n} starts"
    ended = "was stopped by its time limit" if stopped else "ended"
    who = f"Standard NMF from {starts} {ended} at "
    if not np.isfinite(merged) or max(standard, merged) < EXACT:
        return f"{who}the same error."
    if max(standard, merged) < NEXT_TO_NOTHING:
        return f"{who}next to nothing, as NMF-Merge did."
    relative = (standard - merged) / max(standard, EXACT)
    if abs(relative) < SAME:
        return f"{who}the same error, {number(merged)} %."
    before, after = apart(standard, merged)
    change = percent(float(f"{100 * abs(relative):.2g}"))
    return f"{who}{before} %; NMF-Merge at {after} %, {change} {_LOWER[relative > 0]}."
