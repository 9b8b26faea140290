"""Names that were given at one rank, carried to the components that match them at another."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from nmfmerge.metrics import SAME_COMPONENT
from nmfmerge.results.factorization import Factorization, is_number


class Carried(NamedTuple):
    """A name, the start that it was given at, and the cosine of the two components."""

    name: str
    start: int
    cosine: float


def given_names(result: Factorization) -> dict[int, str]:
    """Names of components that are more than numbers, by component."""
    return {i: name for i, name in enumerate(result.names) if not is_number(name)}


def carried_names(
    result: Factorization, sources: Iterable[tuple[int, Factorization]]
) -> dict[int, Carried]:
    """Names for components without one, from solutions that have some.

    Parameters
    ----------
    result : Factorization
        The solution that names are wanted for.
    sources : iterable of tuples
        Starts and their solutions, those that go first first. A component takes the name of the one
        that it matches, if the cosine w·w' h·h' of both is at least `SAME_COMPONENT`. No name is
        given twice.
    """
    used = set(given_names(result).values())
    free = [i for i in range(result.n_components) if i not in given_names(result)]
    found: dict[int, Carried] = {}
    for start, source in sources:
        names = {k: name for k, name in given_names(source).items() if name not in used}
        open_ = [i for i in free if i not in found]
        if not names or not open_:
            continue
        cosines = _cosines(source, [*names], result, open_)
        for a, b in zip(*linear_sum_assignment(-cosines), strict=True):
            if cosines[a, b] >= SAME_COMPONENT:
                name = [*names.values()][a]
                found[open_[b]] = Carried(name, start, float(cosines[a, b]))
                used.add(name)
    return found


def with_names(result: Factorization, carried: Mapping[int, Carried]) -> list[str]:
    """All names of a solution, numbers where there is no name."""
    own = result.names or [str(i + 1) for i in range(result.n_components)]
    return [carried[i].name if i in carried else name for i, name in enumerate(own)]


def same_component(
    before: Factorization | None, selected: int, result: Factorization
) -> int | None:
    """Index of the selected component in a new solution; if it is gone, of a new component."""
    if before is None or selected >= before.n_components:
        return None
    if before.n_components == result.n_components:
        return selected
    old, new = before.W.T, result.W.T
    same = [i for i, w in enumerate(new) if np.array_equal(w, old[selected])]
    fresh = [i for i, w in enumerate(new) if not any(np.array_equal(w, v) for v in old)]
    return next(iter(same or fresh), None)


def _cosines(
    first: Factorization, some: list[int], second: Factorization, others: list[int]
) -> np.ndarray:
    """Cosine w·w' h·h' of some components of one solution with others of another."""
    W = _unit(first.W.T[some]) @ _unit(second.W.T[others]).T
    H = _unit(first.H[some]) @ _unit(second.H[others]).T
    return W * H


def _unit(F: np.ndarray) -> np.ndarray:
    """Rows of norm 1; zero rows stay."""
    F = np.asarray(F, dtype=np.float64)
    F = _divided(F, F.max(axis=1, initial=0))  # so that no square is too large
    return _divided(F, np.linalg.norm(F, axis=1))


def _divided(F: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    return F / np.where(sizes > 0, sizes, 1)[:, None]
