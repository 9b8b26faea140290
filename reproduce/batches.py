"""Making runs on a device: all random starts of a kind at once, stored as single runs.

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
from nmfmerge.data import DataMatrix
from nmfmerge.result import Status
from nmfmerge.tensors import on_device, to_numpy
from nmfmerge.validation import check_X
from reproduce.one_run import MAX_ITER, Made, first_factors, record_of_batch
from reproduce.perform import missing, with_what_they_go_on_from
from reproduce.runs import ON_DEVICES, Run
from reproduce.sets import SETS, matrix
from reproduce.store import Store

ARRAYS = 12  # of the size of a start's factors that a batch has in memory, with products and copies
USABLE = 0.5  # of the memory of a device
HOST_BYTES = 2**31  # that a batch may take where it shares the memory of the processor


def can_make(run: Run) -> bool:
    """Whether a run is one start of a batch: random, by a solver that works on a device."""
    return run.method in ("nmf", "merge") and run.init == "random" and run.solver in ON_DEVICES


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
    runs : the runs, the most valuable first; of all, those on large data are made first.
    store : where those made are kept.
    device : str
        A device of PyTorch; "cpu" for batches in NumPy.
    keep_W : the runs whose W is kept.
    until : float
        A moment of `time.monotonic` when to stop. The batch that has not ended then is given up.
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
    took = time.monotonic() - began
    print(f"{len(wanted) - len(left)} runs made in {took:.0f} s", file=sys.stderr)
    if left:
        print(f"time is up; {len(left)} runs are left", file=sys.stderr)
    return not left


def to_make(runs: Iterable[Run], store: Store, keep_W: Collection[Run] = ()) -> list[Run]:
    """The runs that a device can make and that are not stored yet, those on large data first."""
    possible = missing(filter(can_make, runs), store, keep_W=keep_W)
    return sorted(possible, key=lambda run: not SETS[run.data].large)


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
        sources = [ended[run.goes_on_from] for run in batch if run.goes_on_from]
        made = make_batch(batch, placed[name], sources, until)
        if made is None:
            return
        for run, one in zip(batch, made, strict=True):
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
) -> list[Made] | None:
    """Make runs of one kind together; None if they do not end in time.

    ``sources`` are what was made of the runs which they go on from, if any.
    """
    left, began = until - time.monotonic(), time.monotonic()
    if left <= 0:
        return None
    run = runs[0]
    options = {"solver": run.solver, "tol": run.tol, "max_iter": MAX_ITER, "keep_all": True,
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
    if result.status is Status.MAX_TIME:
        return None
    batch = {"starts": len(runs), "seconds": time.monotonic() - began}
    made = [
        Made(
            record_of_batch(solution, batch, sources[i].record if sources else None),
            to_numpy(solution.W),
            to_numpy(solution.H),
        )
        for i, solution in enumerate(result.solutions or (result,))
    ]
    errors = [one.record["error"] for one in made]
    print(
        f"{batch['seconds']:.1f} s  {run} and {len(runs) - 1} other starts: "
        f"{np.mean(errors):.5g} ± {np.std(errors):.2g} %",
        file=sys.stderr,
    )
    return made
