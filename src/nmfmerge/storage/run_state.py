"""The state of a run as data, and the check that a run can have been in it.

Courses return their state and continue from one; `checkpoint` keeps it in a file.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nmfmerge.losses.merging import MergeTree
from nmfmerge.results.factorization import Stage
from nmfmerge.solvers import LoopState
from nmfmerge.solvers.history import STAGES_OF_MERGE, STAGES_OF_NMF, StageName, Status
from nmfmerge.storage.records import Arrays, check_factor

_OF_FULL_RANK = (StageName.INITIAL, StageName.MERGE, StageName.FINAL)
_SAVED_STATUSES = (Status.CONVERGED, Status.MAX_ITER, Status.DONE)  # others end a run


@dataclass
class StartState:
    """The progress of a run from one start."""

    stages: list[Stage] = field(default_factory=list)
    merges: MergeTree | None = None
    generalized_singular_values: np.ndarray = field(default_factory=lambda: np.empty(0))

    @property
    def status(self) -> Status:
        """How the last stage that iterates ended."""
        iterated = [stage.status for stage in self.stages if stage.history is not None]
        return iterated[-1] if iterated else Status.DONE


@dataclass
class CourseState:
    """The state of some starts of a run: finished stages, the factors, the current stage.

    ``arrays`` holds the factors "Wt" and "H" of the starts, those to fall back to, and those of the
    first start where it is set "aside" while the others are merged; ``loop`` says how far the
    present stage is, None between two stages.
    """

    starts: list[StartState]
    arrays: dict[str, np.ndarray]
    fallback_value: np.ndarray
    stage_seconds: float = 0.0
    loop: LoopState | None = None

    @property
    def n_aside(self) -> int:
        """How many starts are set aside: the first, or none."""
        return int("aside Wt" in self.arrays)


@dataclass
class RunState:
    """The state of a run: its time so far, and its courses; None for one that has not begun."""

    elapsed: float
    courses: list[CourseState | None]


def check_state(state: RunState, identity: Mapping[str, Any]) -> None:
    """Check that all starts are there, that stages are those of a run, and that factors fit."""
    n_starts, together = identity["n_init"], identity["together"]
    if len(state.courses) != (1 if together else n_starts):
        raise ValueError(f"it does not have the {n_starts} starts that were requested")
    if not math.isfinite(state.elapsed):
        raise ValueError("the run took infinitely long")
    for course in state.courses:
        if course is not None:
            _check_course(course, n_starts if together else 1, identity)


def _check_course(state: CourseState, n_starts: int, identity: Mapping[str, Any]) -> None:
    if len(state.starts) != n_starts:
        raise ValueError(f"it has {len(state.starts)} starts, but {n_starts} were requested")
    first, *others = [_layout(start) for start in state.starts]
    if len(set(others)) > 1 or not (first in others or not others or _is_plain(first, others[0])):
        raise ValueError("its starts are at different stages")
    if not math.isfinite(state.stage_seconds):
        raise ValueError("a stage took infinitely long")
    r = identity["n_components"]
    rank = state.starts[-1].stages[-1].n_components if state.starts[-1].stages else r
    for start in state.starts:
        _check_start(start, start.stages[-1].n_components if start.stages else r, r)
    n_starts -= state.n_aside
    values = state.fallback_value
    if values.shape != (n_starts,) or values.dtype != np.float64 or np.isnan(values).any():
        raise ValueError("the values to fall back to are not one number for each start")
    _check_factors(state.arrays, n_starts, rank, identity)
    for solver in state.loop.solvers if state.loop is not None else ():
        _check_solver(solver, identity["dtype"])


def _layout(start: StartState) -> tuple[tuple[str, int], ...]:
    return tuple((stage.name, stage.n_components) for stage in start.stages)


def _is_plain(first: tuple[tuple[str, int], ...], other: tuple[tuple[str, int], ...]) -> bool:
    """True if the first start is standard NMF, and has no stages that it cannot have yet."""
    names = [name for name, _ in first]
    return names == [name for name, _ in other if name in STAGES_OF_NMF]


def _check_start(start: StartState, rank: int, r: int) -> None:
    names = tuple(stage.name for stage in start.stages)
    if names not in (STAGES_OF_MERGE[: len(names)], STAGES_OF_NMF):
        raise ValueError(f"its stages are {', '.join(names)}")
    if not all(stage.status in _SAVED_STATUSES for stage in start.stages):
        raise ValueError("a stage did not end, but others follow it")
    if names and names[-1] in _OF_FULL_RANK and rank != r:
        raise ValueError(f"it has {rank} components, but {r} were requested")
    if (StageName.MERGE in names) != (start.merges is not None):
        raise ValueError("the record of the merges does not agree with its stages")
    if start.merges is not None and start.merges.n_components != r:
        raise ValueError(f"its merges leave {start.merges.n_components} components, not {r}")


def _check_factors(
    arrays: Arrays, n_starts: int, rank: int, identity: Mapping[str, Any]
) -> None:  # fmt: skip
    (m, n), r, dtype = identity["shape"], identity["n_components"], identity["dtype"]
    for name, side in (("Wt", m), ("H", n)):
        other = arrays["H" if name == "Wt" else "Wt"]
        if arrays[name].shape[-1] == 0 and other.shape[-1] > 0:  # to be found from the other
            side = 0
        _check_batch(name, arrays[name], (n_starts, rank, side), dtype)
        for kept, count in (("fallback", n_starts), ("aside", 1)):
            if (key := f"{kept} {name}") in arrays:
                _check_batch(key, arrays[key], (count, r, side), dtype)
    for kept, words in (("fallback", "to fall back to"), ("aside", "set aside")):
        if (f"{kept} Wt" in arrays) != (f"{kept} H" in arrays):
            raise ValueError(f"one of the factors {words} is missing")


def _check_batch(name: str, F: np.ndarray, shape: tuple[int, ...], dtype: str) -> None:
    if F.shape != shape:
        raise ValueError(f"{name} has shape {F.shape}, expected {shape}")
    for of_start in F:
        check_factor(name, of_start, dtype=dtype)


def _check_solver(arrays: Arrays, dtype: str) -> None:
    for name, array in arrays.items():
        if array.ndim == 2:
            check_factor(name, array, dtype=dtype)
        elif array.ndim != 0 or array.dtype.kind not in "fb" or np.isnan(array):
            raise ValueError(f"{name} is not a number")
