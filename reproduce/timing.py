"""Time: the fitting error against time, who finishes first, and Table III."""

import numpy as np

from reproduce import paper
from reproduce.machines import machines
from reproduce.page import (
    GREY,
    MERGE,
    STAGE_COLOURS,
    STANDARD,
    Claim,
    Section,
    Verdict,
    panels,
    percentage,
    seconds_axis,
)
from reproduce.pairs import Options, Outcomes, Pair, deterministic_pairs, flat, random_pairs
from reproduce.runs import Run
from reproduce.sets import FACES, GAINING, SETS
from reproduce.store import Store
from reproduce.tolerances import TOLERANCES, grid

TITLE = "Time"
ALONE = True  # times are of runs made with nothing beside them
LOOSE = 1e-2
STARTS = (20, 3)  # on small and on large data
EXAMPLE = "ko15"  # in the place of the paper's LCMS2


def plan(options: Options) -> list[Run]:
    """Random and deterministic starts at 1e-2; on small data random starts at all tolerances."""
    runs = []
    for data in options.data:
        runs += flat(pairs(options, data, LOOSE)) + flat(deterministic_pairs(data, loose=LOOSE))
    for data in options.data:
        for loose in () if SETS[data].large else TOLERANCES:
            runs += flat(pairs(options, data, loose))
    return runs


def pairs(options: Options, data: str, loose: float) -> list[Pair]:
    """The first of the random starts: made one at a time, all of them would take hours."""
    seeds = options.seeds(data, *STARTS)
    return random_pairs(data, seeds, loose=loose)


def report(store: Store, options: Options) -> Section:
    """Table III, error against time, phase plots, and the claims."""
    section = Section(TITLE)
    found = {
        (data, loose): Outcomes.stored(store, pairs(options, data, loose), alone=True)
        for data in options.data
        for loose in TOLERANCES
    }
    names = [data for data in options.data if len(found[data, LOOSE])]
    if not names:
        return section
    _table_3(section, found, names)
    example = EXAMPLE if EXAMPLE in names else names[0]
    section.show(
        "time-example",
        f"{SETS[example].title}. Left: fitting error against time from one start, chosen because NMF-Merge does well from "
        "it. Middle: the same as a phase plot, the two errors at the same moment; the colour is NMF-Merge's stage, blue "
        "is what standard NMF does after NMF-Merge has ended. Right: that last part for all starts; vertical lines are starts "
        "from which NMF-Merge finished first, horizontal lines starts from which standard NMF did.",
        _draw_example(found[example, LOOSE]),
    )
    deterministic = {
        data: Outcomes.stored(store, deterministic_pairs(data, loose=LOOSE), alone=True)
        for data in names
    }
    section.show(
        "time-traces",
        "Fitting error against time (ε₁ = ε₂ = 1e-2). The random start is a favourable one; the others are deterministic.",
        _draw_traces(found, deterministic, names),
    )
    section.show(
        "time-phases",
        "The two errors at the same moment after one of the methods has finished, for all random starts and four "
        "tolerances; the dot is the end.",
        grid(found, names, _phases),
    )
    section.claims += _claims(found, names)
    return section


def _table_3(section: Section, found: dict, names: list[str]) -> None:
    section.say(
        "Seconds of each stage with HALS, ε₁ = ε₂ = 1e-2, mean ± standard deviation over random starts, one thread; below, the "
        "paper's on its machine. The ratio is NMF-Merge over standard NMF from the same start to the same final tolerance, "
        "median over starts; the paper prints no time of standard NMF. Only runs made one at a time count here; "
        "the paper has 200 starts. Seconds are those of the processor, so that other work on the machine does not count. Our recovery includes the truncated SVD of X."
    )
    section.say(
        machines([r for data in names for both in found[data, LOOSE].records() for r in both])
    )
    head = ["data", "starts", "initial", "recovery", "over-complete", "merge", "final", "sum",
            "standard NMF", "ratio"]  # fmt: skip
    section.table(head, [_table_3_row(data, found[data, LOOSE]) for data in names])


def _table_3_row(data: str, outcomes: Outcomes) -> list[str]:
    column = SETS[data].paper
    standard, merge = outcomes.seconds().T
    cells = []
    for stage in paper.STAGES:
        seconds = np.array([stage_seconds(record, stage) for record in outcomes.merge])
        theirs = ""
        if column:
            mean, spread = paper.TABLE_3[column, stage]
            theirs = f"<br><sub>{mean:.4f}±{spread:.4f}</sub>"
        cells.append(f"{seconds.mean():.4f}±{seconds.std():.4f}{theirs}")
    total = ""
    if column:
        total = (
            f"<br><sub>{sum(paper.TABLE_3[column, stage][0] for stage in paper.STAGES):.3f}</sub>"
        )
    ratio = f"{np.median(merge / standard):.2f}"
    sums = [f"{merge.mean():.3f}{total}", f"{standard.mean():.3f}±{standard.std():.3f}", ratio]
    return [SETS[data].title, str(len(outcomes)), *cells, *sums]


def stage_seconds(record: dict, name: str) -> float:
    """Seconds of one stage of a run of NMF-Merge."""
    return next(stage["seconds"] for stage in record["stages"] if stage["name"] == name)


def curve(record: dict) -> tuple[np.ndarray, np.ndarray]:
    """Seconds and fitting errors of a run; constant while NMF-Merge has more than r components."""
    points: list[tuple[float, float]] = []
    for name, seconds, error in record["trace"]:
        if name in ("initial", "final"):
            points.append((seconds, error))
        elif name == "merge":
            points += [(seconds, points[-1][1]), (seconds, error)]
    return tuple(np.array(points).T)


def error_at(record: dict, seconds: np.ndarray) -> np.ndarray:
    """Fitting error at given moments."""
    return np.interp(seconds, *curve(record))


def favourable(outcomes: Outcomes) -> tuple[dict, dict]:
    """The start from which NMF-Merge gains most; among equals, the one where it saves most time."""
    gain = np.round(outcomes.errors() @ (1, -1), 3)
    saved = outcomes.seconds() @ (1, -1)
    best = max(range(len(outcomes)), key=lambda i: (gain[i], saved[i]))
    return outcomes.records()[best]


def _draw_example(outcomes: Outcomes):
    figure, axes = panels(1, 3, width=3.1, height=2.7)
    standard, merge = favourable(outcomes)
    _trace(axes[0, 0], standard, merge)
    axes[0, 0].set_ylabel("fitting error, %")
    axes[0, 0].legend()
    _phase_of_one(axes[0, 1], standard, merge)
    _phases(axes[0, 2], outcomes)
    for axis in axes[0, 1:]:
        axis.set(xlabel="NMF-Merge, %", ylabel="standard NMF, %")
    return figure


def _trace(axis, standard: dict, merge: dict) -> None:
    curves = [curve(record) for record in (standard, merge)]
    for (seconds, errors), colour, label in zip(
        curves, (STANDARD, MERGE), ("standard", "NMF-Merge"), strict=True
    ):
        axis.plot(seconds, errors, color=colour, lw=1.2, label=label)
        axis.plot(seconds[-1], errors[-1], "o", color=colour, ms=3)
    lowest = min(errors.min() for _, errors in curves)
    highest = max(errors[len(errors) // 3 :].max() for _, errors in curves)
    room = max(highest - lowest, 1e-3 * lowest, 1e-12)
    axis.set(ylim=(lowest - 0.06 * room, highest + 0.06 * room), xlabel="s")
    first, last = curves[0][0][len(curves[0][0]) // 4], max(seconds[-1] for seconds, _ in curves)
    axis.set_xlim(first, 1.15 * last)
    seconds_axis(axis)


def _phase_of_one(axis, standard: dict, merge: dict) -> None:
    stages = merge["trace"]
    ends = {
        name: max(t for n, t, _ in stages if n == name) for name in ("initial", "merge", "final")
    }
    spans = {
        "initial": (stages[0][1], ends["initial"]),
        "between": (ends["initial"], ends["merge"]),
        "final": (ends["merge"], ends["final"]),
        "after": (ends["final"], max(ends["final"], curve(standard)[0][-1])),
    }
    for name, (begin, end) in spans.items():
        moments = np.geomspace(begin, end, 200)
        if name == "between":
            moments *= 1 - 1e-6  # the jump at its end belongs to the final stage
        elif name == "final":
            moments[0] *= 1 - 1e-6
        x, y = error_at(merge, moments), error_at(standard, moments)
        axis.plot(x, y, color=STAGE_COLOURS[name], lw=1.4, label=name)
    low = min(merge["error"], standard["error"])
    high = merge["trace"][len(merge["trace"]) // 5][2]
    room = 0.06 * (high - low)
    axis.plot((low, high), (low, high), color=GREY, lw=0.7)
    axis.set(xlim=(low - room, high + room), ylim=(low - room, high + room))
    axis.legend()


def _phases(axis, outcomes: Outcomes) -> None:
    """Draw each start from where the first method ended to where both have."""
    from matplotlib.collections import LineCollection

    paths = []
    for standard, merge in outcomes.records():
        ends = [curve(record)[0][-1] for record in (standard, merge)]
        moments = np.geomspace(min(ends), max(ends), 60)
        paths.append(np.stack([error_at(merge, moments), error_at(standard, moments)], axis=1))
    axis.add_collection(LineCollection(paths, color=STAGE_COLOURS["after"], lw=0.5, alpha=0.6))
    axis.scatter(
        *np.array([path[-1] for path in paths]).T, s=3, color=MERGE, alpha=0.6, lw=0, zorder=3
    )
    axis.autoscale()
    limits = np.array([*axis.get_xlim(), *axis.get_ylim()])
    axis.plot((limits.min(), limits.max()), (limits.min(), limits.max()), color=GREY, lw=0.7)
    axis.set(xlim=(limits.min(), limits.max()), ylim=(limits.min(), limits.max()), box_aspect=1)
    axis.locator_params(nbins=4)
    axis.ticklabel_format(useOffset=False)


def _draw_traces(found: dict, deterministic: dict, names: list[str]):
    figure, axes = panels(len(names), 4, width=2.1, height=1.5)
    titles = ("random, favourable", "NNDSVD", "NNDSVDa", "NNDSVDar")
    for line, data in zip(axes, names, strict=True):
        shown = [favourable(found[data, LOOSE]), *deterministic[data].records()]
        for axis, both in zip(line, shown, strict=False):
            _trace(axis, *both)
        for axis in line[len(shown) :]:
            axis.set_axis_off()
        for axis in line:
            axis.set_xlabel("s" if data == names[-1] else "")
        line[0].set_ylabel(f"{SETS[data].title}, %")
    for axis, title in zip(axes[0], titles, strict=True):
        axis.set_title(title)
    axes[0, 0].legend()
    return figure


def _claims(found: dict, names: list[str]) -> list[Claim]:
    def first(data):
        standard, merge = found[data, LOOSE].seconds().T
        return float(np.mean(merge < standard))

    def ratio(data):
        standard, merge = found[data, LOOSE].seconds().T
        return float(np.median(merge / standard))

    def small_share(data):
        sums = {
            stage: sum(stage_seconds(record, stage) for record in found[data, LOOSE].merge)
            for stage in paper.STAGES
        }
        return float((sums["recover"] + sums["merge"]) / sum(sums.values()))

    faster = [data for data in names if data in GAINING]
    faces = [data for data in names if data in FACES]
    return [
        Claim(
            "NMF-Merge typically finishes before standard NMF on LC-MS and P&F No.1 (ε₁ = ε₂ = 1e-2).",
            Verdict.of([first(data) > 0.5 for data in faster]),
            "first from " + ", ".join(f"{percentage(first(d), 1)} of starts on {SETS[d].title}" for d in faster),
        ),
        Claim(
            "On the faces the two take about the same time.",
            Verdict.of([0.67 < ratio(data) < 1.5 for data in faces]),
            "median ratio of times " + ", ".join(f"{SETS[d].title} {ratio(d):.2f}" for d in faces),
        ),
        Claim(
            "NMF-Merge incurs no extra cost.",
            Verdict.of([ratio(data) <= 1 for data in names]),
            "median ratio of times " + ", ".join(f"{SETS[d].title} {ratio(d):.2f}" for d in names),
        ),
        Claim(
            "Feature recovery and merge are a nearly negligible part of the time.",
            Verdict.of([small_share(data) < 0.05 for data in names]),
            "share of the two, the truncated SVD of X included, " + ", ".join(f"{SETS[d].title} {100 * small_share(d):.1f} %" for d in names),
        ),
    ]  # fmt: skip
