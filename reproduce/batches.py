"""Making runs on a device: all starts of a kind at once, stored as single runs.

A batch starts from the factors that each run would start from alone, so it gives their solutions, to
rounding. It does not give the time of a single run: sections on time leave these runs out.
"""

import sys
import time
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from importlib.metadata import version

import numpy as np

from benchmarks.common import environment
from nmfmerge import nmf, nmf_merge
from nmfmerge.inputs.check import check_X
from nmfmerge.inputs.tensors import on_device, to_numpy
from nmfmerge.matrices import DataMatrix
from nmfmerge.solvers.history import Status
from reproduce.one_run import MAX_ITER, Made, first_factors, record_of_batch
from reproduce.paper import SOLVERS
from reproduce.perform import missing, with_what_they_go_on_from
from reproduce.runs import Run
from reproduce.sets import SETS, matrix
from reproduce.store import Store

ARRAYS = 16  # of the size of a start's factors that a batch has in memory, with products and copies
USABLE = 0.5  # of the memory of a device
SHOWN = 200  # runs from one line on progress to the next
HOST_BYTES = 2**31  # that a batch may take where it shares the memory of the processor


def can_make(run: Run) -> bool:
    """True if a run can be one start of a batch: by a solver of the paper, whose error counts."""
    return run.method in ("nmf", "merge") and run.solver in SOLVERS


def perform_on_device(
    runs: Iterable[Run],
    store: Store,
    device: str,
    *,
    keep_W: Collection[Run] = (),
    until: float = float("inf"),
) -> bool:
    """Make the runs that a device can make and that are not stored yet; return whether all are made.

    Parameters
    ----------
    runs : the runs; they are made in the order of `to_make`.
    store : where those made are kept.
    device : str
        A device of PyTorch; "cpu" for batches in NumPy.
    keep_W : the runs whose W is kept.
    until : float
        A moment of `time.monotonic` when to stop. Of the batch that has not ended then, what has converged is kept.
    """
    wanted = to_make(runs, store, keep_W)
    if not wanted:
        return True
    machine = environment() | describe(device)
    print(f"{len(wanted)} runs to make on {machine['device']}", file=sys.stderr)
    left = set(wanted)
    began = time.monotonic()
    for run, made in _made_in_batches(wanted, device, until):
        if run in left:
            left.remove(run)
            store.put(run, made.record, machine, made.W if run in keep_W else None)
            if not (len(wanted) - len(left)) % SHOWN:
                minutes = (time.monotonic() - began) / 60
                print(
                    f"[{len(wanted) - len(left)}/{len(wanted)}] {minutes:.1f} min", file=sys.stderr
                )
    took = time.monotonic() - began
    print(f"{len(wanted) - len(left)} runs made in {took:.0f} s", file=sys.stderr)
    if left:
        print(f"time is up; {len(left)} runs are left", file=sys.stderr)
    return not left


def to_make(runs: Iterable[Run], store: Store, keep_W: Collection[Run] = ()) -> list[Run]:
    """The runs that a device can make and that are not stored yet, the most valuable first.

    Cells of Table II come first, small data before large, then other tolerances and other ranks;
    those that take longest come last: MU, then ALSPGrad, on large data. Runs that go on from one another
    stay together, also with other numbers of extra components.
    """
    possible = missing(filter(can_make, runs), store, keep_W=keep_W)
    first: dict[tuple, int] = {}
    for i, run in enumerate(possible):
        first.setdefault((run.data, run.rank, run.solver), i)

    def place(run: Run) -> tuple:
        return _round(run), SETS[run.data].large, first[run.data, run.rank, run.solver]

    return sorted(possible, key=place)


def _round(run: Run) -> int:
    known = SETS[run.data]
    if run.rank != known.rank:
        return 2
    if run.method == "merge" and run.goes_on_from is None:
        return 1
    return {"mu": 3, "alspgrad": 4}.get(run.solver, 0) if known.large else 0


def show_batches(
    runs: Iterable[Run], store: Store, keep_W: Collection[Run] = ()
) -> list[list[str]]:
    """Rows of a table: what runs of a kind have in common, and how many a device has to make."""
    possible = Counter(run.kind for run in dict.fromkeys(runs) if can_make(run))
    counted = Counter(run.kind for run in to_make(runs, store, keep_W))
    return [
        [SETS[data].title, solver, method, str(rank), str(extra), f"{loose:g}", f"{n} of {possible[kind]}"]
        for kind, n in counted.items()
        for data, method, rank, extra, solver, _, loose in [kind]
    ]  # fmt: skip


def describe(device: str) -> dict[str, str]:
    """The name of a device and the version of PyTorch; an error if there is no such device."""
    if device == "cpu":
        return {"device": "the processor"}
    try:
        on_device(np.ones((1, 1)), device)
    except (ImportError, ValueError) as error:
        message = str(error).replace(f"device={device!r}", f"--device {device}")
        raise ValueError(message) from None
    import torch

    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else device
    return {"device": name, "torch": version("torch")}


def _made_in_batches(wanted: list[Run], device: str, until: float) -> Iterator[tuple[Run, Made]]:
    """Make runs and those that they go on from, kind by kind, until the time is up.

    Solutions are kept while others wait to go on from them.
    """
    runs = with_what_they_go_on_from(wanted)
    followers = Counter(run.goes_on_from for run in runs)
    placed: dict[str, DataMatrix] = {}
    ended: dict[Run, Made] = {}
    for batch in _batches(runs, device):
        name = batch[0].data
        if name not in placed:
            placed[name] = check_X(matrix(name), device)
        # In the batch that is cut off, and after it, some have nothing to go on from.
        batch = [run for run in batch if run.goes_on_from is None or run.goes_on_from in ended]
        sources = [ended[run.goes_on_from] for run in batch if run.goes_on_from]
        for run, one in make_batch(batch, placed[name], sources, until):
            if followers[run]:
                ended[run] = one
            if run.goes_on_from:
                followers[run.goes_on_from] -= 1
                if not followers[run.goes_on_from]:
                    del ended[run.goes_on_from]
            yield run, one


def _batches(runs: list[Run], device: str) -> Iterator[list[Run]]:
    """Runs of a kind together, as many at a time as there is memory for."""
    kinds: dict[tuple, list[Run]] = {}
    for run in runs:
        kinds.setdefault(run.kind, []).append(run)
    for alike in kinds.values():
        most = most_starts(alike[0], _memory(device))
        for i in range(0, len(alike), most):
            yield alike[i : i + most]


def most_starts(run: Run, memory: float) -> int:
    """How many starts fit in so many bytes."""
    numbers = (run.rank + run.extra) * sum(matrix(run.data).shape)
    return max(1, int(memory // (ARRAYS * 8 * numbers)))


def _memory(device: str) -> float:
    if not device.startswith("cuda"):
        return HOST_BYTES
    import torch

    return USABLE * torch.cuda.get_device_properties(device).total_memory


def make_batch(
    runs: list[Run], data: DataMatrix, sources: list[Made], until: float = float("inf")
) -> list[tuple[Run, Made]]:
    """Make runs of one kind together; those that end in time, with what was made of them.

    ``sources`` are what was made of the runs which they go on from, if any.
    """
    left, began = until - time.monotonic(), time.monotonic()
    if left <= 0 or not runs:
        return []
    run = runs[0]
    options = {"solver": run.solver, "tol": run.tol, "max_iter": MAX_ITER, "return_all": True,
               "max_time": None if until == float("inf") else left}  # fmt: skip
    options["init"] = [(one.W, one.H) for one in sources] or [
        first_factors(run, data) for run in runs
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whether a run converged is in its record
        if run.method == "nmf":
            result = nmf(data, run.rank, **options)
        else:
            result = nmf_merge(
                data, run.rank, n_extra=run.extra, tol_intermediate=run.loose, **options
            )
    batch = {"starts": len(runs), "seconds": time.monotonic() - began}
    made = []
    for i, solution in enumerate(result.solutions or (result,)):
        if solution.status is not Status.MAX_TIME:
            record = record_of_batch(solution, batch, sources[i].record if sources else None)
            one = Made(record, to_numpy(solution.W), to_numpy(solution.H))
            made.append((runs[i], one))
    errors = [one.record["error"] for _, one in made] or [np.nan]
    print(
        f"{batch['seconds']:.1f} s  {run} and {len(runs) - 1} other starts, {len(made)} in time: "
        f"{np.mean(errors):.5g} ± {np.std(errors):.2g} %",
        file=sys.stderr,
    )
    return made
