"""The number of extra components: box plots of the gain over standard NMF."""

import numpy as np

from reproduce.comparison import LEAST_MARGIN
from reproduce.page import GREY, MERGE, Claim, Section, Verdict, panels
from reproduce.pairs import TIE, Options, Outcomes, Pair, flat, random_pairs
from reproduce.runs import Run
from reproduce.sets import GAINING, SETS
from reproduce.store import Store

TITLE = "The number of extra components"


def plan(options: Options) -> list[Run]:
    """The random starts of the comparison with other numbers of extra components."""
    return [
        run
        for data in options.data
        for extra in SETS[data].extras
        for run in flat(pairs(options, data, extra))
    ]


def pairs(options: Options, data: str, extra: int) -> list[Pair]:
    """Random starts of HALS with a number of extra components, tolerance 1e-4 in all stages."""
    return random_pairs(data, options.seeds(data), extra=extra)


def report(store: Store, options: Options) -> Section:
    """Box plots, a table of means and counts, and the claims."""
    section = Section(TITLE)
    found = {
        (data, extra): Outcomes.stored(store, pairs(options, data, extra))
        for data in options.data
        for extra in SETS[data].extras
    }
    names = [data for data in options.data if _common_starts(found, data)]
    found = {
        (data, extra): outcomes.first(_common_starts(found, data))
        for (data, extra), outcomes in found.items()
        if data in names and len(outcomes)
    }
    if not names:
        return section
    section.say(
        "Fitting error of standard NMF minus that of NMF-Merge from the same random start, HALS, tolerance 1e-4 in all stages; "
        "above zero NMF-Merge is better. Boxes span the quartiles, whiskers the 5th to 95th percentile; the red number of extra "
        "components is the default, a fifth of the rank. In the table the mean gain in percentage points, and starts where NMF-Merge ended "
        "lower / level / higher."
    )  # fmt: skip
    section.table(
        ["data", "mean gain by number of extra components"],
        [[SETS[data].title, "; ".join(_cell(found, data))] for data in names],
    )
    section.show(
        "extra", "Gain over standard NMF by the number of extra components.", _draw(found, names)
    )
    section.claims += _claims(found, names)
    return section


def _common_starts(found: dict, data: str) -> int:
    """How many starts all numbers of extra components have; 0 if only one number was tried."""
    counts = [len(found[data, extra]) for extra in SETS[data].extras]
    tried = [count for count in counts if count]
    return min(tried) if len(tried) > 1 else 0


def _gain(outcomes: Outcomes) -> np.ndarray:
    return outcomes.errors() @ (1, -1)


def _relative_gain(outcomes: Outcomes) -> float:
    return float(_gain(outcomes).mean() / outcomes.errors()[:, 0].mean())


def _cell(found: dict, data: str) -> list[str]:
    return [
        f"k = {extra}: {_gain(found[data, extra]).mean():+.4f} "
        f"({' / '.join(map(str, found[data, extra].wins_ties_losses()))})"
        for extra in SETS[data].extras
        if (data, extra) in found
    ]


def _draw(found: dict, names: list[str]):
    rows = 2 if len(names) > 3 else 1
    columns = -(-len(names) // rows)
    figure, axes = panels(rows, columns, width=3, height=2.2)
    for axis in axes.flat[len(names) :]:
        axis.set_axis_off()
    for axis, data in zip(axes.flat, names, strict=False):
        extras = [extra for extra in SETS[data].extras if (data, extra) in found]
        gains = [_gain(found[data, extra]) for extra in extras]
        axis.axhline(0, color=GREY, lw=0.7)
        axis.boxplot(gains, whis=(5, 95), widths=0.55, tick_labels=extras,
                     medianprops={"color": MERGE, "lw": 1.4},
                     flierprops={"marker": ".", "ms": 3, "mec": GREY})  # fmt: skip
        least = LEAST_MARGIN * found[data, extras[0]].errors()[:, 0].mean()
        low, high = axis.get_ylim()
        axis.set_ylim(min(low, -least), max(high, least))
        for label, extra in zip(axis.get_xticklabels(), extras, strict=True):
            label.set_color(MERGE if extra == SETS[data].extra else "black")
        axis.set_title(f"{SETS[data].title} (r = {SETS[data].rank}, {len(gains[0])} starts)")
        axis.set_xlabel("extra components")
    for line in axes:
        line[0].set_ylabel("gain, percentage points")
    return figure


def _claims(found: dict, names: list[str]) -> list[Claim]:
    gaining = {key: outcomes for key, outcomes in found.items() if key[0] in GAINING}
    fewest = {data: _relative_gain(found[data, min(SETS[data].extras)]) for data in names
              if (data, min(SETS[data].extras)) in found}  # fmt: skip
    worst = min(fewest, key=lambda data: fewest[data], default=None)
    better = [_gain(outcomes).mean() > 0 for outcomes in gaining.values()]
    near = [
        abs(_gain(found[data, extra]).mean() - _gain(found[data, SETS[data].extra]).mean())
        < 0.01 * found[data, extra].errors()[:, 0].mean()
        for data, extra in found
        if (data, SETS[data].extra) in found and min(SETS[data].extras) < extra != SETS[data].extra
    ]
    return [
        Claim(
            "NMF-Merge outperforms standard NMF for most numbers of extra components on LC-MS and P&F No.1.",
            Verdict.of([sum(better) > len(better) / 2] if better else []),
            f"the mean gain is positive in {sum(better)} of {len(better)} cases",
        ),
        Claim(
            "Too few extra components can be detrimental.",
            Verdict.of([fewest[worst] < -TIE] if worst else []),
            f"with the fewest tried, the mean gain is least on {SETS[worst].title} "
            f"(k = {min(SETS[worst].extras)}): {100 * fewest[worst]:+.3f} % of the error"
            if worst
            else "",
        ),
        Claim(
            "Otherwise the result depends little on their number.",
            Verdict.of(near),
            f"in {sum(near)} of {len(near)} cases the mean gain is within 1 % of the error of that at the default",
        ),
    ]
