"""What to be careful about in a result, in plain sentences."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from nmfmerge.datasets.base import Dataset
from nmfmerge.kernels import gram64
from nmfmerge.metrics import next_merges, shares
from nmfmerge.plot.side import sides
from nmfmerge.report import stability
from nmfmerge.report.verdict import EXACT, assessment_of
from nmfmerge.report.words import count, ended, number, percent, several
from nmfmerge.result import Factorization, Status
from nmfmerge.result_path import RankPath

TINY_SHARE = 0.1  # percent of the fit
PARALLEL = 0.95  # cosine
CHEAP = 5.0  # times what a component of noise carries: a merge that might be done
MISSING = 10.0  # generalized singular value: WH has a tenth of what X has
_MOST_PAIRS = 5


def warnings_of(
    result: Factorization,
    data: Dataset | None = None,
    about: Mapping[str, Any] | None = None,
    path: RankPath | None = None,
) -> list[str]:
    """Find what a reader of the result should be careful about.

    Parameters
    ----------
    result : Factorization
        The result.
    data : Dataset, optional
        Its axes, to say where components are; without it, they have numbers only.
    about, path : dict and RankPath, optional
        What else is known, as in `page`. Merges that look cheap are mentioned only where the rank
        may be too high.

    Returns
    -------
    sentences : list of str
        Empty where nothing was found.
    """
    checks = [_not_converged, stability.care, _zero, _weak, _parallel]
    if _may_be_too_high(result, about or {}, path):
        checks.append(_mergeable)
    checks += [_missing, _exact, _full_rank]
    names = _names(result, data)
    return [sentence for check in checks for sentence in check(result, names)]


def _may_be_too_high(
    result: Factorization, about: Mapping[str, Any], path: RankPath | None
) -> bool:
    """True if a lower rank stands out, or nothing is known about other ranks."""
    assessment = assessment_of(result, about, path)
    if assessment is None or assessment.rank is None:
        return True
    return assessment.stands_out and assessment.rank < result.n_components


def _names(result: Factorization, data: Dataset | None) -> list[str]:
    """Numbers of the components, with the place of their peak where there are axes."""
    numbers = [str(k + 1) for k in range(result.n_components)]
    if data is None or result.n_components == 0:
        return numbers
    left, _ = sides(result, data)
    peaks = [left.place(int(i)) for i in np.argmax(result.W, axis=0)]
    return [f"{k} (peak at {left.axis.name} {p})" for k, p in zip(numbers, peaks, strict=True)]


def _not_converged(result: Factorization, names: list[str]) -> list[str]:
    if result.status in (Status.CONVERGED, Status.DONE):
        return []
    return [
        f"The run has not converged ({ended(result.status)}): components may still change. "
        "Allow more iterations or time, or a larger tolerance."
    ]


def _zero(result: Factorization, names: list[str]) -> list[str]:
    zero = [str(k + 1) for k in np.flatnonzero(shares(result.W, result.H) == 0)]
    if not zero:
        return []
    verb = "Component {} is zero" if len(zero) == 1 else "Components {} are zero"
    left = result.n_components - len(zero)
    return [f"{verb.format(several(zero))}: the data are fitted by {count(left, 'component')}."]


def _weak(result: Factorization, names: list[str]) -> list[str]:
    share = shares(result.W, result.H)
    weak = np.flatnonzero((share > 0) & (share < TINY_SHARE))
    if len(weak) == 0:
        return []
    listed = several([f"{names[k]} with {percent(share[k])}" for k in weak[:_MOST_PAIRS]])
    more = f" and {len(weak) - _MOST_PAIRS} more" if len(weak) > _MOST_PAIRS else ""
    noun = "A component carries" if len(weak) == 1 else f"{len(weak)} components carry"
    return [
        f"{noun} less than {TINY_SHARE:g} % of the fit: {listed}{more}. This may be noise, or a "
        "source that is truly weak."
    ]


def _parallel(result: Factorization, names: list[str]) -> list[str]:
    out = []
    for factor, F in (("columns of W", result.W.T), ("rows of H", result.H)):
        cosine = _cosines(F)
        pairs = np.argwhere(np.triu(cosine, 1) > PARALLEL)
        order = np.argsort([-cosine[i, j] for i, j in pairs], kind="stable")[:_MOST_PAIRS]
        for i, j in pairs[order]:
            out.append(
                f"Components {names[i]} and {names[j]} are nearly parallel: the cosine of their "
                f"{factor} is {cosine[i, j]:.3f}. They may be one source."
            )
        if len(pairs) > _MOST_PAIRS:
            out.append(f"{len(pairs) - _MOST_PAIRS} more pairs of {factor} are nearly parallel.")
    return out


def _cosines(F: np.ndarray) -> np.ndarray:
    """Cosines of all pairs of rows; 0 where a row is zero."""
    G = gram64(F)
    norm = np.sqrt(np.diag(G))
    norm = np.where(norm > 0, norm, 1)
    return G / np.outer(norm, norm)


def _mergeable(result: Factorization, names: list[str]) -> list[str]:
    """Whether the cheapest further merges cost little more than a component of noise carries."""
    if result.n_components < 2 or result.fitting_error < EXACT:
        return []
    if not shares(result.W, result.H).all() or not np.isfinite(result.model_norm2):
        return []
    tree = next_merges(result.W, result.H)
    cheap = int(np.argmax(np.append(tree.penalties > CHEAP * _noise2(result), True)))
    if cheap == 0:
        return []
    i, j = tree.pairs[0]
    change = 100 * tree.penalties[0] / (result.model_norm2 or 1.0)
    return [
        f"Fewer components might do: merging {names[i]} and {names[j]} would change WH by only "
        f"{percent(change)} of ‖WH‖², about as much as a component of noise. Try "
        f"{count(result.n_components - cheap, 'component')}."
    ]


def _noise2(result: Factorization) -> float:
    """Square of what a component of noise carries, if the residual is noise.

    Of white noise the leading singular vectors carry the share (1/√m + 1/√n)².
    """
    m, n = len(result.W), result.H.shape[1]
    return 2 * result.objective * float((m**-0.5 + n**-0.5) ** 2)


def _missing(result: Factorization, names: list[str]) -> list[str]:
    """Whether what was added was needed, and other starts do not tell that it was enough."""
    values = result.generalized_singular_values
    if len(values) == 0 or np.min(values) < MISSING or stability.all_agree(result):
        return []
    which = (
        "the component that was added points"
        if len(values) == 1
        else f"all {len(values)} components that were added point"
    )
    return [
        f"Components may still be missing: {which} where the first solution had less than a tenth "
        f"of X (generalized singular values from {number(np.min(values))} upwards). More extra "
        "components might improve the fit."
    ]


def _exact(result: Factorization, names: list[str]) -> list[str]:
    if result.fitting_error >= EXACT:
        return []
    return [
        "The fit is exact up to rounding. Measured data rarely allow that: check that the rank is "
        "not too large, and remember that an exact factorization need not be the only one."
    ]


def _full_rank(result: Factorization, names: list[str]) -> list[str]:
    m, n, r = len(result.W), result.H.shape[1], result.n_components
    if r * (m + n) < m * n:
        return []
    return [
        f"The rank, {r}, is close to the smaller side of the data, {min(m, n)}: W and H hold as "
        f"many numbers as X ({r * (m + n):,} and {m * n:,}), so a good fit says little."
    ]
