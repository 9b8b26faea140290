"""The order in which runs are made: a little of everything first, and how much is left to do."""

from collections import defaultdict
from collections.abc import Iterable

from reproduce.runs import Run
from reproduce.sets import SETS
from reproduce.store import Store

FEW, SOME = 3, 20  # starts that every cell has before any cell has more


def in_order(runs: Iterable[Run]) -> list[Run]:
    """Put runs in the order of their value, those from the same start together.

    Every cell of every table gets its deterministic starts and a few random ones, then 20, then the
    rest; each time small data first, seed by seed, so that all cells grow alike. Projected gradients
    on large data take ten times as long as anything else. Their first start comes before all else on
    large data, because it ends last; a few more when the other cells have 20, then 20. More than
    20 starts on large data, best made on a device, come last.
    """
    unique = list(dict.fromkeys(runs))
    first: dict[tuple, int] = {}
    for i, run in enumerate(unique):
        first.setdefault(run.start, i)
    return sorted(unique, key=lambda run: (_round(run), run.seed, first[run.start]))


def _round(run: Run) -> int:
    large = SETS[run.data].large
    if large and run.solver == "alspgrad":
        return 1 if run.seed == 0 else 5 if run.seed < FEW else 7
    if run.seed < FEW:
        return 2 if large else 0
    if run.seed < SOME:
        return 4 if large else 3
    return 8 if large else 6


def left_to_do(
    plans: dict[str, list[Run]], store: Store, *, alone: bool = False
) -> list[list[str]]:
    """Rows of a table: experiment, data, solver, runs made and planned, core-minutes left.

    Minutes are by the mean time of the runs of a kind that are stored (``alone``: made alone); a
    kind without runs is counted as unknown.
    """
    counted: set[Run] = set()
    rows = []
    for name, plan in plans.items():
        parts = defaultdict(list)
        for run in dict.fromkeys(plan):
            if run not in counted:
                parts[run.data, run.solver].append(run)
        counted.update(plan)
        rows += [_row(name, *part, runs, store, alone) for part, runs in parts.items()]
    return rows


def _row(
    name: str, data: str, solver: str, runs: list[Run], store: Store, alone: bool
) -> list[str]:
    known = defaultdict(list)
    missing = []
    for run in runs:
        record = store.get(run, alone=alone)
        if record is None:
            missing.append(run)
        elif record["seconds"] is not None:
            known[run.kind].append(own_seconds(run, record, store))
    seconds = sum(sum(known[r.kind]) / len(known[r.kind]) for r in missing if r.kind in known)
    unknown = sum(run.kind not in known for run in missing)
    made = f"{len(runs) - len(missing)} of {len(runs)}"
    left = f"{seconds / 60:.1f}" + (f" and {unknown} runs of unknown length" if unknown else "")
    return [name, SETS[data].title, solver, made, left]


def own_seconds(run: Run, record: dict, store: Store) -> float:
    """Time that a run took, without that of the run which it goes on from; 0 if made in a batch."""
    if record["seconds"] is None:
        return 0.0
    source = run.goes_on_from and store.get(run.goes_on_from)
    return record["seconds"] - ((source["seconds"] or 0.0) if source else 0.0)
