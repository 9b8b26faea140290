"""How a run went: fitting error and step against time, stage by stage."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from nmfmerge.plot.style import CRIMSON, INK, SMALL, logarithmic, new_figure, tidy, words
from nmfmerge.solvers.history import StageName

if TYPE_CHECKING:
    from nmfmerge.results.factorization import Factorization, Stage

_COLOURS = {
    StageName.INITIAL: "#c9d6e4",
    StageName.RECOVER: "#e69138",
    StageName.OVERCOMPLETE: "#f3d9dd",
    StageName.MERGE: "#262626",
    StageName.FINAL: "#cfe3d4",
}


@dataclass(frozen=True)
class StageTime:
    """A stage and when it ran, in seconds since the run began."""

    stage: "Stage"
    begin: float
    end: float


def spans(result: "Factorization") -> list[StageTime]:
    """When each stage ran: its history knows, or else it followed the one before at once."""
    out: list[StageTime] = []
    now = 0.0
    for stage in result.stages:
        if stage.history is not None and len(stage.history.seconds):
            end = max(now, float(stage.history.seconds[-1]))
            begin = max(now, end - stage.seconds)
        else:
            begin, end = now, now + stage.seconds
        out.append(StageTime(stage, begin, end))
        now = end
    return out


def convergence(result: "Factorization") -> Figure:
    """Draw the fitting error, where it is known, and the step, against time.

    Parameters
    ----------
    result : Factorization
        The run. Fitting errors are known at the end of each stage, and after each iteration
        whose callback read them.

    Returns
    -------
    Figure
        Two panels over one another; stages are shaded and named in the legend.
    """
    times = spans(result)
    if not times:
        return words("No stages were recorded.")
    rows = -(-len(times) // 2)
    figure = new_figure(4.2, width=4.6, margins=(0.75, 0.1, 0.5, 0.15 + 0.19 * rows))
    upper, lower = figure.subplots(2, 1, sharex=True)
    _draw_errors(upper, times)
    _draw_steps(lower, times)
    last = max(times[-1].end, 1e-9)
    for ax in (upper, lower):
        _shade(ax, times, last)
        tidy(ax)
        ax.set_xlim(-0.01 * last, 1.01 * last)
    lower.set_xlabel("time (s)")
    figure.legend(
        handles=[_handle(span.stage) for span in times], loc="upper center",
        ncols=2, fontsize=SMALL - 0.5, frameon=False, handlelength=1.2, columnspacing=1.0,
    )  # fmt: skip
    return figure


def _draw_errors(ax: Axes, times: list[StageTime]) -> None:
    known: list[float] = []
    for span in times:
        history = span.stage.history
        if history is not None and np.isfinite(history.fitting_error).any():
            finite = np.isfinite(history.fitting_error)
            ax.plot(history.seconds[finite], history.fitting_error[finite], color=CRIMSON, lw=1.2)
            known.extend(history.fitting_error[finite])
    # The legend has the error of the start; a random one, of some 1000 %, would hide all others.
    fitted = [span for span in times if span.stage.name != StageName.START]
    ends = np.array([span.end for span in fitted])
    errors = np.array([span.stage.fitting_error for span in fitted])
    finite = np.isfinite(errors)
    ax.plot(ends[finite], errors[finite], color=CRIMSON, marker="o", ms=4.5,
            ls=":" if len(known) == 0 else "", lw=0.9, gid="stages")  # fmt: skip
    _choose_scale(ax, np.array([*known, *errors[finite]]))
    ax.set_ylabel("fitting error (%)")


def _choose_scale(ax: Axes, values: np.ndarray) -> None:
    """Logarithmic where values span more than a factor of five, from zero where they do not."""
    positive = values[values > 0]
    if len(positive) and len(positive) == len(values) and values.max() > 5 * values.min():
        logarithmic(ax, "y", float(values.min()), float(values.max()))
    else:
        ax.set_ylim(0, 1.15 * values.max(initial=0) or 1.0)


def _draw_steps(ax: Axes, times: list[StageTime]) -> None:
    steps: list[float] = []
    for span in times:
        history = span.stage.history
        if history is None:
            continue
        positive = history.step > 0
        steps.extend(history.step[positive])
        ax.plot(history.seconds[positive], history.step[positive], color=INK, lw=1.1,
                marker="." if positive.sum() < 3 else "")  # fmt: skip
    if steps:
        logarithmic(ax, "y", min(steps), max(steps))
    ax.set_ylabel("step (relative)")


def _shade(ax: Axes, times: list[StageTime], last: float) -> None:
    for span in times:
        colour = _COLOURS.get(span.stage.name, "#dddddd")
        if span.end - span.begin > 0.004 * last:
            ax.axvspan(span.begin, span.end, color=colour, alpha=0.6, lw=0, zorder=0,
                       gid=f"stage {span.stage.name}")  # fmt: skip
        else:  # too short to see: a line
            ax.axvline(span.end, color=colour, lw=1.4, zorder=0, gid=f"stage {span.stage.name}")


def _handle(stage: "Stage") -> Patch:
    label = f"{stage.name}, r = {stage.n_components}: {stage.fitting_error:.4g} %"
    return Patch(color=_COLOURS.get(stage.name, "#dddddd"), label=label)
