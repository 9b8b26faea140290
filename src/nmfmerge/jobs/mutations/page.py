"""The section of a report about mutational signatures."""

import numpy as np
from matplotlib.figure import Figure

from nmfmerge.jobs.mutations.activities import Activities
from nmfmerge.jobs.mutations.extract import Signatures
from nmfmerge.jobs.mutations.remarks import of_table, remarks
from nmfmerge.report.markup import figure, paragraph, table
from nmfmerge.report.words import count

_FEW = 12  # samples that are listed


def section(found: Signatures) -> str:
    """The signatures with their bands, why they are so many, and how well samples are fitted."""
    parts = [
        paragraph(_choice(found), *remarks(found)),
        figure(
            found.plot(),
            "signatures",
            f"{count(len(found.names), 'signature')} as bars over the types of "
            f"{found.catalogue.kind.name}",
            "Signatures in percent of their mutations. Whiskers: 90 % of the fits of resampled "
            "counts.",
        ),
        _stability(found),
    ]
    if found.matches:
        parts.append(_known(found))
    return "".join([*parts, _activities(found.activities), _samples(found.activities)])


def refit_section(used: Activities, drawn: Figure) -> str:
    """The known signatures that some sample needs, and how well samples are fitted."""
    said = of_table(used.catalogue)
    parts = [
        paragraph(
            "Samples were fitted by known signatures, each by the few that its counts need; shown "
            "are those that some sample needs.", *said,
        ),
        figure(
            drawn, "signatures",
            f"{count(len(used.names), 'known signature')} as bars over the types of "
            f"{used.catalogue.kind.name}",
            "Known signatures in percent of their mutations.",
        ),
    ]  # fmt: skip
    return "".join([*parts, _activities(used), _samples(used)])


def _choice(found: Signatures) -> str:
    fits = max(found.consensus.at(rank).n_fits for rank in found.consensus.ranks)
    other = found.consensus.assess().reason
    said = f"{count(fits, 'fit')} of resampled counts were made at each number. {found.reason}"
    return f"{said} The assessment of the rank says: {other}" if other != found.reason else said


def _stability(found: Signatures) -> str:
    rows = (
        (
            f"{one.signatures}, chosen" if one.signatures == len(found.names) else one.signatures,
            f"{one.mean:.2f}",
            f"{one.least:.2f}",
            f"{100 * one.agreement:.0f} %",
            f"{one.fitting_error:.3g} %",
            "yes" if one.stable else "no",
        )
        for one in found.stability
    )
    head = ("Signatures", "Mean silhouette", "Least", "Fits that agree", "Error", "Stable")
    drawn = ""
    if len(found.stability) > 1:
        drawn = figure(
            found.consensus.plot(),
            "stability",
            "Silhouettes, agreement of the fits and fitting error against the number of signatures",
            "Each fit is of its own resampled counts.",
        )
    return drawn + table(
        head, rows, "Stable: mean silhouette at least 0.8, least 0.2, sum of both 1.0", text=(0, 5)
    )


def _known(found: Signatures) -> str:
    parts = {
        name: [f"{100 * p.share:.0f} % {p.known}" for p in found.parts if p.signature == name]
        for name in found.names
    }
    cosine = {part.signature: part.cosine for part in found.parts}
    rows = (
        (
            one.signature,
            one.known,
            f"{one.cosine:.3f}",
            " + ".join(parts[one.signature]),
            f"{cosine[one.signature]:.3f}",
        )
        for one in found.matches
    )
    head = ("Signature", "Most like", "Cosine", "As a sum", "Cosine of the sum")
    return table(head, rows, "Beside the known signatures", text=(0, 1, 3))


def _activities(fitted: Activities) -> str:
    values = fitted.values
    totals, active = values.sum(axis=1), (values > 0).sum(axis=1)
    rows = (
        (name, f"{total:,.0f}", f"{100 * total / (totals.sum() or 1):.1f} %", int(n))
        for name, total, n in zip(fitted.names, totals, active, strict=True)
    )
    head = ("Signature", "Mutations", "Share", "Samples that have it")
    return table(head, rows, "Activities")


def _samples(fitted: Activities) -> str:
    """The samples that are fitted worst."""
    counts, cosine = fitted.catalogue, fitted.cosine
    worst = np.argsort(cosine, kind="stable")[:_FEW]
    rows = (
        (
            counts.samples[j],
            f"{counts.totals[j]:,.0f}",
            f"{cosine[j]:.3f}",
            ", ".join(fitted.names[k] for k in np.flatnonzero(fitted.values[:, j]).tolist()),
        )
        for j in worst.tolist()
    )
    head = ("Sample", "Mutations", "Cosine", "Signatures")
    few = f"The {len(worst)} samples that are fitted worst"
    return table(head, rows, few if len(worst) < len(cosine) else "The samples", text=(0, 3))
