"""The state of a run in one file, from which it goes on to the same bits.

Comes in: where a `Run` stands. Goes out: an npz file, replaced as a whole or not at all. A file
that is damaged, or that belongs to other data or settings, is refused.
"""

import hashlib
import json
import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any

import numpy as np

from nmfmerge.files import InUse, Lock, replacing
from nmfmerge.merge import MergeTree
from nmfmerge.records import (
    Arrays,
    Record,
    check_factor,
    number,
    pack_history,
    pack_run,
    read_arrays,
    unpack_history,
    unpack_run,
)
from nmfmerge.result import Stage, Status
from nmfmerge.solvers import LoopState

_FORMAT = 4
_MAX_SAVE_SHARE = 0.02  # of the run time spent on checkpoints
_MIN_INTERVAL = 1.0  # seconds from one save to the next
_STAGES = ("start", "initial", "recover", "overcomplete", "merge", "final")
_SAVED_STATUSES = (Status.CONVERGED, Status.MAX_ITER, Status.DONE)  # others end a run


@dataclass
class StartState:
    """What a run has done from one start."""

    stages: list[Stage] = field(default_factory=list)
    merges: MergeTree | None = None
    generalized_singular_values: np.ndarray = field(default_factory=lambda: np.empty(0))

    @property
    def status(self) -> Status:
        """How the last stage that iterates ended."""
        iterated = [stage.status for stage in self.stages if stage.history is not None]
        return iterated[-1] if iterated else Status.DONE


@dataclass
class State:
    """Where a run stands: the stages behind it, the factors, and how far the present stage is.

    ``arrays`` holds the factors "Wt" and "H" of the starts, those to fall back to, and those of the
    first start where it is set "aside" while the others are merged; ``loop`` says how far the
    present stage is, None between two stages.
    """

    elapsed: float
    starts: list[StartState]
    arrays: dict[str, np.ndarray]
    fallback_objective: np.ndarray
    stage_seconds: float = 0.0
    loop: LoopState | None = None

    @property
    def n_aside(self) -> int:
        """How many starts are set aside: the first, or none."""
        return int("aside Wt" in self.arrays)


class CheckpointError(ValueError):
    """A checkpoint cannot be used; ``fault`` says why."""

    def __init__(self, path: Path, fault: str) -> None:
        super().__init__(
            f"checkpoint {str(path)!r} {fault}; name another file, or delete it to begin anew"
        )
        self.fault = fault


class OtherRun(CheckpointError):
    """A checkpoint belongs to another run; ``differences`` maps names to (saved, present)."""

    def __init__(self, path: Path, differences: dict[str, tuple[Any, Any]]) -> None:
        listed = ", ".join(
            "other data" if name == "data" else f"{name}: {saved!r}, now {present!r}"
            for name, (saved, present) in differences.items()
        )
        super().__init__(path, f"is of another run ({listed})")
        self.differences = differences


class Checkpoint:
    """The file that keeps the state of one run; used as a context, it is locked.

    Parameters
    ----------
    path : path
        The file; a symbolic link is followed.
    identity : mapping
        What decides the result of the run: its settings and a digest of its data, as values for
        JSON. A checkpoint with another identity is refused. It has the keys "shape", "dtype",
        "n_components" and "n_init".
    """

    def __init__(self, path: str | os.PathLike[str], identity: Mapping[str, Any]) -> None:
        self.path = Path(os.path.realpath(path))
        self.identity = json.loads(json.dumps(identity))
        self._lock = Lock(self.path)
        self._last = perf_counter()
        self._cost = 0.0
        self._warned = False

    def __enter__(self) -> "Checkpoint":
        try:
            self._lock.acquire()
        except InUse as error:
            raise InUse(
                f"checkpoint {str(self.path)!r} is {error}: wait until it ends, or name another "
                "file"
            ) from None
        except OSError as error:
            raise ValueError(
                f"checkpoint {str(self.path)!r} cannot be written ({error.strerror}); name a file "
                "in a folder that you may write to"
            ) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()

    def due(self) -> bool:
        """Whether it is time to save again."""
        return perf_counter() - self._last > max(_MIN_INTERVAL, self._cost / _MAX_SAVE_SHARE)

    def save(self, state: State) -> None:
        """Write the state; if that fails, warn once, keep the last good file and try again later.

        A run is worth more than its checkpoint, so a full disk does not end it.
        """
        began = perf_counter()
        record, arrays = _pack(state)
        record |= {"format": _FORMAT, "identity": self.identity, "arrays": sorted(arrays)}
        arrays["record"] = np.array(json.dumps(record))
        arrays["checksum"] = np.array(_checksum(arrays))
        try:
            with replacing(self.path) as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
        except OSError as error:
            self._warn(error)
        self._last = perf_counter()
        self._cost = self._last - began

    def load(self) -> State | None:
        """The state that was saved; None if there is none.

        Raises
        ------
        OtherRun
            If the file belongs to a run of other data or settings.
        CheckpointError
            If the file is damaged, or no checkpoint.
        """
        if not self.path.exists():
            return None
        try:
            arrays = read_arrays(self.path)
            if str(arrays.pop("checksum")) != _checksum(arrays):
                raise ValueError("its checksum is wrong")
            record = json.loads(str(arrays.pop("record")))
            saved_format, identity = record["format"], dict(record["identity"])
        except Exception as error:  # whatever a damaged archive makes its reader raise
            raise self._refusal("is damaged, or no checkpoint", error) from error
        if saved_format != _FORMAT:
            raise OtherRun(self.path, {"format": (saved_format, _FORMAT)})
        if found := differences(identity, self.identity):
            raise OtherRun(self.path, found)
        try:
            state = _unpack(record, arrays)
            _check(state, self.identity)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise self._refusal("holds what no run can have saved", error) from error
        return state

    def _refusal(self, fault: str, error: Exception) -> CheckpointError:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        return CheckpointError(self.path, f"{fault} ({' '.join(reason.split())})")

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"checkpoint {str(self.path)!r} could not be saved ({error.strerror or error}); "
                "the run goes on, and tries to save again later",
                RuntimeWarning,
                stacklevel=2,
            )


def differences(saved: Mapping[str, Any], present: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Names under which two runs differ, with the saved and the present value."""
    return {
        name: (saved.get(name), present.get(name))
        for name in sorted({*saved, *present})
        if saved.get(name) != present.get(name)
    }


def _checksum(arrays: Mapping[str, np.ndarray]) -> str:
    """A hash of names, types, shapes and bytes."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        total.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        total.update(np.ascontiguousarray(array).view(np.uint8).ravel().data)
    return total.hexdigest()


def _pack(state: State) -> tuple[Record, Arrays]:
    """Split a state into a record for JSON, and arrays."""
    arrays = {f"state {name}": array for name, array in state.arrays.items()}
    arrays["fallback objective"] = state.fallback_objective
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
        "elapsed": state.elapsed,
        "stage_seconds": state.stage_seconds,
        "starts": records,
        "loop": None
        if state.loop is None
        else {"statuses": state.loop.statuses, "phases": state.loop.phases},
    }
    return whole, arrays


def _unpack(record: Record, arrays: Arrays) -> State:
    """Undo `_pack`."""
    if sorted(arrays) != record["arrays"]:
        raise ValueError("its list of entries does not agree with its entries")
    own = [_with_prefix(arrays, f"{i} ") for i in range(len(record["starts"]))]
    starts = [
        StartState(*unpack_run(of_start, mine))
        for of_start, mine in zip(record["starts"], own, strict=True)
    ]
    factors = _with_prefix(arrays, "state ")
    loop, n_aside = record["loop"], int("aside Wt" in factors)
    return State(
        elapsed=number("elapsed", record["elapsed"]),
        starts=starts,
        arrays=factors,
        fallback_objective=arrays["fallback objective"],
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
    """Arrays whose names begin so, without that beginning."""
    return {name[len(prefix) :]: a for name, a in arrays.items() if name.startswith(prefix)}


def _check(state: State, identity: Mapping[str, Any]) -> None:
    """Check that the stages are those of a run, and that all factors fit the data."""
    n_starts = identity["n_init"]
    if len(state.starts) != n_starts:
        raise ValueError(f"it has {len(state.starts)} starts where {n_starts} were asked for")
    first, *others = [_layout(start) for start in state.starts]
    if len(set(others)) > 1 or not (first in others or not others or _is_plain(first, others[0])):
        raise ValueError("its starts have gone through different stages")
    if not (math.isfinite(state.elapsed) and math.isfinite(state.stage_seconds)):
        raise ValueError("the run took infinitely long")
    r = identity["n_components"]
    rank = state.starts[-1].stages[-1].n_components if state.starts[-1].stages else r
    for start in state.starts:
        _check_start(start, start.stages[-1].n_components if start.stages else r, r)
    n_starts -= state.n_aside
    values = state.fallback_objective
    if values.shape != (n_starts,) or values.dtype != np.float64 or np.isnan(values).any():
        raise ValueError("the objectives to fall back to are not one number for each start")
    _check_factors(state.arrays, n_starts, rank, identity)
    for solver in state.loop.solvers if state.loop is not None else ():
        _check_solver(solver, identity["dtype"])


def _layout(start: StartState) -> tuple[tuple[str, int], ...]:
    return tuple((stage.name, stage.n_components) for stage in start.stages)


def _is_plain(first: tuple[tuple[str, int], ...], other: tuple[tuple[str, int], ...]) -> bool:
    """True if the first start is standard NMF, and has no stages that it cannot have yet."""
    names = [name for name, _ in first]
    return names == [name for name, _ in other if name in ("start", "final")]


def _check_start(start: StartState, rank: int, r: int) -> None:
    names = tuple(stage.name for stage in start.stages)
    if names not in (_STAGES[: len(names)], ("start", "final")):
        raise ValueError(f"its stages are {', '.join(names)}")
    if not all(stage.status in _SAVED_STATUSES for stage in start.stages):
        raise ValueError("a stage did not end, but others follow it")
    if names and names[-1] in ("initial", "merge", "final") and rank != r:
        raise ValueError(f"it has {rank} components where {r} were asked for")
    if ("merge" in names) != (start.merges is not None):
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
