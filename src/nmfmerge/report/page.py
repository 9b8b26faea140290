"""A page: a factorization, its data and what else is known, as one HTML file in a string."""

from collections.abc import Callable, Mapping
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from matplotlib.figure import Figure

from nmfmerge.datasets.base import Dataset
from nmfmerge.report import sections
from nmfmerge.report.components import components
from nmfmerge.report.consensus import consensus as of_fits
from nmfmerge.report.figures import FILES_ONLY, Tick, draw
from nmfmerge.report.sections import ReportContext
from nmfmerge.report.words import count
from nmfmerge.results.about import About
from nmfmerge.results.consensus import Consensus
from nmfmerge.results.factorization import Factorization
from nmfmerge.results.rank_path import RankPath

_SECTIONS: dict[str, tuple[str, Callable[[ReportContext], str]]] = {
    "short": ("In short", sections.in_short),
    "summary": ("Data and settings", sections.summary),
    "rank": ("Which rank?", sections.rank),
    "consensus": ("Many fits", of_fits),
    "starts": ("From several starts", sections.starts),
    "components": ("Components", components),
    "fit": ("Fit", sections.fit),
    "convergence": ("Convergence", sections.convergence),
    "merges": ("Merges", sections.merges),
    "gain": ("Against standard NMF", sections.gain),
    "care": ("What to be careful about", sections.care),
    "repeat": ("How to repeat this", sections.repeat),
}


def page(
    result: Factorization,
    data: Dataset | None = None,
    about: About | Mapping[str, Any] | None = None,
    *,
    figures: Mapping[str, Figure] | None = None,
    path: RankPath | None = None,
    consensus: Consensus | None = None,
    weights: Any = None,
    tick: Tick | None = None,
    extra: Mapping[str, tuple[str, str]] | None = None,
) -> str:
    """Write a report as one HTML file that needs nothing else.

    Parameters
    ----------
    result : Factorization
        What to report.
    data : Dataset, optional
        What was factorized; its X may be None where only the axes are known.
    about : About or dict, optional
        What else is known, such as "title", "file", "command" and "settings"; see
        `nmfmerge.results.about.About`.
    figures : dict, optional
        The figures by name, where `nmfmerge.report.figures.draw` has drawn them already.
    path : RankPath, optional
        The path through all ranks that the result was chosen from.
    consensus : Consensus, optional
        The consensus that the result is of.
    weights : array or sparse matrix, optional
        Weights of the entries of X, where ``figures`` are not given.
    tick : callable, optional
        Called with the name of each section that is ready.
    extra : dict, optional
        More sections, after the first: titles and texts in HTML by their names.

    Returns
    -------
    html : str
        The page; write it to a file in UTF-8.
    """
    result = result.numpy()
    if figures is None:
        figures = draw(
            result, data, path, consensus, leave_out=FILES_ONLY, weights=weights,
            missing=About.of(about).missing,
        )  # fmt: skip
    context = ReportContext(result, data, About.of(about), figures, path, consensus)
    made = {}
    for name, (title, make) in _SECTIONS.items():
        text = make(context)
        if text:
            made[name] = (title, text)
        if name == "short":
            made |= extra or {}
        if tick is not None:
            tick(name)
    here = files("nmfmerge.report")
    return Template((here / "page.html").read_text("utf-8")).substitute(
        title=escape(_title(context)),
        style=(here / "page.css").read_text("utf-8"),
        script=(here / "page.js").read_text("utf-8"),
        subtitle=escape(_subtitle(context)),
        contents="".join(
            f'<li><a href="#{name}">{escape(title)}</a></li>' for name, (title, _) in made.items()
        ),
        sections="\n".join(
            f'<section id="{name}" aria-labelledby="{name}-title">'
            f'<h2 id="{name}-title">{escape(title)}</h2>{text}</section>'
            for name, (title, text) in made.items()
        ),
    )


def _title(context: ReportContext) -> str:
    if context.about.title is not None:
        return str(context.about.title)
    name = context.about.file or (context.data.name if context.data else "a matrix")
    return f"{count(context.result.n_components, 'component')} of {name}"


def _subtitle(context: ReportContext) -> str:
    date = f", {context.about.date}" if context.about.date else ""
    return f"Nonnegative matrix factorization by nmfmerge{date}"
