"""Samples and types of a table that were treated in a special way, as sentences."""

from collections.abc import Sequence

from nmfmerge.jobs.mutations.catalogue import Catalogue
from nmfmerge.jobs.mutations.extract import Signatures
from nmfmerge.report.words import count, several

_FEW = 12  # names that are listed


def remarks(found: Signatures) -> list[str]:
    """Remarks on hypermutated samples, and on the table."""
    said, counts = [], found.catalogue
    how = {
        "cap": "Their counts were scaled down to that limit to find signatures.",
        "keep": "Their counts were used unchanged.",
        "drop": "Signatures were looked for without them.",
    }[found.handling]
    if found.hypermutated:
        said.append(
            f"More than ten times as many mutations as the median: {_listed(found.hypermutated)}. "
            + how
        )
    return said + of_table(counts)


def of_table(counts: Catalogue) -> list[str]:
    """Samples that were left out and types that were not there, as sentences."""
    said = []
    if counts.empty:
        said.append(f"Left out, without mutations: {_listed(counts.empty)}.")
    if counts.absent:
        said.append(
            f"The table lacks {count(len(counts.absent), 'mutation type')}, which count as zero: "
            f"{_listed(counts.absent)}."
        )
    return said


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _FEW
    return several([*names[:_FEW], *([f"{more} more"] if more > 0 else [])])
