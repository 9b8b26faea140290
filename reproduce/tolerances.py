"""Tolerances: how loose the initial and over-complete stages may be."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from reproduce.comparison import scatter
from reproduce.page import Claim, Section, Verdict, mean_spread, panels
from reproduce.pairs import Options, Outcomes, Pair, flat, random_pairs
from reproduce.runs import Run
from reproduce.sets import SETS
from reproduce.store import Store

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "The tolerance of the first two stages"
TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4)
LOOSE_ENOUGH = 1e-2  # what the paper recommends
INSENSITIVE = ("mhll", "cbcl", "orl")
SAME_MEAN = 0.01  # relative


def plan(options: Options) -> list[Run]:
    """Random starts of HALS at each tolerance."""
    return [
        run for data in options.data for loose in TOLERANCES for run in flat(pairs(options, data, loose))
    ]  # fmt: skip


def pairs(options: Options, data: str, loose: float) -> list[Pair]:
    """Random starts of HALS at one tolerance of the first two stages."""
    return random_pairs(data, options.seeds(data), loose=loose)


def report(store: Store, options: Options) -> Section:
    """A grid of scatter plots, a table of means and counts, and the claims."""
    section = Section(TITLE)
    found = {
        (data, loose): Outcomes.stored(store, pairs(options, data, loose))
        for data in options.data
        for loose in TOLERANCES
    }
    names = [data for data in options.data if any(len(found[data, loose]) for loose in TOLERANCES)]
    if not names:
        return section
    section.say(
        "HALS from random starts; ε₁ = ε₂ is the tolerance of the initial and the over-complete NMF, the final one is 1e-4. "
        "Mean fitting error of NMF-Merge and, in parentheses, starts where it ended lower / level / higher than standard NMF."
    )
    section.table(
        ["data", "standard", *(f"ε₁ = ε₂ = {loose:g}" for loose in TOLERANCES)],
        [_row(found, data) for data in names],
    )
    section.show("tolerances", "Standard NMF (vertical) against NMF-Merge (horizontal), as in the comparison above, for four "
                 "tolerances.", grid(found, names, lambda axis, stored: scatter(axis, stored.errors())))  # fmt: skip
    section.claims += _claims(found, names)
    return section


def _row(found: dict, data: str) -> list[str]:
    most = max((found[data, loose] for loose in TOLERANCES), key=len)
    cells = []
    for loose in TOLERANCES:
        outcomes = found[data, loose]
        if len(outcomes):
            count = " / ".join(map(str, outcomes.wins_ties_losses()))
            cells.append(f"{mean_spread(outcomes.errors()[:, 1], 3)} ({count})")
        else:
            cells.append("–")
    standard = mean_spread(most.errors()[:, 0], 3) if len(most) else "–"
    return [SETS[data].title, standard, *cells]


def grid(found: dict, names: list[str], draw: Callable[["Axes", Outcomes], None]) -> "Figure":
    """A panel for each data set and tolerance, standard NMF up and NMF-Merge to the right."""
    figure, axes = panels(len(names), len(TOLERANCES))
    for line, data in zip(axes, names, strict=True):
        shown = []
        for axis, loose in zip(line, TOLERANCES, strict=True):
            if len(found[data, loose]):
                draw(axis, found[data, loose])
                shown.append(axis)
            else:
                axis.set_axis_off()
        shown[0].set_ylabel(f"{SETS[data].title}\nstandard NMF, %")
    for axis, loose in zip(axes[0], TOLERANCES, strict=True):
        axis.set_title(f"ε₁ = ε₂ = {loose:g}")
    for axis in axes[-1]:
        axis.set_xlabel("NMF-Merge, %")
    return figure


def _claims(found: dict, names: list[str]) -> list[Claim]:
    def relative(data, loose):
        """Mean error at a tolerance over that at the tightest, from the starts that both have."""
        errors, tight = found[data, loose].by_seed(), found[data, TOLERANCES[-1]].by_seed()
        both = errors.keys() & tight.keys()
        if not both:
            return np.nan
        return sum(errors[seed] for seed in both) / sum(tight[seed] for seed in both)

    def changes(names, tolerances):
        values = {(data, loose): relative(data, loose) for data in names for loose in tolerances}
        return {key: value for key, value in values.items() if not np.isnan(value)}

    def spoken(values):
        return ", ".join(
            f"{SETS[d].title} at {e:g} {100 * (v - 1):+.2f} %" for (d, e), v in values.items()
        )

    insensitive = changes([d for d in names if d in INSENSITIVE], TOLERANCES[:-1])
    sensitive = [data for data in names if data not in INSENSITIVE]
    loose = changes(sensitive, [LOOSE_ENOUGH, 1e-3])
    below = {
        data: found[data, TOLERANCES[0]].wins_ties_losses()
        for data in sensitive
        if len(found[data, TOLERANCES[0]])
    }
    return [
        Claim(
            "The tolerance has little effect on MHLL and the faces.",
            Verdict.of([abs(value - 1) < SAME_MEAN for value in insensitive.values()]),
            f"mean error against that at {TOLERANCES[-1]:g}: {spoken(insensitive)}",
        ),
        Claim(
            "At 1e-1 a minority of starts end below the diagonal on LC-MS and P&F No.1.",
            Verdict.of(
                [0 < losses < sum(all_) / 2 for all_ in below.values() for losses in all_[2:]]
            ),
            "losses at 1e-1: "
            + ", ".join(f"{SETS[d].title} {c[2]} of {sum(c)}" for d, c in below.items()),
        ),
        Claim(
            "There, 1e-2 and 1e-3 are about as good as 1e-4.",
            Verdict.of([value - 1 < SAME_MEAN for value in loose.values()]),
            f"mean error against that at {TOLERANCES[-1]:g}: {spoken(loose)}",
        ),
    ]
