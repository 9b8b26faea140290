"""What all figures share: colours, page width, fonts, and a figure that notebooks can show."""

from io import BytesIO

from matplotlib.axes import Axes
from matplotlib.figure import Figure

ORANGE, CRIMSON, GREY = "#e69138", "#b3263e", "#8a8a8a"
BLUE, INK, NOTE = "#23598c", "#262626", "#666666"
WIDTH = 7.5  # inches
TEXT, SMALL = 9.5, 8.5  # points


class PageFigure(Figure):
    """A matplotlib figure that a notebook shows without pyplot."""

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        self.savefig(buffer, format="png", dpi=120)
        return buffer.getvalue()


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """An empty figure that arranges its own axes, on white."""
    return PageFigure(figsize=(width, height), layout="constrained", facecolor="white")


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
        spine.set(linewidth=0.8, color="#555555")
    ax.tick_params(labelsize=SMALL, length=3, width=0.8, color="#555555", labelcolor=INK)
    ax.tick_params(which="minor", labelsize=SMALL - 1, length=2, width=0.6, color="#555555")
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


def percent(value: float) -> str:
    """A share in percent at the precision a reader needs."""
    if value == 0:
        return "0 %"
    if value < 0.01:
        return "< 0.01 %"
    return f"{value:.0f} %" if value >= 99.95 else f"{value:.3g} %"
