"""How the figures of the gallery look; called before each example."""

from pathlib import Path
from typing import Any


def apply(gallery_conf: dict[str, Any], filename: str | Path) -> None:
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
