"""How the figures of the gallery look, and the order of its examples."""

from pathlib import Path
from typing import Any

ORDER = (
    "lcms",
    "melody",
    "calcium",
    "hyperspectral",
    "single_cell",
    "text",
    "mutations",
    "improve",
    "merge_tree",
)


class Order:
    """Key by which sphinx-gallery sorts the examples; those not listed come last."""

    def __init__(self, src_dir: str) -> None:
        self.src_dir = src_dir

    def __call__(self, filename: str) -> tuple[int, str]:
        name = Path(filename).stem.removeprefix("plot_")
        return (ORDER.index(name) if name in ORDER else len(ORDER)), name


def apply(gallery_conf: dict[str, Any], filename: str | Path) -> None:
    """Set Matplotlib's style; called before each example."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    plt.close("all")
    mpl.rcdefaults()
    mpl.rcParams.update(
        {
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.titlesize": 10,
            "figure.dpi": 110,
            "font.size": 9,
            "legend.frameon": False,
            "legend.fontsize": 8,
        }
    )
