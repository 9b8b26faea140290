"""Reduce a fit whose factor is too large to draw to a sample of its rows."""

from dataclasses import replace
from typing import Any

import numpy as np

from nmfmerge.datasets.base import Axis
from nmfmerge.results.lazy_factors import is_mapped
from nmfmerge.storage.folder import Fit

_MOST = 50_000  # rows that are kept


def thinned(fit: Fit) -> Fit:
    """The fit for pages: of evenly spaced rows (or columns), where a factor is mapped from a file.

    What is a sum over rows, the objective, is that of the rows that are left, so that all that a
    page says of shares and merges is as in a fit of these rows.
    """
    for side, name in (("rows", "W"), ("columns", "H")):
        F = getattr(fit.result, name)
        if is_mapped(F):
            fit = _thinned(fit, side, name, F.T if name == "H" else F)
    return fit


def _thinned(fit: Fit, side: str, name: str, F: np.ndarray) -> Fit:
    step = -(-len(F) // _MOST)
    few = np.array(F[::step])
    axis: Axis = getattr(fit.data, side)
    result: dict[str, Any] = {name: few if name == "W" else np.ascontiguousarray(few.T)}
    data: dict[str, Any] = {side: replace(axis, values=axis.values[::step])}
    if step > 1 and fit.data.is_picture(axis):
        data["image_shape"] = None
    note = (
        f"There are {len(F):,} {side}, too many to draw: this page shows one in {step:,} of them, "
        "and estimates from these what it says of shares, peaks, zeros and merges. All are in "
        f"{name}.npy."
    )
    about = fit.about.updated(
        shape=[len(fit.result.W), fit.result.H.shape[1]],
        notes=[*fit.about.notes, *[note] * (step > 1)],
    )
    return replace(
        fit,
        result=replace(
            fit.result, **result, objective=fit.result.objective * len(few) / len(F), spread=None
        ),
        data=replace(fit.data, X=None, **data),
        about=about,
    )
