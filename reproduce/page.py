"""The output of an experiment (a `Section`), and how sections become pages."""

import io
import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STANDARD, MERGE, GREY = "#e69138", "#b3263e", "#8a8a8a"
STAGE_COLOURS = {"initial": MERGE, "between": STANDARD, "final": "#3c8d5a", "after": "#2b6cb0"}

_LOOK = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "figure.dpi": 110,
    "savefig.facecolor": "white",
}


@cache
def _pyplot():
    """The plotting library, loaded when something is drawn: making runs does not need it."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(_LOOK)
    return plt


class Verdict(StrEnum):
    """How a claim of the paper fares."""

    HOLDS = "holds"
    PARTLY = "holds partly"
    FAILS = "does not hold"
    UNTESTED = "not tested"

    def on(self, n: int) -> str:
        """The verdict on n claims, as a predicate."""
        if self is Verdict.UNTESTED:
            return f"{n} {'was' if n == 1 else 'were'} {self}"
        if n == 1:
            return f"{n} {self}"
        return f"{n} {self.replace('holds', 'hold').replace('does', 'do')}"

    @classmethod
    def of(cls, tests: list[bool]) -> "Verdict":
        """Judge by tests that should all be true: all, some or none are."""
        if not tests:
            return cls.UNTESTED
        return cls.HOLDS if all(tests) else cls.PARTLY if any(tests) else cls.FAILS


@dataclass(frozen=True)
class Claim:
    """A claim of the paper in a few words, our verdict, and what it rests on."""

    text: str
    verdict: Verdict
    evidence: str

    def __post_init__(self) -> None:
        if self.verdict is Verdict.UNTESTED:
            object.__setattr__(self, "evidence", "no runs of this")


@dataclass
class Section:
    """One experiment's part of the page: Markdown in pieces, figures by name, claims judged."""

    title: str
    pieces: list[str] = field(default_factory=list)
    figures: dict[str, "Figure"] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Add a paragraph."""
        self.pieces.append(text)

    def table(self, head: list[str], rows: list[list[str]]) -> None:
        """Add a table."""
        lines = [head, ["---"] * len(head), *rows]
        self.pieces.append("\n".join("| " + " | ".join(line) + " |" for line in lines))

    def show(self, name: str, caption: str, figure: "Figure") -> None:
        """Add a figure."""
        self.figures[name] = figure
        self.pieces.append(f"![{caption}](figures/{name}.png)\n\n*{caption}*")

    def text(self) -> str:
        """The section as Markdown."""
        parts = [f"## {self.title}", *self.pieces]
        if self.claims:
            parts.append("\n".join(
                f"- *{claim.text}* **{claim.verdict.capitalize()}**: {claim.evidence}"
                for claim in self.claims
            ))  # fmt: skip
        return "\n\n".join(parts) + "\n"


_KEPT = "*Of an earlier version of this page: the runs of this section are not among those counted above.*"
_CLAIM = re.compile(r"^- \*(.+?)\* \*\*(.+?)\*\*: (.+)$")


def kept(page: Path, title: str) -> Section:
    """A section as it stands on a page that was written before; an empty one if there is none."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    body = text.partition(f"## {title}\n")[2].partition("\n## ")[0]
    section = Section(title)
    if lines := [line for line in body.strip().splitlines() if line != _KEPT]:
        found = [_CLAIM.match(line) for line in lines]
        section.claims = [Claim(m[1], Verdict(m[2].lower()), m[3]) for m in found if m]
        rest = "\n".join(line for line, m in zip(lines, found, strict=True) if m is None)
        section.pieces = [_KEPT, rest.strip()]
    return section


def write(path: Path, sections: list[Section], opening: str = "") -> None:
    """Write sections to a page, with their figures in a folder beside it."""
    folder = path.parent / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    for section in sections:
        for name, figure in section.figures.items():
            (folder / f"{name}.png").write_bytes(_png(figure))
            _pyplot().close(figure)
    path.write_text(opening + "\n".join(section.text() for section in sections), encoding="utf-8")


def _png(figure: "Figure") -> bytes:
    """A small PNG: 256 colours suffice for these figures."""
    from PIL import Image

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight")
    image = Image.open(buffer).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    small = io.BytesIO()
    image.save(small, format="png", optimize=True)
    return small.getvalue()


def panels(rows: int, columns: int, width: float = 1.75, height: float = 1.6):
    """A grid of small axes, always two-dimensional."""
    figure, axes = _pyplot().subplots(
        rows, columns, figsize=(width * columns, height * rows), squeeze=False, layout="constrained"
    )
    return figure, axes


def seconds_axis(axis) -> None:
    """An axis of time whose labels fit into a small panel: logarithmic if it spans much."""
    from matplotlib.ticker import LogLocator, NullFormatter

    left, right = axis.get_xlim()
    if right < 4 * left:
        axis.locator_params(axis="x", nbins=4)
        return
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 3), numticks=8))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.xaxis.set_minor_formatter(NullFormatter())


def log_limits(values, least: float = 150) -> tuple[float, float]:
    """Limits of a logarithmic axis, at least a factor ``least`` apart so that its labels fit."""
    low, high = float(np.min(values)) / 1.5, float(np.max(values)) * 1.5
    spread = max(1.0, np.sqrt(least * low / high))
    return low / spread, high * spread


def mean_spread(values, digits: int = 2) -> str:
    """Mean ± standard deviation, or a single value."""
    values = np.asarray(values)
    if values.size == 1:
        return f"{values[0]:.{digits}f}"
    return f"{values.mean():.{digits}f}±{values.std():.{digits}f}"


def percentage(part, whole) -> str:
    """A share in percent."""
    return f"{100 * part / whole:.0f} %" if whole else "–"
