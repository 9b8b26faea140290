"""Style of all figures: colours, page width, fonts, and a figure that notebooks can show."""

from io import BytesIO
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

ORANGE, CRIMSON, GREY = "#e69138", "#b3263e", "#8a8a8a"
GREEN = "#3a8f5c"
BLUE, INK, NOTE = "#23598c", "#262626", "#666666"
WIDTH = 7.5  # inches
TEXT, SMALL = 9.5, 8.5  # points
AXIS = "#555555"
Margins = tuple[float, float, float, float]  # inches: left, right, below, above
_ABOVE = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class PageFigure(Figure):
    """A matplotlib figure that a notebook shows without pyplot."""

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        self.savefig(buffer, format="png", dpi=120)
        return buffer.getvalue()


def new_figure(height: float, width: float = WIDTH, margins: Margins | None = None) -> Figure:
    """An empty figure on white. It arranges its axes itself, which is slow, or within margins."""
    if margins is None:
        return PageFigure(figsize=(width, height), layout="constrained", facecolor="white")
    figure = PageFigure(figsize=(width, height), facecolor="white")
    left, right, below, above = margins
    figure.subplots_adjust(
        left=left / width, right=1 - right / width, bottom=below / height, top=1 - above / height
    )
    return figure


def remark(figure: Figure, text: str, up: float = 0.08) -> None:
    """A note below all axes, ``up`` inches from the lower edge."""
    height = figure.get_size_inches()[1]
    figure.supxlabel(text, y=up / height, va="bottom", fontsize=SMALL, color=NOTE)


def superscript(exponent: int) -> str:
    """An integer as superscript characters."""
    return str(exponent).translate(_ABOVE)


def tick_text(value: float) -> str:
    """A number in a figure, at three digits: plain, or with a power of ten."""
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.3g}" if abs(value) < 1e3 else f"{value:.4g}"
    mantissa, exponent = f"{value:.2e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".")
    power = f"10{superscript(int(exponent))}"
    return power if mantissa == "1" else f"{mantissa}·{power}"


def logarithmic(ax: Axes, which: Literal["x", "y"], low: float, high: float) -> None:
    """Make an axis that reaches from ``low`` to ``high`` logarithmic, with few plain ticks."""
    (ax.set_xscale if which == "x" else ax.set_yscale)("log", nonpositive="mask")
    axis = ax.xaxis if which == "x" else ax.yaxis
    short = low > 0 and high < 30 * low
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if short else (1,), numticks=6))
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value)))
    axis.set_minor_locator(NullLocator())


def words(sentence: str) -> Figure:
    """A figure that has nothing to draw and says why."""
    figure = new_figure(1.0)
    ax = figure.subplots()
    ax.set_axis_off()
    ax.text(0.5, 0.5, sentence, ha="center", va="center", color=INK, fontsize=10, wrap=True)
    return figure


def tidy(ax: Axes) -> None:
    """Two spines, small outward ticks, one text size."""
    ax.set_facecolor("white")
    ax.spines[["top", "right"]].set_visible(False)
    for spine in ax.spines.values():
        spine.set(linewidth=0.8, color=AXIS)
    ax.tick_params(labelsize=SMALL, length=3, width=0.8, color=AXIS, labelcolor=INK)
    ax.xaxis.label.set(size=TEXT, color=INK)
    ax.yaxis.label.set(size=TEXT, color=INK)
    ax.title.set(size=TEXT + 0.5, color=INK)


def no_spines(ax: Axes) -> None:
    """Leave only what is drawn, and the labels."""
    ax.spines[:].set_visible(False)
    ax.set(xticks=[], yticks=[])


def shortened(name: object, length: int = 22) -> str:
    """A name cut to a length at which it fits beside a bar; no mathematics in dollar signs."""
    text = " ".join(str(name).split())
    text = text if len(text) <= length else text[: length - 1] + "…"
    return text.replace("$", r"\$")


def how_many(n: int, noun: str) -> str:
    """A number with its noun in the plural."""
    return f"{n:,} {noun}" + ("" if n == 1 or noun.endswith("s") else "s")


def share_text(value: float) -> str:
    """A share in percent at the precision a reader needs."""
    if value == 0:
        return "0 %"
    if value < 0.01:
        return "< 0.01 %"
    return f"{value:.0f} %" if value >= 99.95 else f"{value:.3g} %"
