"""Signatures and activities as a folder: the tables and figures of the field, and a fit."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from nmfmerge import plot
from nmfmerge.jobs.mutations.activities import Activities
from nmfmerge.jobs.mutations.extract import Signatures
from nmfmerge.jobs.mutations.page import refit_section, section
from nmfmerge.jobs.mutations.tables import activity_tables, signature_tables
from nmfmerge.losses import LOSSES
from nmfmerge.matrices import wrap
from nmfmerge.report.pages import pages
from nmfmerge.results.about import About
from nmfmerge.results.factorization import Factorization, Stage
from nmfmerge.solvers.history import StageName, Status
from nmfmerge.storage.folder import Fit, write

Tick = Callable[[str], None]


def write_signatures(
    path: Path,
    found: Signatures,
    about: About | None = None,
    *,
    report: bool = True,
    replace_fit: bool = False,
    tick: Tick | None = None,
) -> None:
    """Write signatures, activities and all that belongs to them into a folder.

    Parameters
    ----------
    path : Path
        The folder to make, as a whole or not at all.
    found : Signatures
        What to write.
    about : About, optional
        How it was made.
    report : bool
        Whether to draw the report and its figures.
    replace_fit : bool
        Whether a fit that is there is replaced.
    tick : callable, optional
        Called with the name of each figure and section that is ready.
    """
    result = replace(as_factorization(found.activities), seconds=found.consensus.seconds)
    fit = Fit(result, found.catalogue.as_dataset(), about or About())
    files: dict[str, str | bytes] = {**signature_tables(found), **_files(found.plot())}
    if report:
        files |= pages(fit, tick, {"signatures": ("Signatures", section(found))})
    write(path, fit, files, replace=replace_fit)


def write_activities(
    path: Path,
    fitted: Activities,
    about: About | None = None,
    *,
    report: bool = True,
    replace_fit: bool = False,
    tick: Tick | None = None,
) -> None:
    """Write activities of known signatures into a folder; see `write_signatures`.

    The fit has the signatures that some sample needs; the tables have all.
    """
    used = fitted.only(np.flatnonzero(fitted.values.any(axis=1)).tolist())
    counts = fitted.catalogue
    fit = Fit(as_factorization(used), counts.as_dataset(), about or About())
    drawn = plot.signatures(used.signatures, counts.kind.types, used.names)
    files: dict[str, str | bytes] = {**activity_tables(fitted), **_files(drawn)}
    if report:
        files |= pages(fit, tick, {"signatures": ("Signatures", refit_section(used, drawn))})
    write(path, fit, files, replace=replace_fit)


def as_factorization(fitted: Activities) -> Factorization:
    """The counts as signatures times activities, as a fit that every command can read."""
    loss, counts = LOSSES["kullback-leibler"], fitted.catalogue
    matrix = wrap(counts.counts)
    W, H = np.ascontiguousarray(fitted.signatures), np.ascontiguousarray(fitted.values)
    value = float(loss.exact_values(matrix, np.ascontiguousarray(W.T)[None], H[None])[0])
    error = loss.percent(value, matrix)
    stage = Stage(StageName.FINAL, len(H), 0, 0.0, error, Status.DONE)
    return Factorization(
        W, H, value, error, (stage,), Status.DONE, 0.0, names=fitted.names,
        axes=replace(counts.as_dataset(), X=None), loss=loss.name,
    )  # fmt: skip


def _files(figure: Figure) -> Mapping[str, bytes]:
    """The figure of the signatures as PDF and PNG."""
    drawn = {}
    for kind, metadata in (("pdf", {"CreationDate": None}), ("png", {"Software": None})):
        buffer = BytesIO()
        figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
        drawn[f"signatures.{kind}"] = buffer.getvalue()
    return drawn
