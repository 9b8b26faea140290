"""The runs behind the published page, in one small file that is part of the repository.

It has what the page is drawn from: errors and iterations of all runs, times and traces of those made
alone, and the mismatches between components; not the components themselves.
"""

import json
import lzma
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np

from reproduce.runs import Run, data_digest, numerics
from reproduce.store import Store

FILE = Path(__file__).with_name("published.json.xz")
DIGITS = 4  # significant, of mismatches
_SHARED = ("data", "method", "rank", "extra", "solver", "tol", "loose")  # settings of a cell
_OWN = ("init", "seed")  # settings of a run within it
_KEPT = ("error", "n_iter", "converged")  # of a run made among others


def write(store: Store, runs: Iterable[Run], path: Path = FILE) -> int:
    """Write the stored ones of some runs, and all mismatches; return how many runs.

    Of a run that was also made alone, only that record is kept, as only that one is used.
    """
    cells: dict[str, list[tuple[Run, dict]]] = {}
    for run in dict.fromkeys(runs):
        if record := store.get(run):
            shared = {name: getattr(run, name) for name in _SHARED}
            alike = shared | {"machine": record["machine"], "batch": record.get("batch")}
            cells.setdefault(json.dumps(alike), []).append((run, record))
    content = {
        "data": {name: data_digest(name) for name in sorted({json.loads(key)["data"] for key in cells})},
        "solvers": {name: numerics(name) for name in sorted({json.loads(key)["solver"] for key in cells})},
        "cells": [json.loads(key) | _columns(members) for key, members in cells.items()],
        "mismatches": {
            key: {name: _rounded(values) for name, values in arrays.items()}
            for key, arrays in store.all_derived()
        },
    }  # fmt: skip
    path.write_bytes(lzma.compress(json.dumps(content).encode(), preset=9 | lzma.PRESET_EXTREME))
    return sum(map(len, cells.values()))


def read(store: Store, path: Path = FILE) -> int:
    """Add what a file has to a store, where data and solvers are still the same; return how many."""
    if not path.exists():
        return 0
    content = json.loads(lzma.decompress(path.read_bytes()))
    same = _unchanged(content["data"], data_digest)
    same_solvers = _unchanged(content["solvers"], numerics)
    count = 0
    with store.at_once():
        for cell in content["cells"]:
            if cell["data"] in same and cell["solver"] in same_solvers:
                for run, record in _members(cell):
                    count += store.add(run, record, cell["machine"])
        for key, arrays in content["mismatches"].items():
            store.add_derived(key, {name: np.array(values) for name, values in arrays.items()})
    return count


def _unchanged(then: dict[str, str], now: Callable[[str], str]) -> set[str]:
    """The data sets or solvers that are as they were; those that are not here cannot be used."""
    same = set()
    for name, value in then.items():
        with suppress(KeyError, FileNotFoundError, PackageNotFoundError):
            if now(name) == value:
                same.add(name)
    return same


def _columns(members: list[tuple[Run, dict]]) -> dict:
    alone = members[0][1]["machine"].get("jobs") == 1
    names = [*_KEPT, "seconds", "stages", "trace"] if alone else _KEPT
    columns = {name: [record[name] for _, record in members] for name in names}
    return {name: [getattr(run, name) for run, _ in members] for name in _OWN} | columns


def _members(cell: dict) -> list[tuple[Run, dict]]:
    shared = {name: cell[name] for name in _SHARED}
    names = [name for name in cell if name not in (*_SHARED, *_OWN, "machine", "batch")]
    empty = {"seconds": None, "stages": [], "trace": []}
    if cell["batch"]:
        empty["batch"] = cell["batch"]
    return [
        (
            Run(**shared, **{name: cell[name][i] for name in _OWN}),
            empty | {name: cell[name][i] for name in names},
        )
        for i in range(len(cell["seed"]))
    ]


def _rounded(values: np.ndarray) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values.ravel()]
