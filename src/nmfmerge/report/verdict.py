"""What a reader wants to know first, in plain sentences.

Comes in: a result and what else was measured: other ranks, the error of standard NMF. Goes out:
what can be said about the rank, what NMF-Merge changed, and how stable the components are.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from nmfmerge.assessment import Assessment, Evidence, assess
from nmfmerge.report import stability
from nmfmerge.report.words import apart, number, percent
from nmfmerge.result import Factorization
from nmfmerge.result_path import RankPath

NEXT_TO_NOTHING = 1e-3  # percent: errors below this are not compared
SAME = 1e-3  # relative: errors that differ by less are called the same
EXACT = 1e-8  # percent
_LOWER = {True: "lower", False: "higher"}


def verdict(
    result: Factorization, about: Mapping[str, Any], path: RankPath | None = None
) -> list[tuple[str, str]]:
    """Topics, each with what can be said of it; those of which nothing is known are left out."""
    assessment = assessment_of(result, about, path)
    said = {
        "Rank": assessment.judge(result.n_components) if assessment else "",
        "Against standard NMF": against_standard(result, about),
        "Stability": stability.lead(result),
    }
    return [(topic, sentence) for topic, sentence in said.items() if sentence]


def assessment_of(
    result: Factorization, about: Mapping[str, Any], path: RankPath | None = None
) -> Assessment | None:
    """What the path, or the ranks around the result, say about the rank; None if unknown."""
    if path is not None and result.n_components in path:
        return path.assess()
    if around := about.get("around"):
        return assess(Evidence.from_record(around))
    return None


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
