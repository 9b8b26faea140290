"""The head of RESULTS.md: how the numbers were made, and all verdicts."""

from collections import Counter

from reproduce.machines import batches, machines
from reproduce.page import Section, Verdict
from reproduce.paper import SOLVERS
from reproduce.plan import own_seconds
from reproduce.runs import Run
from reproduce.sets import SETS
from reproduce.store import Store

ENOUGH = 20


def opening(store: Store, plan: list[Run]) -> str:
    """The head of the page: what this is, and on which machines, when and with what it was made."""
    wanted = list(dict.fromkeys(plan))
    found = {run: record for run in wanted if (record := store.get(run))}
    records = list(found.values())
    hours = sum(own_seconds(run, record, store) for run, record in found.items()) / 3600
    cost = f", {hours:.1f} hours of one core" if hours else ""
    lines = [
        "# The paper's experiments, repeated",
        "Every table and figure of the NMF-Merge paper (Guo & Holy) that can be repeated, our numbers beside the "
        "authors', a verdict on each claim, and a comparison that the paper lacks. This page is written by "
        "`python -m reproduce all`; with `--stored` it is drawn again from stored runs in seconds. "
        f"Numbers of {len(records)} runs of {len(wanted)} planned{cost}; "
        f"{sum(not record['converged'] for record in records)} of them did not converge."
        + batches(records),
        machines(records),
        _few_starts(store, wanted),
    ]
    return "\n\n".join(lines) + "\n\n"


def _few_starts(store: Store, wanted: list[Run]) -> str:
    """Where the paper has 200 random starts at its rank and we have fewer than 20."""
    starts: dict[tuple, int] = {}
    for run in wanted:
        if run.method == "merge" and run.init == "random" and _is_papers(run):
            cell = SETS[run.data].title, SOLVERS[run.solver], run.extra, run.loose
            starts[cell] = starts.get(cell, 0) + store.has(run)
    few = [
        f"{title}, {solver}, k = {extra}, ε = {loose:g}: {count}"
        for (title, solver, extra, loose), count in starts.items()
        if count < ENOUGH
    ]
    if not few:
        return f"No cell at the paper's ranks has fewer than {ENOUGH} random starts; the paper has 200."
    return (
        f"Where the paper has 200 random starts at its rank, these cells have fewer than {ENOUGH} (solver, extra "
        "components, tolerance of the first stages, starts): " + "; ".join(few) + "."
    )


def _is_papers(run: Run) -> bool:
    known = SETS[run.data]
    return known.paper is not None and run.rank == known.rank and run.solver in SOLVERS


def summary(sections: list[Section]) -> Section:
    """All claims in one table."""
    section = Section("The paper's claims")
    claims = [claim for part in sections for claim in part.claims]
    count = Counter(claim.verdict for claim in claims)
    section.say(
        "Of the paper's claims "
        + ", ".join(verdict.on(count[verdict]) for verdict in Verdict if verdict in count)
        + "."
    )
    section.table(
        ["claim", "verdict", "what we saw"],
        [[claim.text, f"**{claim.verdict}**", claim.evidence] for claim in claims],
    )
    return section
