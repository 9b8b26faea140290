"""Saving from the page: the report of a solution."""

from nmfmerge.explore.job import Job
from nmfmerge.folder import Fit
from nmfmerge.io.errors import one_line
from nmfmerge.report.pages import pages


class _Cancelled(Exception):
    """The user does not want to wait for the report."""


def report_or_nothing(fit: Fit, job: Job) -> tuple[dict[str, str | bytes], str]:
    """The report and its figures; nothing, and why, if drawing fails or is cancelled."""

    def tick(name: str) -> None:
        job.say(f"drawing the report ({name})")
        if job.cancelled:
            raise _Cancelled

    try:
        return pages(fit, tick), ""
    except _Cancelled:
        why = "was cancelled"
    except Exception as error:  # whatever odd data make the drawing library raise
        why = f"failed ({one_line(error)})"
    return {}, f" Drawing the report {why}: `nmfmerge report` draws it from the folder."
