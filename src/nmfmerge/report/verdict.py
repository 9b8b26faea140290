"""The summary of a report, as sentences.

Input: a result and other measurements: other ranks, the error of standard NMF. Output:
what can be said about the rank, what NMF-Merge changed, and how stable the components are.
"""

import numpy as np

from nmfmerge.report import stability
from nmfmerge.report.words import apart, number, percent
from nmfmerge.results.about import About
from nmfmerge.results.assessment import Assessment, Evidence, assess
from nmfmerge.results.consensus import Consensus
from nmfmerge.results.factorization import Factorization
from nmfmerge.results.rank_path import RankPath

NEXT_TO_NOTHING = 1e-3  # percent: errors below this are not compared
SAME = 1e-3  # relative: errors that differ by less are called the same
EXACT = 1e-8  # percent
_LOWER = {True: "lower", False: "higher"}


def verdict(
    result: Factorization, about: About, path: RankPath | Consensus | None = None
) -> list[tuple[str, str]]:
    """Topics with their sentences; topics without evidence are left out."""
    assessment = assessment_of(result, about, path)
    said = {
        "Rank": assessment.judge(result.n_components) if assessment else "",
        "Against standard NMF": against_standard(result, about),
        "Stability": stability.lead(result) or stability.of_fits(result.n_components, path),
    }
    return [(topic, sentence) for topic, sentence in said.items() if sentence]


def assessment_of(
    result: Factorization, about: About, path: RankPath | Consensus | None = None
) -> Assessment | None:
    """The assessment of the rank, from the path or the ranks around the result; None if unknown."""
    if path is not None and result.n_components in path:
        return path.assess()
    if about.around:
        return assess(Evidence.from_record(about.around))
    return None


def against_standard(result: Factorization, about: About) -> str:
    """The change from standard NMF to NMF-Merge; empty if it was not measured."""
    measured = about.standard
    if measured and np.isfinite(measured.get("fitting_error", np.nan)):
        merged, n = result.fitting_error, int(measured.get("n_init", 1))
        standard, stopped = float(measured["fitting_error"]), measured.get("status") == "max_time"
    else:
        compare = about.compare or {}
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
