"""Ours: NMF-Merge against what a careful user would do without it, on twelve data sets."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from nmfmerge import metrics
from reproduce.machines import machines
from reproduce.page import MERGE, STANDARD, Section, panels
from reproduce.pairs import TIE, Options
from reproduce.runs import Run, pair
from reproduce.sets import SETS
from reproduce.store import Store

TITLE = "A fair comparison"
SMALL, LARGE = (10, 30), (5, 10)  # starts of NMF-Merge, and of the pool that equal time draws from
SKLEARN_STARTS = 3
RESAMPLES = 200
MOST_STARTS = 1000
SHOWN = (-10, 300)  # percent; what lies beyond is drawn at the ends
COMPARED = (10, 5)  # starts of a contender whose W are compared, on small and on large data
EXACT = 1e-6  # percent: below this a fit is exact


def plan(options: Options) -> list[Run]:
    """All contenders, data set by data set."""
    return [
        run for data in options.data for part in contenders(options, data).values() for run in part
    ]


def contenders(options: Options, data: str) -> dict[str, list[Run]]:
    """The runs of each contender on one data set."""
    few, many = LARGE if SETS[data].large else SMALL
    few, many = (few, many) if options.starts is None else (options.starts, 2 * options.starts)
    rank = SETS[data].rank

    def ours(method, init, seed=0):
        both = pair(data, solver="accelerated", init=init, seed=seed, loose=1e-2)
        return both[method == "merge"]

    def sklearn(init, seed, tol=1e-4):
        return Run(data, "sklearn", rank, solver="sklearn", init=init, seed=seed, tol=tol)

    return {
        "merge": [ours("merge", "random", seed) for seed in range(few)],
        "default": [ours("merge", "nndsvd")],
        "nmf": [ours("nmf", "random", seed) for seed in range(many)],
        "nndsvda": [ours("nmf", "nndsvda")],
        "sklearn": [sklearn("default", seed) for seed in range(SKLEARN_STARTS)],
        "sklearn tight": [] if SETS[data].large else [sklearn("default", 0, tol=1e-6)],
        "sklearn random": [sklearn("random", seed) for seed in range(few)],
    }


def compared(options: Options) -> list[Run]:
    """The runs whose W is compared: the first random starts of each contender."""
    return [
        run
        for data in options.data
        for name in ("merge", "nmf", "sklearn random")
        for run in contenders(options, data)[name][: COMPARED[SETS[data].large]]
    ]


@dataclass(frozen=True)
class Contender:
    """Errors, seconds and factors of the stored runs of one contender."""

    errors: np.ndarray
    seconds: np.ndarray
    alike: float  # mean cosine of matched columns of W over pairs of starts

    @classmethod
    def stored(cls, store: Store, runs: list[Run]) -> "Contender | None":
        """Look the runs up; None if there are none. Those without a time of their own are left out."""
        found = [(run, record) for run in runs if (record := store.get(run))]
        found = [(run, record) for run, record in found if record["seconds"] is not None]
        if not found:
            return None
        count = COMPARED[SETS[runs[0].data].large]
        factors = [W for run, _ in found[:count] if (W := store.factors(run)) is not None]
        cosines = [metrics.match_components(a, b)[1].mean() for a, b in combinations(factors, 2)]
        return cls(
            np.array([record["error"] for _, record in found]),
            np.array([record["seconds"] for _, record in found]),
            float(np.mean(cosines)) if cosines else np.nan,
        )


def best_in_equal_time(seconds: np.ndarray, pool: Contender) -> tuple[float, float]:
    """Mean error of the best of as many random starts as fit in the given times, and mean number.

    Starts are drawn from the pool with replacement. One that has begun when the time is up is
    finished, in the favour of this contender.
    """
    rng = np.random.default_rng(0)
    best, counts = [], []
    for _ in range(RESAMPLES):
        budget = rng.choice(seconds)
        drawn = [rng.integers(pool.errors.size)]
        while pool.seconds[drawn].sum() < budget and len(drawn) < MOST_STARTS:
            drawn.append(rng.integers(pool.errors.size))
        best.append(pool.errors[drawn].min())
        counts.append(len(drawn))
    return float(np.mean(best)), float(np.mean(counts))


def report(store: Store, options: Options) -> Section:
    """The table, the figure, and where NMF-Merge helps."""
    section = Section(TITLE)
    rows, helps, gains = [], {}, {}
    for data in options.data:
        found = {
            name: Contender.stored(store, runs) for name, runs in contenders(options, data).items()
        }
        if found["merge"] and found["nmf"]:
            equal = best_in_equal_time(found["merge"].seconds, found["nmf"])
            helps[data] = _judge_random(found, equal), _judge_default(found)
            rows.append([*_row(data, found, equal), *helps[data]])
            gains[data] = _gains(found, equal)
    if not rows:
        return section
    section.say(
        "The paper compares NMF-Merge with one standard NMF from the same start. A careful user would do more. Here NMF-Merge as "
        "this package runs it by default (accelerated HALS, ε₁ = ε₂ = 1e-2, final 1e-4), from random starts and from NNDSVD, is compared "
        "with: the best of as many random starts of the same accelerated solver as fit in NMF-Merge's time; one run from NNDSVDa; "
        "scikit-learn's `NMF` with its defaults, except that its iteration limit is raised until its own rule stops it, and, on "
        "small data, with `tol=1e-6`; and the best of scikit-learn's random starts in equal time. One thread each; X scaled to a "
        "largest entry of one where the paper does not say otherwise. Errors in percent, mean ± standard deviation over starts, seconds in "
        "parentheses. *Alike* is the mean cosine of matched columns of W over pairs of random starts: NMF-Merge / standard NMF / "
        "scikit-learn."
    )  # fmt: skip
    section.table(
        ["data", "NMF-Merge, random", "NMF-Merge, NNDSVD", "best in equal time (starts)", "NNDSVDa",
         "scikit-learn default", "tol=1e-6", "scikit-learn, best in equal time (starts)", "alike", "random starts", "default"],
        rows,
    )  # fmt: skip
    section.say("The times in this table are of runs made so:")
    section.say(machines([record for run in plan(options) if (record := store.get(run))]))
    section.show("fair", "Fitting error of each alternative relative to NMF-Merge's mean from random starts; to the right of the "
                 "line NMF-Merge is better. Beyond the ends of the axis, at them.", _draw(gains))  # fmt: skip
    _say_plainly(section, helps)
    return section


def _row(data: str, found: dict, equal: tuple[float, float]) -> list[str]:
    def cell(contender):
        if contender is None:
            return "–"
        spread = f" ± {_percent(contender.errors.std())}" if contender.errors.size > 1 else ""
        return f"{_percent(contender.errors.mean())}{spread} ({contender.seconds.mean():.2g} s)"

    others = found["sklearn random"]
    theirs = "–"
    if others:
        error, count = best_in_equal_time(found["merge"].seconds, others)
        theirs = f"{_percent(error)} ({count:.1f})"
    alike = " / ".join(
        "–" if found[name] is None or np.isnan(found[name].alike) else f"{found[name].alike:.3f}"
        for name in ("merge", "nmf", "sklearn random")
    )
    return [
        SETS[data].title,
        cell(found["merge"]),
        cell(found["default"]),
        f"{_percent(equal[0])} ({equal[1]:.1f})",
        cell(found["nndsvda"]),
        cell(found["sklearn"]),
        cell(found["sklearn tight"]),
        theirs,
        alike,
    ]


def _percent(value: float) -> str:
    return "0" if value < EXACT else f"{value:.4g}"


def _judge(errors: np.ndarray, alternatives: list[float]) -> str:
    """Compare a mean error with the best alternative: better, level or worse."""
    mean, best = float(errors.mean()), min(alternatives)
    if max(mean, best) < EXACT or abs(mean - best) <= TIE * best:
        return "level"
    return "better" if mean < best else "worse"


def _judge_random(found: dict, equal: tuple[float, float]) -> str:
    """NMF-Merge from random starts against the best random starts in equal time, theirs and ours."""
    others = [equal[0]]
    if found["sklearn random"]:
        others.append(best_in_equal_time(found["merge"].seconds, found["sklearn random"])[0])
    return _judge(found["merge"].errors, others)


def _judge_default(found: dict) -> str:
    """NMF-Merge from NNDSVD against the other deterministic starts."""
    names = ("nndsvda", "sklearn", "sklearn tight")
    others = [found[name].errors.mean() for name in names if found[name]]
    return _judge(found["default"].errors, others) if found["default"] and others else "–"


def _gains(found: dict, equal: tuple[float, float]) -> dict[str, float]:
    merge = max(found["merge"].errors.mean(), EXACT)
    values = {"best in equal time": equal[0]}
    values |= {
        label: found[name].errors.mean()
        for name, label in (("nndsvda", "NNDSVDa"), ("sklearn", "scikit-learn default"),
                            ("default", "NMF-Merge, NNDSVD"))
        if found[name]
    }  # fmt: skip
    percent = {label: 100 * (max(value, EXACT) / merge - 1) for label, value in values.items()}
    return {label: float(np.clip(value, *SHOWN)) for label, value in percent.items()}


def _draw(gains: dict[str, dict[str, float]]):
    figure, axes = panels(1, 1, width=7, height=0.9 + 0.32 * len(gains))
    axis = axes[0, 0]
    styles = {
        "best in equal time": ("o", STANDARD),
        "NNDSVDa": ("s", "#3c8d5a"),
        "scikit-learn default": ("D", "#2b6cb0"),
        "NMF-Merge, NNDSVD": ("|", MERGE),
    }
    for label, (marker, colour) in styles.items():
        points = [(values[label], y) for y, values in enumerate(gains.values()) if label in values]
        if points:
            axis.plot(*zip(*points, strict=True), marker, color=colour, label=label, ms=6 if marker != "|" else 11,
                      mew=1.8 if marker == "|" else 0.5, mec=colour, alpha=0.85, ls="none")  # fmt: skip
    axis.axvline(0, color=MERGE, lw=0.8)
    axis.set_xscale("symlog", linthresh=0.1)
    ticks = (-10, -1, -0.1, 0, 0.1, 1, 10, 100)
    axis.set(xticks=ticks, xticklabels=[f"{tick:g}" for tick in ticks])
    axis.set_xlim(1.3 * SHOWN[0], 1.5 * SHOWN[1])
    axis.minorticks_off()
    axis.set(yticks=range(len(gains)), yticklabels=[SETS[data].title for data in gains])
    axis.set_xlabel("error above that of NMF-Merge from random starts, % of it")
    axis.invert_yaxis()
    axis.grid(axis="y", lw=0.3)
    axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _say_plainly(section: Section, helps: dict[str, tuple[str, str]]) -> None:
    def names(which, verdict):
        named = [SETS[data].title for data, found in helps.items() if found[which] == verdict]
        return ", ".join(named) or "none"

    for which, what in enumerate((
        "From random starts, NMF-Merge against the best of the random starts, ours or scikit-learn's, that fit in its time "
        f"(mean error, level within {100 * TIE:g} %):",
        "From the default start (NNDSVD), NMF-Merge against the best of NNDSVDa and scikit-learn's default at either tolerance:",
    )):  # fmt: skip
        section.say(
            f"{what}\n\n- **better** on {names(which, 'better')};\n- **no difference** on {names(which, 'level')};\n"
            f"- **does not help**, and ends higher, on {names(which, 'worse')}."
        )
