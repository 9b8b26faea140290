"""The report of a fit and its figures, as files for the folder of the fit."""

import io
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from nmfmerge.report.figures import Tick, draw
from nmfmerge.report.page import page
from nmfmerge.report.words import printable
from nmfmerge.results.about import About
from nmfmerge.storage.folder import Fit
from nmfmerge.storage.thinned import thinned


def pages(
    fit: Fit, tick: Tick | None = None, extra: Mapping[str, tuple[str, str]] | None = None
) -> dict[str, str | bytes]:
    """Draw the report and its figures.

    Parameters
    ----------
    fit : Fit
        What to report.
    tick : callable, optional
        Called with the name of each figure and section that is ready.
    extra : dict, optional
        More sections of the report, as `nmfmerge.report.page` takes them.

    Returns
    -------
    files : dict
        Contents by the names that they get in the folder, such as "report.html".
    """
    fit = _printable(thinned(fit))
    files: dict[str, str | bytes] = {}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # names in scripts the font lacks
        figures = draw(
            fit.result, fit.data, fit.path, fit.consensus, weights=fit.weights,
            missing=fit.about.missing, tick=tick,
        )  # fmt: skip
        for name, figure in figures.items():
            files[f"figures/{name}.png"] = png(figure)
            if tick is not None:
                tick(name)
        files["report.html"] = page(
            fit.result, fit.data, fit.about, figures=figures, path=fit.path,
            consensus=fit.consensus, tick=tick, extra=extra,
        )  # fmt: skip
    return files


def png(figure: Figure) -> bytes:
    """A figure as PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, pil_kwargs={"compress_level": 2})
    return buffer.getvalue()


def _printable(fit: Fit) -> Fit:
    """The fit with names that can be printed; names of files may be any bytes."""
    texts: dict[str, Any] = {
        name: printable(value) for name, value in vars(fit.data).items() if isinstance(value, str)
    }
    for side in ("rows", "columns"):
        axis = getattr(fit.data, side)
        if axis.values.dtype.kind in "UO":
            names = np.array([printable(str(name)) for name in axis.values.tolist()])
            texts[side] = replace(axis, values=names)
    return replace(
        fit,
        data=replace(fit.data, **texts),
        about=About.of(_printable_texts(fit.about.as_record())),
    )


def _printable_texts(value: Any) -> Any:
    """All texts of nested lists and dictionaries made printable."""
    if isinstance(value, dict):
        return {name: _printable_texts(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_printable_texts(entry) for entry in value]
    return printable(value) if isinstance(value, str) else value
