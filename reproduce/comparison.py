"""Figure "comparison": standard NMF against NMF-Merge, start by start, by solver and by rank."""

import numpy as np

from reproduce import paper
from reproduce.page import GREY, MERGE, Claim, Section, Verdict, panels, percentage
from reproduce.pairs import TIE, Options, Outcomes, Pair, flat, random_pairs, solver_pairs
from reproduce.runs import Run
from reproduce.sets import GAINING, SETS
from reproduce.store import Store

TITLE = "Better local optima: standard NMF against NMF-Merge"
STARTS_PER_RANK = 20
LEAST_MARGIN = 2e-3  # of the error: differences far below it are no differences


def plan(options: Options) -> list[Run]:
    """Random starts of all solvers at the paper's rank, then of HALS at its other ranks."""
    runs = []
    for solver in paper.SOLVERS:
        for data in options.data:
            runs += flat(solver_pairs(options, data, solver))
    for data in options.data:
        runs += flat(rank_pairs(options, data))
    return runs


def rank_pairs(options: Options, data: str) -> list[Pair]:
    """A few random starts at each of the paper's ranks, start by start."""
    seeds = options.seeds(data, STARTS_PER_RANK, STARTS_PER_RANK)
    return [
        both
        for seed in seeds
        for rank in SETS[data].ranks
        for both in random_pairs(data, range(seed, seed + 1), rank=rank)
    ]


def report(store: Store, options: Options) -> Section:
    """Five figures, the count of wins, and the claims."""
    section = Section(TITLE)
    section.say(
        "Each point is a start: above the diagonal NMF-Merge ended lower. The line in each panel is the histogram "
        "of the distances to the diagonal, on its own scale, with zero at the grey tick. Points are spread by 1e-3 "
        "of the axis, as in the paper. The table counts starts where NMF-Merge ended lower / level (within 0.1 %) / "
        "higher."
    )
    counts: dict[str, list[str]] = {}
    by_solver = {}
    for letter, solver in zip("abcd", paper.SOLVERS, strict=True):
        outcomes = {
            data: Outcomes.stored(store, solver_pairs(options, data, solver))
            for data in options.data
        }
        by_solver[solver] = outcomes
        name = paper.SOLVERS[solver]
        _show(section, f"comparison-{solver}", f"({letter}) {name}, random starts.", outcomes)
        counts[name] = [_count(outcomes[data]) for data in options.data]
    ranks = {data: Outcomes.stored(store, rank_pairs(options, data)) for data in options.data}
    _show(section, "comparison-ranks", "(e) HALS at the paper's ranks; darker is higher.", ranks)
    counts["HALS, all ranks"] = [_count(ranks[data]) for data in options.data]
    section.table(
        ["solver", *(SETS[data].title for data in options.data)],
        [[name, *cells] for name, cells in counts.items()],
    )
    section.claims += _claims(by_solver, ranks)
    return section


def _count(outcomes: Outcomes) -> str:
    return " / ".join(map(str, outcomes.wins_ties_losses())) if len(outcomes) else "–"


def _show(section: Section, name: str, caption: str, outcomes: dict[str, Outcomes]) -> None:
    shown = {data: found for data, found in outcomes.items() if len(found)}
    if not shown:
        return
    figure, axes = panels(1, len(shown))
    for axis, (data, found) in zip(axes[0], shown.items(), strict=True):
        ranks = [merge.rank for _, merge in found.pairs]
        scatter(axis, found.errors(), ranks)
        axis.set_title(f"{SETS[data].title} ({len(found)})")
        axis.set_xlabel("NMF-Merge, %")
    axes[0, 0].set_ylabel("standard NMF, %")
    section.show(name, caption, figure)


def scatter(axis, errors: np.ndarray, shades=None) -> None:
    """Standard NMF against NMF-Merge, the diagonal, and the histogram of distances to it."""
    standard, merge = errors.T
    low, high = errors.min(), errors.max()
    margin = max(0.08 * (high - low), LEAST_MARGIN * high)
    limits = low - margin, high + margin
    rng = np.random.default_rng(0)
    jitter = 1e-3 * (limits[1] - limits[0]) * rng.standard_normal(errors.shape)
    axis.plot(limits, limits, color=GREY, lw=0.7)
    different = shades is not None and len(set(shades)) > 1
    colours = (
        {"c": shades, "cmap": "Reds", "vmin": min(shades) - 3} if different else {"color": MERGE}
    )
    axis.scatter(merge + jitter[:, 1], standard + jitter[:, 0], s=7, lw=0, alpha=0.6, **colours)
    axis.set(xlim=limits, ylim=limits, box_aspect=1)
    axis.locator_params("x", nbins=3)
    axis.locator_params("y", nbins=4)
    axis.ticklabel_format(useOffset=False)
    _histogram(axis, (standard - merge) / np.sqrt(2), limits[1] - limits[0])


def _histogram(axis, distances: np.ndarray, width: float) -> None:
    """Draw the distribution of distances across the panel, in its lower right corner."""
    inset = axis.inset_axes((0.5, 0.06, 0.48, 0.3))
    reach = max(np.abs(distances).max(), 0.05 * width)
    counts, edges = np.histogram(distances, bins=31, range=(-1.05 * reach, 1.05 * reach))
    inset.stairs(counts, edges, color="#3c8d5a", lw=0.9)
    inset.axvline(0, ymax=0.15, color=GREY, lw=1.2)
    inset.set_axis_off()


def _claims(by_solver: dict, ranks: dict) -> list[Claim]:
    solvers = [
        found for outcomes in by_solver.values() for found in outcomes.values() if len(found)
    ]
    exact = [
        by_solver[solver][data]
        for solver in ("hals", "gcd", "alspgrad")
        for data in GAINING
        if data in by_solver[solver] and len(by_solver[solver][data])
    ]
    mu = _against_others(by_solver)
    varied = [found for found in ranks.values() if len(found)]
    return [
        Claim(
            "NMF-Merge matches or improves on standard NMF in the majority of cases, for every solver.",
            Verdict.of([_no_worse(found) > 0.5 for found in solvers]),
            _shares(solvers, "starts end level or lower"),
        ),
        Claim(
            "Only rarely does NMF-Merge end in a less favourable minimum.",
            Verdict.of([_no_worse(found) >= 0.9 for found in solvers]),
            f"at least 90 % level or lower in {sum(_no_worse(f) >= 0.9 for f in solvers)} of {len(solvers)} "
            "solver-and-data cases",
        ),
        Claim(
            "With HALS, GCD and ALSPGrad the advantage is apparent on LC-MS and P&F No.1.",
            Verdict.of([_relative_gain(found) > TIE for found in exact]),
            "mean gain "
            + ", ".join(f"{_name(found)} {_mean_gain(found):.3f}" for found in exact)
            + " points",
        ),
        Claim(
            "With MU the advantage is more pronounced, on all data sets.",
            Verdict.of([_relative_gain(found) > others for found, others in mu]),
            "mean gain with MU against the mean of the other solvers, in % of the error: "
            + ", ".join(
                f"{SETS[found.pairs[0][0].data].title} {100 * _relative_gain(found):.2f} against {100 * others:.2f}"
                for found, others in mu
            ),
        ),
        Claim(
            "The same holds when the number of components is varied.",
            Verdict.of([_no_worse(found) > 0.5 for found in varied]),
            _shares(varied, "starts over all ranks end level or lower"),
        ),
    ]  # fmt: skip


def _no_worse(outcomes: Outcomes) -> float:
    wins, ties, _ = outcomes.wins_ties_losses()
    return (wins + ties) / len(outcomes)


def _mean_gain(outcomes: Outcomes) -> float:
    standard, merge = outcomes.errors().mean(axis=0)
    return float(standard - merge)


def _relative_gain(outcomes: Outcomes) -> float:
    return _mean_gain(outcomes) / float(outcomes.errors()[:, 0].mean())


def _against_others(by_solver: dict) -> list[tuple[Outcomes, float]]:
    """With MU on each data set, and the mean relative gain of the other solvers there."""
    cases = []
    for data, found in by_solver["mu"].items():
        others = [by_solver[solver][data] for solver in ("hals", "gcd", "alspgrad")]
        gains = [_relative_gain(other) for other in others if len(other)]
        if len(found) and gains:
            cases.append((found, float(np.mean(gains))))
    return cases


def _name(outcomes: Outcomes) -> str:
    run = outcomes.pairs[0][0]
    return f"{SETS[run.data].title} {paper.SOLVERS[run.solver]}"


def _shares(cases: list[Outcomes], what: str) -> str:
    if not cases:
        return "no runs"
    least = min(cases, key=_no_worse)
    total = sum(len(found) for found in cases)
    fine = sum(sum(found.wins_ties_losses()[:2]) for found in cases)
    return (
        f"{percentage(fine, total)} of {total} {what}; fewest on {_name(least)}, "
        f"{percentage(round(_no_worse(least) * len(least)), len(least))}"
    )
