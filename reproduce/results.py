"""What RESULTS.md says before the experiments: how the numbers were made, and all verdicts."""

from collections import Counter

from reproduce.page import Section, Verdict
from reproduce.runs import Run, Store

VERSIONS = ("python", "nmfmerge", "numpy", "scipy", "numba", "scikit-learn")


def opening(store: Store, plan: list[Run]) -> str:
    """The head of the page: what this is, and on which machines, when and with what it was made."""
    wanted = list(dict.fromkeys(plan))
    found = {run: record for run in wanted if (record := store.get(run))}
    records = list(found.values())
    lines = [
        "# The paper's experiments, repeated",
        "Every table and figure of the NMF-Merge paper (Guo & Holy) that can be repeated, our numbers beside the "
        "authors', a verdict on each claim, and a comparison that the paper lacks. This page is written by "
        "`python -m reproduce all`; with `--stored` it is drawn again from stored runs in seconds. "
        f"Numbers of {len(records)} runs of {len(wanted)} planned, {_hours(found):.1f} hours of one core; "
        f"{sum(not record['converged'] for record in records)} of them did not converge.",
        _machines(records),
    ]
    return "\n\n".join(lines) + "\n\n"


def _hours(found: dict[Run, dict]) -> float:
    """Time of all runs; an initial stage that is a standard run was made once."""
    total = 0.0
    for run, record in found.items():
        shared = (
            found.get(run.standard()) if run.method == "merge" and run.loose == run.tol else None
        )
        total += record["seconds"] - (shared["seconds"] if shared else 0)
    return total / 3600


def _machines(records: list[dict]) -> str:
    """Each machine with its versions, the days, and how many runs it made."""
    machines: Counter[str] = Counter()
    for record in records:
        made = record["environment"]
        versions = ", ".join(f"{name} {made[name]}" for name in VERSIONS)
        machines[f"{made['cpu']}, {made['cores']} cores, {made['date']}; {versions}"] += 1
    return "\n".join(
        f"- {machine}: {count} runs, one thread each" for machine, count in machines.items()
    )


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
