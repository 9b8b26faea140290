"""The state of a run in one file, from which it goes on to the same bits.

Comes in: where a `Run` stands. Goes out: an npz file, replaced as a whole or not at all.
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from nmfmerge.merge import MergeTree
from nmfmerge.result import History, Stage, Status

_FORMAT = 1
_MOST_OF_THE_TIME = 0.02  # that saving may take
_SECONDS = 1.0  # at least, from one save to the next


@dataclass
class State:
    """Where a run stands: the stages behind it, the factors, and how far the present stage is.

    ``arrays`` holds the factors "Wt" and "H", those to fall back to, and what the solver needs to
    go on; ``history`` is that of the present stage, None between two stages.
    """

    elapsed: float
    stages: list[Stage]
    arrays: dict[str, np.ndarray]
    fallback_objective: float = np.inf
    merges: MergeTree | None = None
    generalized_singular_values: np.ndarray = field(default_factory=lambda: np.empty(0))
    stage_seconds: float = 0.0
    history: History | None = None


class Checkpoint:
    """The file of one run; ``asked`` is what the run was asked, by which another is told apart."""

    def __init__(self, path: str | os.PathLike[str], asked: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self.asked = json.loads(json.dumps(asked))
        self._last = perf_counter()
        self._cost = 0.0

    def due(self) -> bool:
        """Whether it is time to save again."""
        return perf_counter() - self._last > max(_SECONDS, self._cost / _MOST_OF_THE_TIME)

    def save(self, state: State) -> None:
        """Write the state beside the file, then put it in its place in one move."""
        began = perf_counter()
        meta, arrays = _pack(state)
        meta |= {"format": _FORMAT, "asked": self.asked}
        scratch = self.path.with_name(self.path.name + ".new")
        with open(scratch, "wb") as file:
            np.savez(file, meta=np.array(json.dumps(meta)), **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, self.path)
        self._last = perf_counter()
        self._cost = self._last - began

    def load(self) -> State | None:
        """The state that was saved; None if there is none.

        Raises
        ------
        ValueError
            If the file is no checkpoint, or that of another run.
        """
        if not self.path.exists():
            return None
        try:
            with open(self.path, "rb") as file, np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            meta = json.loads(str(arrays.pop("meta")))
            saved_format, asked = meta["format"], meta["asked"]
        except Exception as error:
            raise ValueError(
                f"checkpoint {str(self.path)!r} is no checkpoint of a run ({error}); name another "
                "file, or delete it to begin anew"
            ) from error
        self._refuse_another(saved_format, asked)
        return _unpack(meta, arrays)

    def _refuse_another(self, saved_format: int, asked: dict[str, Any]) -> None:
        others: dict[str, tuple[Any, Any]] = {}
        if saved_format != _FORMAT:
            others["format"] = saved_format, _FORMAT
        for name in sorted({*asked, *self.asked}):
            if not _same(asked.get(name), self.asked.get(name)):
                others[name] = (asked.get(name), self.asked.get(name))
        if others:
            differences = ", ".join(f"{name}: {a!r}, now {b!r}" for name, (a, b) in others.items())
            raise ValueError(
                f"checkpoint {str(self.path)!r} is of another run ({differences}); name another "
                "file, or delete it to begin anew"
            )


def _same(a: Any, b: Any) -> bool:
    """Equal; of real numbers, up to the rounding of another number of threads."""
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9)
    return bool(a == b)


def _pack(state: State) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a state into what JSON holds and arrays."""
    arrays: dict[str, Any] = {f"state {name}": array for name, array in state.arrays.items()}
    arrays["generalized_singular_values"] = state.generalized_singular_values
    stages = []
    for i, stage in enumerate(state.stages):
        stages.append({name: value for name, value in vars(stage).items() if name != "history"})
        _pack_history(arrays, f"history {i}", stage.history)
    _pack_history(arrays, "history", state.history)
    if state.merges is not None:
        arrays["merge pairs"] = state.merges.pairs
        arrays["merge penalties"] = state.merges.penalties
    meta = {
        "elapsed": state.elapsed,
        "stages": stages,
        "fallback_objective": state.fallback_objective,
        "stage_seconds": state.stage_seconds,
        "n_leaves": state.merges.n_leaves if state.merges else 0,
    }
    return meta, arrays


def _unpack(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> State:
    stages = [
        Stage(**known | {"status": Status(known["status"])},
              history=_unpack_history(arrays, f"history {i}"))
        for i, known in enumerate(meta["stages"])
    ]  # fmt: skip
    merges = None
    if "merge pairs" in arrays:
        merges = MergeTree(meta["n_leaves"], arrays["merge pairs"], arrays["merge penalties"])
    return State(
        elapsed=meta["elapsed"],
        stages=stages,
        arrays={n.removeprefix("state "): a for n, a in arrays.items() if n.startswith("state ")},
        fallback_objective=meta["fallback_objective"],
        merges=merges,
        generalized_singular_values=arrays["generalized_singular_values"],
        stage_seconds=meta["stage_seconds"],
        history=_unpack_history(arrays, "history"),
    )


def _pack_history(arrays: dict[str, np.ndarray], name: str, history: History | None) -> None:
    if history is not None:
        arrays[name] = np.stack([history.step, history.seconds, history.fitting_error])


def _unpack_history(arrays: dict[str, np.ndarray], name: str) -> History | None:
    return History(*arrays[name]) if name in arrays else None
