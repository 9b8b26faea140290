"""On which machines runs were made, in words."""

from collections import Counter

VERSIONS = ("python", "nmfmerge", "numpy", "scipy", "numba", "scikit-learn")


def machines(records: list[dict]) -> str:
    """A list of machines with versions, days, how many runs each made and how many at a time."""
    counted: Counter[str] = Counter()
    for record in records:
        made = record["machine"]
        versions = ", ".join(f"{name} {made[name]}" for name in VERSIONS)
        beside = "one at a time" if made["jobs"] == 1 else f"{made['jobs']} at a time"
        name = f"{made['cpu']}, {made['cores']} cores, {made['date']}; {versions}"
        counted[f"- {name}: {{}} runs, {beside}, one thread each"] += 1
    return "\n".join(machine.format(count) for machine, count in counted.items())
