"""The tables of signatures and activities, as text with tabs, in the layout of SigProfiler."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from nmfmerge.io.formulas import mark
from nmfmerge.jobs.mutations.activities import Activities
from nmfmerge.jobs.mutations.extract import Signatures

_DIGITS = ".9g"


def signature_tables(found: Signatures) -> dict[str, str]:
    """All tables of a result by the names of their files."""
    types, names = found.catalogue.kind.types, found.names
    by_type = {
        "signatures.tsv": found.signatures,
        "signatures-low.tsv": found.low,
        "signatures-high.tsv": found.high,
    }
    files = {
        name: _tsv(["MutationType", *names], _with_names(types, values))
        for name, values in by_type.items()
    }
    files |= activity_tables(found.activities, found.hypermutated)
    files["stability.tsv"] = _tsv(
        ["Signatures", "Mean silhouette", "Least silhouette", "Agreement", "Fitting error (%)",
         "Stable", "Chosen"],
        [(*one[:-1], _yes(one.stable), _yes(one.signatures == len(names)))
         for one in found.stability],
    )  # fmt: skip
    if found.matches:
        files["matches.tsv"] = _tsv(["Signature", "Known signature", "Cosine"], found.matches)
        files["decomposition.tsv"] = _tsv(
            ["Signature", "Known signature", "Share", "Cosine of the sum"], found.parts
        )
    return files


def activity_tables(fitted: Activities, hypermutated: Sequence[str] = ()) -> dict[str, str]:
    """The tables of activities by the names of their files; samples are rows."""
    counts = fitted.catalogue
    by_sample = {
        "activities.tsv": fitted.values,
        "activities-low.tsv": fitted.low,
        "activities-high.tsv": fitted.high,
    }
    files = {
        name: _tsv(["Samples", *fitted.names], _with_names(counts.samples, values.T))
        for name, values in by_sample.items()
    }
    rows = zip(counts.samples, counts.totals.tolist(), fitted.cosine.tolist(), strict=True)
    files["samples.tsv"] = _tsv(
        ["Samples", "Mutations", "Cosine", "Signatures", "Hypermutated"],
        [
            (name, total, cosine, int(n), _yes(name in set(hypermutated)))
            for (name, total, cosine), n in zip(rows, (fitted.values > 0).sum(axis=0), strict=True)
        ],
    )
    return files


def _with_names(names: Sequence[str], values: np.ndarray) -> Iterable[Sequence[Any]]:
    return ((name, *row) for name, row in zip(names, values.tolist(), strict=True))


def _tsv(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table as text; numbers have nine digits."""
    lines = ("\t".join(map(_cell, row)) for row in (heads, *rows))
    return "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return format(value, _DIGITS)
    return mark(" ".join(value.split())) if isinstance(value, str) else str(value)


def _yes(value: bool) -> str:
    return "yes" if value else "no"
