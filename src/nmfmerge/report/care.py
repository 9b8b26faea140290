"""Warnings about a result, as sentences."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from nmfmerge.backends.numba import gram64
from nmfmerge.datasets.base import Dataset
from nmfmerge.losses import LOSSES
from nmfmerge.metrics import SAME_VECTOR, next_merges
from nmfmerge.plot.side import sides
from nmfmerge.report import stability
from nmfmerge.report.verdict import EXACT, assessment_of
from nmfmerge.report.words import count, ended, number, percent, several
from nmfmerge.results.about import About
from nmfmerge.results.consensus import Consensus
from nmfmerge.results.factorization import Factorization
from nmfmerge.results.rank_path import RankPath
from nmfmerge.solvers.history import Status

TINY_SHARE = 0.1  # percent of the fit
CHEAP = 5.0  # times what a component of noise carries: a merge that might be done
_MOST_PAIRS = 5


def warnings_of(
    result: Factorization,
    data: Dataset | None = None,
    about: About | Mapping[str, Any] | None = None,
    path: RankPath | Consensus | None = None,
) -> list[str]:
    """Find what a reader of the result should be careful about.

    Parameters
    ----------
    result : Factorization
        The result.
    data : Dataset, optional
        Its axes, to say where components are; without it, they have numbers only.
    about, path : About (or dict) and RankPath or Consensus, optional
        What else is known, as in `page`. Merges that look cheap are mentioned only where the rank
        may be too high.

    Returns
    -------
    sentences : list of str
        Empty where nothing was found.
    """
    checks = [_not_converged, stability.care, _zero, _weak, _parallel]
    if _may_be_too_high(result, About.of(about), path):
        checks.append(_mergeable)
    checks += [_missing, _exact, _full_rank]
    names = _names(result, data)
    return [sentence for check in checks for sentence in check(result, names)]


def _may_be_too_high(
    result: Factorization, about: About, path: RankPath | Consensus | None
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
    zero = [str(k + 1) for k in np.flatnonzero(result.shares() == 0)]
    if not zero:
        return []
    verb = "Component {} is zero" if len(zero) == 1 else "Components {} are zero"
    left = result.n_components - len(zero)
    return [f"{verb.format(several(zero))}: the data are fitted by {count(left, 'component')}."]


def _weak(result: Factorization, names: list[str]) -> list[str]:
    share = result.shares()
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
        pairs = np.argwhere(np.triu(cosine, 1) > SAME_VECTOR)
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
    """True if the cheapest further merges cost little more than a noise component contributes."""
    if result.n_components < 2 or result.fitting_error < EXACT:
        return []
    if not LOSSES[result.loss].calibrated:  # what a component of noise contributes is not known
        return []
    if not result.shares().all() or not np.isfinite(result.penalty_size):
        return []
    tree = next_merges(result.W, result.H, beta_loss=result.loss)
    cheap = int(np.argmax(np.append(tree.penalties > CHEAP * _noise2(result), True)))
    if cheap == 0:
        return []
    i, j = tree.pairs[0]
    change = 100 * tree.penalties[0] / (result.penalty_size or 1.0)
    return [
        f"Fewer components might do: merging {names[i]} and {names[j]} would change WH by only "
        f"{percent(change)} of {result.words.whole}, about as much as a component of noise. Try "
        f"{count(result.n_components - cheap, 'component')}."
    ]


def _noise2(result: Factorization) -> float:
    """Square of what a component of noise carries, if the residual is noise.

    Of white noise the leading singular vectors carry the share (1/√m + 1/√n)².
    """
    m, n = len(result.W), result.H.shape[1]
    return 2 * result.objective * float((m**-0.5 + n**-0.5) ** 2)


def _missing(result: Factorization, names: list[str]) -> list[str]:
    """Warn if all added components were needed and the starts do not show that they were enough."""
    values = result.generalized_singular_values
    missing = LOSSES[result.loss].missing_strength
    if missing is None or len(values) == 0 or np.min(values) < missing:
        return []
    if stability.all_agree(result):
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
