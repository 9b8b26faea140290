"""On which machines runs were made, in words."""

from collections import Counter

VERSIONS = ("python", "nmfmerge", "numpy", "scipy", "numba", "scikit-learn", "torch")


def machines(records: list[dict]) -> str:
    """A list of machines with versions, days, how many runs each made and how many at a time."""
    counted = Counter(_machine(record["machine"]) for record in records)
    return "\n".join(machine.format(count) for machine, count in counted.items())


def _machine(made: dict) -> str:
    """A line on a machine, with a place for the number of runs."""
    versions = ", ".join(f"{name} {made[name]}" for name in VERSIONS if name in made)
    host = f"{made['cpu']}, {made['cores']} cores"
    if "device" in made:
        where, how = f"{made['device']} ({host})", "many starts at once"
    else:
        beside = "one at a time" if made["jobs"] == 1 else f"{made['jobs']} at a time"
        where, how = host, f"{beside}, one thread each"
    return f"- {where}, {made['date']}; {versions}: {{}} runs, {how}"


def batches(records: list[dict]) -> str:
    """A sentence on the runs that were made many at once on a device; nothing if there are none."""
    seconds: dict[str, list[float]] = {}
    for record in records:
        if batch := record.get("batch"):
            share = batch["seconds"] / batch["starts"]
            seconds.setdefault(record["machine"]["device"], []).append(share)
    return "".join(
        f" {len(shares)} of the runs were made many at once on {device}, in {sum(shares) / 60:.1f} minutes; "
        "they count for errors and components, and not for times."
        for device, shares in seconds.items()
    )
