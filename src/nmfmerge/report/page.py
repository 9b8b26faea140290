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
from nmfmerge.report.figures import FILES_ONLY, Tick, draw
from nmfmerge.report.sections import Story
from nmfmerge.report.words import count
from nmfmerge.result import Factorization
from nmfmerge.result_path import RankPath

_SECTIONS: dict[str, tuple[str, Callable[[Story], str]]] = {
    "short": ("In short", sections.in_short),
    "summary": ("Data and settings", sections.summary),
    "rank": ("Which rank?", sections.rank),
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
    about: Mapping[str, Any] | None = None,
    *,
    figures: Mapping[str, Figure] | None = None,
    path: RankPath | None = None,
    tick: Tick | None = None,
) -> str:
    """Write a report as one HTML file that needs nothing else.

    Parameters
    ----------
    result : Factorization
        What to report.
    data : Dataset, optional
        What was factorized; its X may be None where only the axes are known.
    about : dict, optional
        What else is known, all of it optional: "title", "file", "command", "settings" (dict),
        "versions" (dict), "data_sha256", "date", "notes" (sentences), "around" (what
        `nmfmerge.alternatives.around` found at other ranks), "standard" (dict of
        "fitting_error", "n_init" and "status" of standard NMF from the same starts) and "compare",
        a dict of "standard_errors" and "merge_errors" from the same starts, in percent.
    figures : dict, optional
        The figures by name, where `nmfmerge.report.figures.draw` has drawn them already.
    path : RankPath, optional
        The path through all ranks that the result was chosen from.
    tick : callable, optional
        Called with the name of each section that is ready.

    Returns
    -------
    html : str
        The page; write it to a file in UTF-8.
    """
    result = result.numpy()
    known = {k: v for k, v in (about or {}).items() if v is not None}
    if figures is None:
        figures = draw(result, data, path, leave_out=FILES_ONLY)
    story = Story(result, data, known, figures, path)
    made = {}
    for name, (title, make) in _SECTIONS.items():
        text = make(story)
        if text:
            made[name] = (title, text)
        if tick is not None:
            tick(name)
    here = files("nmfmerge.report")
    return Template((here / "page.html").read_text("utf-8")).substitute(
        title=escape(_title(story)),
        style=(here / "page.css").read_text("utf-8"),
        script=(here / "page.js").read_text("utf-8"),
        subtitle=escape(_subtitle(story)),
        contents="".join(
            f'<li><a href="#{name}">{escape(title)}</a></li>' for name, (title, _) in made.items()
        ),
        sections="\n".join(
            f'<section id="{name}" aria-labelledby="{name}-title">'
            f'<h2 id="{name}-title">{escape(title)}</h2>{text}</section>'
            for name, (title, text) in made.items()
        ),
    )


def _title(story: Story) -> str:
    if "title" in story.about:
        return str(story.about["title"])
    name = story.about.get("file") or (story.data.name if story.data else "a matrix")
    return f"{count(story.result.n_components, 'component')} of {name}"


def _subtitle(story: Story) -> str:
    date = f", {story.about['date']}" if "date" in story.about else ""
    return f"Nonnegative matrix factorization by nmfmerge{date}"
