"""The results of several starts: their errors, and which components each of them found."""

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from nmfmerge.metrics import SAME_COMPONENT
from nmfmerge.plot.style import (
    BLUE,
    CRIMSON,
    GREY,
    INK,
    SMALL,
    new_figure,
    remark,
    shortened,
    tick_text,
    tidy,
    words,
)

if TYPE_CHECKING:
    from nmfmerge.results.factorization import Factorization, Start

_NAMED = 24  # starts that have room for a name
_NUMBERED = 24  # components that have room for a number in their cells
_LABELLED = 48  # components that have room for a label
_LETTERS = 50  # that fit below the components side by side
_LEAST = 1e-9  # relative; a smaller excess over the best error is rounding
_SHADES = LinearSegmentedColormap.from_list(
    "similarity", [(*to_rgb(BLUE), alpha) for alpha in (0.0, 0.16, 1.0)]
)


def starts(result: "Factorization") -> Figure:
    """Draw the fitting error of each start, and which components it found.

    Parameters
    ----------
    result : Factorization
        From several starts.

    Returns
    -------
    Figure
        One row for each start. Left, by how much its error exceeds the best one, in percent of
        that. Right, how similar its components are to those of the best, the largest share of the
        fit first; components that are not found from every start are named in red. A sentence
        instead where there was one start.
    """
    result = result.numpy()
    if not result.starts:
        return words("There was one start, so there is nothing to compare it with.")
    n = len(result.starts)
    named = n <= _NAMED
    turned = _are_turned(result)
    names = max(len(_name(start)) for start in result.starts) if named else 6
    margins = (0.32 + 0.082 * names, 0.15, 0.85 + 0.07 * turned, 0.35)
    figure = new_figure(1.5 + (0.3 * n if named else 5.0) + 0.07 * turned, margins=margins)
    left, right = figure.subplots(
        1, 2, sharey=True, gridspec_kw={"width_ratios": (1, 1.75), "wspace": 0.08}
    )
    _draw_errors(left, result, named)
    _draw_similarity(right, result, named)
    if named:
        left.set_yticks(np.arange(n), [_name(start) for start in result.starts])
    else:
        left.yaxis.set_major_locator(MaxNLocator(10, integer=True))
        left.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y + 1:.0f}"))
        left.set_ylabel("start")
    left.set_ylim(n - 0.5, -0.5)
    remark(figure, _note(result))
    return figure


def _name(start: "Start") -> str:
    return start.name.replace("nndsvd", "NNDSVD")


def _draw_errors(ax: Axes, result: "Factorization", named: bool) -> None:
    """Dots at the excess over the best error, on a logarithmic axis; the best at its left end."""
    errors = np.array([start.fitting_error for start in result.starts])
    best = errors[result.best_start]
    excess = 100 * _excess(errors, float(best))
    above = excess[excess > 100 * _LEAST]
    low, high = (above.min(), above.max()) if len(above) else (1e-4, 1e-2)
    floor = low / 10 ** max(0.6, 0.25 * np.log10(high / low))
    at = np.maximum(excess, floor)
    y = np.arange(len(errors))
    ax.set_xscale("log")
    ax.hlines(y, floor, at, color=GREY, lw=0.8, alpha=0.6, zorder=1)
    ax.plot(at, y, "o", color=BLUE, ms=5 if named else 3, ls="", zorder=2, gid="errors",
            clip_on=False)  # fmt: skip
    ax.plot(floor, result.best_start, "*", color=CRIMSON, ms=12, ls="", zorder=3, gid="best",
            clip_on=False)  # fmt: skip
    if named:
        for i, value in enumerate(excess):
            ax.annotate(_excess_in_words(value, i == result.best_start, float(best)), (at[i], i),
                        xytext=(8, 0), textcoords="offset points", va="center", fontsize=SMALL - 1,
                        color=INK)  # fmt: skip
    ax.set_xlim(floor, high * (high / floor) ** 0.55)
    _percent_ticks(ax, high / floor if len(above) else 0.0)
    ax.set_xlabel("error above the best (% of it)")
    ax.set_title("fitting error")
    tidy(ax)
    ax.tick_params(axis="y", pad=9)  # room for the star


def _percent_ticks(ax: Axes, ratio: float) -> None:
    """Ticks that are plain numbers, closer together on a short axis; none where all are equal."""
    ax.xaxis.set_minor_locator(NullLocator())
    if ratio == 0:
        ax.set_xticks([])
        return
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 3) if ratio < 100 else (1,), numticks=5))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value)))


def _excess(errors: np.ndarray, best: float) -> np.ndarray:
    """Relative excess over the best error; 0 where both are zero or infinite."""
    if not np.isfinite(best) or best <= 0:
        return np.where(errors > best, np.inf if best > 0 else 1.0, 0.0)
    return errors / best - 1


def _excess_in_words(value: float, is_best: bool, best: float) -> str:
    if is_best:
        return f"{best:.4g} %"
    return "the same" if value <= 100 * _LEAST else f"+{tick_text(float(f'{value:.2g}'))} %"


def _draw_similarity(ax: Axes, result: "Factorization", named: bool) -> None:
    order = np.argsort(-result.shares(), kind="stable")
    similarity = np.stack([start.similarity for start in result.starts])[:, order]
    ax.imshow(similarity, cmap=_SHADES, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    if named:
        _separate(ax, similarity.shape)
        if len(order) <= _NUMBERED:
            _number_what_is_missing(ax, similarity)
    ax.set_xlabel("component, by share of the fit")
    ax.set_title("similarity to the components of the best")
    tidy(ax)
    ax.spines[:].set_visible(False)
    ax.tick_params(axis="y", left=False, labelleft=False)
    ax.tick_params(axis="x", length=0)
    _label_components(ax, result, order)


def _separate(ax: Axes, shape: tuple[int, int]) -> None:
    """White lines between the cells."""
    n, r = shape
    ax.hlines(np.arange(n - 1) + 0.5, -0.5, r - 0.5, color="white", lw=2)
    ax.vlines(np.arange(r - 1) + 0.5, -0.5, n - 0.5, color="white", lw=1.2)


def _number_what_is_missing(ax: Axes, similarity: np.ndarray) -> None:
    """Write the similarity where a component was not found."""
    for i, k in np.argwhere(similarity < SAME_COMPONENT):
        value = float(similarity[i, k])
        rounded_down = f"{np.floor(100 * max(value, 0.0)) / 100:.2f}"  # 0.899 was not found
        ax.text(k, i, rounded_down.removeprefix("0"), ha="center", va="center",
                fontsize=SMALL - 2, color="#f6f9fc" if value > 0.75 else CRIMSON)  # fmt: skip


def _label_components(ax: Axes, result: "Factorization", order: np.ndarray) -> None:
    """Names of the components; those that are not found from every start in red."""
    found = result.n_starts_found()[order]
    step = -(-len(order) // _LABELLED)
    names = [_component_names(result)[k] for k in order[::step]]
    ax.set_xticks(np.arange(len(order))[::step], names)
    labels = ax.get_xticklabels()
    for label, n in zip(labels, found[::step], strict=True):
        label.set_fontsize(SMALL if len(order) <= _NUMBERED else SMALL - 2)
        if _are_turned(result):
            label.set_rotation(90)
        if n < len(result.starts):
            label.set(color=CRIMSON, fontweight="bold")


def _component_names(result: "Factorization") -> list[str]:
    """Short names, or numbers from 1."""
    names = result.names or [str(k + 1) for k in range(result.n_components)]
    return [shortened(name, 16) for name in names]


def _are_turned(result: "Factorization") -> int:
    """How many letters the longest name has, if they are too wide to stand beside each other."""
    names = _component_names(result)
    longest = max(map(len, names), default=0)
    return longest if longest * len(names) > _LETTERS else 0


def _note(result: "Factorization") -> str:
    star = "Star: the best start."
    if len(result.found_always()) == result.n_components:
        return f"{star} Every component is found from every start (similarity ≥ {SAME_COMPONENT})."
    return f"{star} Red: not found from every start (similarity below {SAME_COMPONENT})."
