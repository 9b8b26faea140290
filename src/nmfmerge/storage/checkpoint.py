"""The state of a run in one file, from which it continues bit for bit.

Input: the state of a `Run`. Output: an npz file, replaced as a whole or not at all. A file
that is damaged, or that belongs to other data or settings, is refused.
"""

from collections.abc import Mapping

import numpy as np

from nmfmerge.solvers import LoopState
from nmfmerge.solvers.history import Status
from nmfmerge.storage.records import (
    Arrays,
    Record,
    number,
    pack_history,
    pack_run,
    unpack_history,
    unpack_run,
)
from nmfmerge.storage.run_state import CourseState, RunState, StartState, check_state
from nmfmerge.storage.state_file import (
    CheckpointError,
    OtherRun,
    StateFile,
    _checksum,
    differences,
)

__all__ = ["Checkpoint", "CheckpointError", "OtherRun", "_checksum", "differences"]


class Checkpoint(StateFile):
    """The file that keeps the state of one run; used as a context, it is locked.

    Its identity has the keys "shape", "dtype", "n_components" and "n_init", and "together" if the
    starts are one batch.
    """

    format = 5

    def save(self, state: RunState) -> None:
        """Write the state; if that fails, warn once and keep the last good file."""
        self.write(*_pack(state))

    def load(self) -> RunState | None:
        """The state that was saved; None if there is none.

        Raises
        ------
        OtherRun
            If the file belongs to a run of other data or settings.
        CheckpointError
            If the file is damaged, or no checkpoint.
        """
        found = self.read()
        if found is None:
            return None
        try:
            state = _unpack(*found)
            check_state(state, self.identity)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise self.refusal("holds what no run can have saved", error) from error
        return state


def _pack(state: RunState) -> tuple[Record, Arrays]:
    """Split a state into a record for JSON, and arrays."""
    records: list[Record | None] = []
    arrays: Arrays = {}
    for i, course in enumerate(state.courses):
        record, own = (None, {}) if course is None else _pack_course(course)
        records.append(record)
        arrays |= {f"{i}: {name}": array for name, array in own.items()}
    return {"elapsed": state.elapsed, "courses": records}, arrays


def _pack_course(state: CourseState) -> tuple[Record, Arrays]:
    arrays = {f"state {name}": array for name, array in state.arrays.items()}
    arrays["fallback value"] = state.fallback_value
    records = []
    for i, start in enumerate(state.starts):
        record, own = pack_run(start.stages, start.merges, start.generalized_singular_values)
        records.append(record)
        if state.loop is not None and i >= state.n_aside:
            own["loop"] = pack_history(state.loop.histories[i - state.n_aside])
            solver = state.loop.solvers[i - state.n_aside]
            own |= {f"solver {name}": array for name, array in solver.items()}
        arrays |= {f"{i} {name}": array for name, array in own.items()}
    whole: Record = {
        "stage_seconds": state.stage_seconds,
        "starts": records,
        "loop": None
        if state.loop is None
        else {"statuses": state.loop.statuses, "phases": state.loop.phases},
    }
    return whole, arrays


def _unpack(record: Record, arrays: Arrays) -> RunState:
    """Undo `_pack`."""
    if sorted(arrays) != record["arrays"]:
        raise ValueError("its list of entries does not agree with its entries")
    courses = [
        None if course is None else _unpack_course(course, _with_prefix(arrays, f"{i}: "))
        for i, course in enumerate(record["courses"])
    ]
    return RunState(number("elapsed", record["elapsed"]), courses)


def _unpack_course(record: Record, arrays: Arrays) -> CourseState:
    own = [_with_prefix(arrays, f"{i} ") for i in range(len(record["starts"]))]
    starts = [
        StartState(*unpack_run(of_start, mine))
        for of_start, mine in zip(record["starts"], own, strict=True)
    ]
    factors = _with_prefix(arrays, "state ")
    loop, n_aside = record["loop"], int("aside Wt" in factors)
    return CourseState(
        starts=starts,
        arrays=factors,
        fallback_value=arrays["fallback value"],
        stage_seconds=number("stage_seconds", record["stage_seconds"]),
        loop=None if loop is None else _unpack_loop(loop, factors, own[n_aside:]),
    )


def _unpack_loop(loop: Record, factors: Arrays, own: list[Arrays]) -> LoopState:
    phases = loop["phases"]
    if any(phase not in (0, 1) for phase in phases) or len(phases) != len(own):
        raise ValueError(f"its starts are in the phases {phases}")
    statuses = [None if status is None else Status(status) for status in loop["statuses"]]
    if len(statuses) != len(own):
        raise ValueError("the present stage has another number of starts")
    return LoopState(
        Wt=factors["Wt"],
        H=factors["H"],
        histories=[unpack_history(mine["loop"]) for mine in own],
        statuses=statuses,
        phases=phases,
        solvers=[_with_prefix(mine, "solver ") for mine in own],
    )


def _with_prefix(arrays: Mapping[str, np.ndarray], prefix: str) -> Arrays:
    """The arrays whose names have a prefix, without that prefix."""
    return {name[len(prefix) :]: a for name, a in arrays.items() if name.startswith(prefix)}
