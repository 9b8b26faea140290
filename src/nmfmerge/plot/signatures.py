"""Mutational signatures as bars over the mutation types, in the colours that the field uses."""

from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.fields.mutations import MutationTypes, places_of, recognised
from nmfmerge.plot.style import INK, NOTE, SMALL, TEXT, new_figure, shortened, tidy, words

_COLOURS: Mapping[str, Sequence[str]] = {  # of the groups of each classification, in their order
    "SBS96": ("#03bcee", "#000000", "#e32926", "#cac9c9", "#a1ce63", "#ebc6c4"),
    "DBS78": (
        "#03bcee", "#0366ca", "#a1ce63", "#016601", "#fd9898", "#e32926", "#feb064", "#fe8001",
        "#cb98fd", "#4c0198",
    ),
    "ID83": (
        "#fdbe6f", "#ff8001", "#b0dd8b", "#36a12e", "#fdcab5", "#fc8a6a", "#f14432", "#bc191a",
        "#d0e1f2", "#94c4df", "#4a98c9", "#1764ab", "#e2e2ef", "#b6b6d8", "#8683bd", "#61409b",
    ),
    "CNV48": (
        "#333333", "#c6dbef", "#9ecae1", "#6baed6", "#3182bd", "#08519c", "#fdd0a2", "#fdae6b",
        "#e6550d", "#a63603",
    ),
}  # fmt: skip
_SHORT = {"microhomology": "MH", "repeats": "rep."}  # words that are too long above few bars
_ROW, _ABOVE, _BELOW, _LEFT, _RIGHT = 0.95, 0.5, 0.45, 0.72, 0.12  # inches
_WIDTH = 9.5  # inches: 96 names fit below the bars
_TINY = 4.3  # points


def signatures(
    W: np.ndarray,
    types: Sequence[str],
    names: Sequence[str] | None = None,
    *,
    low: np.ndarray | None = None,
    high: np.ndarray | None = None,
) -> Figure:
    """Draw mutational signatures: one row of bars each, in percent of its mutations.

    Parameters
    ----------
    W : array (n_types, r)
        Nonnegative signatures, one column each; they are drawn with the sum 100 %.
    types : sequence of str
        Names of the mutation types of the rows: SBS96, DBS78, ID83 or CNV48, in any order.
    names : sequence of str, optional
        What the signatures are called; default: their numbers from 1.
    low, high : arrays (n_types, r), optional
        Bands of the shares, which are drawn as whiskers; shares add up to 1.

    Returns
    -------
    Figure
        In the colours that the groups of types usually have.
    """
    W = np.asarray(W, dtype=np.float64)
    kind = recognised(types)
    if kind is None:
        raise ArgumentError(
            "types", "are no mutation types", expected="names of SBS96, DBS78, ID83 or CNV48"
        )
    if W.ndim != 2 or len(W) != len(types):
        raise ArgumentError(
            "W", f"has shape {W.shape}", expected=f"{len(types)} rows, one for each of the types"
        )
    if W.shape[1] == 0:
        return words("There are no signatures to draw.")
    places = places_of(kind, types)
    bars = _arranged(W / np.where(W.sum(axis=0) > 0, W.sum(axis=0), 1), places, kind)
    whiskers = None
    if low is not None and high is not None:
        whiskers = (_arranged(low, places, kind), _arranged(high, places, kind))
    shown = [str(k + 1) for k in range(W.shape[1])] if names is None else list(names)
    return _draw(bars, whiskers, kind, shown)


def _arranged(F: np.ndarray, places: np.ndarray, kind: MutationTypes) -> np.ndarray:
    """Shares in percent of all types of a classification in their order."""
    full = np.zeros((len(kind.types), F.shape[1]))
    full[places] = 100 * np.asarray(F, dtype=np.float64)
    return full


def _draw(
    bars: np.ndarray,
    whiskers: tuple[np.ndarray, np.ndarray] | None,
    kind: MutationTypes,
    names: Sequence[str],
) -> Figure:
    r = len(names)
    height = _ABOVE + r * _ROW + _BELOW
    figure = new_figure(height, _WIDTH, margins=(_LEFT, _RIGHT, _BELOW, _ABOVE))
    axes = figure.subplots(r, 1, sharex=True, squeeze=False, gridspec_kw={"hspace": 0.28})[:, 0]
    colours = _colours(kind)
    places = np.arange(len(kind.types))
    for k, (ax, name) in enumerate(zip(axes, names, strict=True)):
        ax.bar(places, bars[:, k], width=0.68, color=[colours[group] for group in kind.groups])
        top = float(bars[:, k].max())
        if whiskers is not None:
            low, high = (band[:, k] for band in whiskers)
            ax.vlines(places, low, high, color=NOTE, lw=0.6)
            top = max(top, float(high.max()))
        tidy(ax)
        ax.set(xlim=(-0.8, len(places) - 0.2), ylim=(0, 1.3 * top or 1))
        ax.yaxis.set_major_locator(MaxNLocator(3, integer=top > 4))
        ax.tick_params(axis="x", length=0)
        ax.text(
            0.006, 0.98, shortened(name, 60), transform=ax.transAxes, va="top", ha="left",
            fontsize=TEXT, color=INK, weight="bold",
        )  # fmt: skip
    _heads(axes[0], kind, colours)
    axes[-1].set_xticks(places, _tick_names(kind))
    axes[-1].tick_params(axis="x", labelsize=_TINY, rotation=90, pad=1)
    middle = (_BELOW + r * _ROW / 2) / height
    figure.supylabel("share of the mutations (%)", x=0.012, y=middle, fontsize=SMALL, color=INK)
    return figure


def _colours(kind: MutationTypes) -> dict[str, str]:
    groups = dict.fromkeys(kind.groups)
    return dict(zip(groups, _COLOURS[kind.name], strict=True))


def _heads(ax: Axes, kind: MutationTypes, colours: Mapping[str, str]) -> None:
    """A strip in the colour of each group above the first row, with its name."""
    start, strips = 0, []
    for group, members in groupby(kind.groups):
        n = len(list(members))
        strips.append(Rectangle((start - 0.4, 1.05), n - 0.2, 0.07, facecolor=colours[group]))
        narrow = n < 8 and len(kind.types) > 60
        text = group
        for long, short in _SHORT.items():
            text = text.replace(long, short)
        ax.text(
            start + (n - 1) / 2, 1.16, text.replace(", ", "\n").replace(" ", "\n", narrow),
            transform=ax.get_xaxis_transform(), ha="center", va="bottom",
            fontsize=5.2 if narrow else SMALL - 1, color=INK, linespacing=1.0,
        )  # fmt: skip
        start += n
    drawn = PatchCollection(strips, match_original=True, clip_on=False, linewidths=0)
    drawn.set_transform(ax.get_xaxis_transform())
    ax.add_collection(drawn, autolim=False)


def _tick_names(kind: MutationTypes) -> list[str]:
    """The name of each type within its group."""
    if kind.name == "SBS96":
        return [f"{name[0]}{name[2]}{name[6]}" for name in kind.types]
    if kind.name == "DBS78":
        return [name[3:] for name in kind.types]
    last = [name.rsplit(":", 1)[1] for name in kind.types]
    if kind.name == "ID83":
        return [f"{name}+" if name == "5" else name for name in last]
    return last
