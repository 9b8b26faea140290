"""Sentences on how well several starts agree about a result."""

from collections.abc import Sequence

import numpy as np

from nmfmerge.metrics import SAME_COMPONENT, SAME_VECTOR
from nmfmerge.report.words import count, number, percent, several
from nmfmerge.results.consensus import Consensus
from nmfmerge.results.factorization import Factorization

_MOST_NAMES = 5
LONELY = 0.01  # relative: a best start that is better than all others by more stands alone


def lead(result: Factorization) -> str:
    """One sentence on the errors and the components from several starts; nothing for one."""
    if not result.starts:
        return ""
    return f"{_errors(result)}; {_components(result)}."


def of_fits(rank: int, known: object) -> str:
    """One sentence on how the fits of a consensus agree at a rank; nothing without one."""
    if not isinstance(known, Consensus) or rank not in known:
        return ""
    at = known.at(rank)
    have = f"{at.agreement:.0%} of {at.n_fits} fits have all components".replace("%", " %")
    found = at.n_found()
    least = int(found.argmin())
    weakest = ""
    if at.agreement < 1:
        weakest = f"; component {least + 1} is found least often, in {found[least]} fits"
    return f"{have} (cosine of at least {SAME_VECTOR}){weakest}."


def care(result: Factorization, names: Sequence[str]) -> list[str]:
    """Warnings about starts that disagree; ``names`` of the components."""
    if not result.starts:
        return []
    groups = _not_always(result).items()
    return [_found_from(result, m, group, names) for m, group in groups] + _best_stands_alone(
        result
    )


def _found_from(result: Factorization, m: int, group: list[int], names: Sequence[str]) -> str:
    """How much is lost without components that are found from m starts only."""
    alone = len(group) == 1
    it, they, verb = ("it", "it", "is") if alone else ("them", "they", "are")
    which = _listed([names[k] for k in group])
    found = f"C{which[1:]} {verb} found from {m} of {len(result.starts)} starts only"
    without = [s for s in result.starts if (s.similarity[group] < SAME_COMPONENT).any()]
    above = min(_excess(result, start.fitting_error) for start in without)
    if above <= LONELY:
        return (
            f"{found}: solutions without {it} fit the data nearly as well (an error "
            f"{percent(100 * above)} higher). Do not rest a conclusion on {it} alone."
        )
    return (
        f"{found}; starts that missed {'it' if alone else 'one of them'} ended with an error at "
        f"least {percent(100 * above)} higher. "
        f"More starts would tell whether {they} can be relied on."
    )


def _best_stands_alone(result: Factorization) -> list[str]:
    """True if one start was better than all others."""
    errors = [start.fitting_error for start in result.starts]
    above = min(_excess(result, e) for i, e in enumerate(errors) if i != result.best_start)
    if above <= LONELY:
        return []
    return [
        f"Only one of {len(errors)} starts found a fit as good as this; the error of the next best "
        f"is {percent(100 * above)} higher. More starts might find a better one still."
    ]


def _excess(result: Factorization, error: float) -> float:
    """Relative excess of an error over that of the result; 0 where that is zero or infinite."""
    best = result.fitting_error
    return max(0.0, error / best - 1) if 0 < best < np.inf else 0.0


def all_agree(result: Factorization) -> bool:
    """True if there were several starts, and every component is found from each of them."""
    return bool(result.starts) and not _not_always(result)


def _errors(result: Factorization) -> str:
    errors = [start.fitting_error for start in result.starts]
    low, high = number(min(errors)), number(max(errors))
    if low == high:
        return f"All {len(errors)} starts ended at an error of {low} %"
    return f"From {len(errors)} starts the error was {low} to {high} %"


def _components(result: Factorization) -> str:
    missed = _not_always(result)
    n, r = len(result.starts), int(_is_there(result).sum())
    n_always = r - sum(map(len, missed.values()))
    if r == 0:
        return "there is no component that is not zero"
    if n_always == r:
        if r == 1:
            return "the component is found from every start"
        return f"all {r} components are found from every start"
    always = f"{n_always} of {count(r, 'component')} {'is' if n_always == 1 else 'are'}"
    if n_always == 0:
        always = "the component is not" if r == 1 else f"none of the {r} components is"
    numbers = _numbers(result)
    rest = several(
        [f"{_listed([numbers[k] for k in group])} from {m} of {n}" for m, group in missed.items()]
    )
    n_missed = r - n_always
    these = "this one" if n_missed == 1 else f"these {n_missed}"
    separator = ":" if n_always == 0 else ","
    return f"{always} found from every start{separator} {rest}; treat {these} with care"


def _not_always(result: Factorization) -> dict[int, list[int]]:
    """Components not found from every start, by the number of starts that found them."""
    found = np.maximum(result.n_starts_found(), 1)  # by the best start itself
    groups: dict[int, list[int]] = {}
    for k in np.flatnonzero((found < len(result.starts)) & _is_there(result)).tolist():
        groups.setdefault(int(found[k]), []).append(k)
    return dict(sorted(groups.items(), reverse=True))


def _is_there(result: Factorization) -> np.ndarray:
    """Which components are not zero."""
    present: np.ndarray = result.shares() > 0
    return present


def _numbers(result: Factorization) -> list[str]:
    return [result.label(k).removeprefix("component ") for k in range(result.n_components)]


def _listed(names: Sequence[str]) -> str:
    """Names with their noun, the first few of them."""
    if len(names) > _MOST_NAMES:
        shown = ", ".join(names[:_MOST_NAMES]) + f" and {len(names) - _MOST_NAMES} more"
    else:
        shown = several(names)
    return f"component{'' if len(names) == 1 else 's'} {shown}"
