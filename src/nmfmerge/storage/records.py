"""Results as plain values for JSON and arrays for npz, and back, checked.

Checkpoints and the folders of finished fits are both written and read by these functions. Reading
raises ValueError, KeyError, TypeError or OverflowError for anything that no run can have written.
"""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.losses import LOSSES
from nmfmerge.losses.merging import MergeTree
from nmfmerge.results.factorization import Factorization, Spread, Stage, Start
from nmfmerge.results.rank_path import RankPath
from nmfmerge.solvers.history import History, StageName, Status

Record = dict[str, Any]
Arrays = dict[str, np.ndarray]

_PATH_ARRAYS = (
    "penalties", "rank_seconds", "stability", "structure", "held_out", "held_out_error",
)  # fmt: skip
_START_FIELDS = (
    "init", "seed", "status", "merged", "fitting_error", "n_iter", "subspace_mismatch",
    "permutation_mismatch",
)  # fmt: skip
_ROWS = 1 << 18  # of a factor that are checked at once
_ROUNDING = 1e-6  # by which a cosine may exceed 1


def pack_run(
    stages: Sequence[Stage], merges: MergeTree | None, generalized_singular_values: np.ndarray
) -> tuple[Record, Arrays]:
    """The progress of a run, as a record and arrays."""
    arrays = {"generalized_singular_values": generalized_singular_values}
    for i, stage in enumerate(stages):
        if stage.history is not None:
            arrays[f"history {i}"] = pack_history(stage.history)
    if merges is not None:
        arrays |= {"merge pairs": merges.pairs, "merge penalties": merges.penalties}
    record = {
        "stages": [_pack_stage(stage) for stage in stages],
        "n_leaves": None if merges is None else merges.n_leaves,
    }
    return record, arrays


def unpack_run(
    record: Record, arrays: Mapping[str, np.ndarray]
) -> tuple[list[Stage], MergeTree | None, np.ndarray]:
    """Undo `pack_run`."""
    stages = [
        _unpack_stage(stage, arrays.get(f"history {i}")) for i, stage in enumerate(record["stages"])
    ]
    merges = None
    if record["n_leaves"] is not None:
        merges = _unpack_merges(record["n_leaves"], arrays)
    values = arrays["generalized_singular_values"]
    if values.ndim != 1 or values.dtype.kind != "f" or np.isnan(values).any():
        raise ValueError("generalized singular values are not a list of numbers")
    return stages, merges, values


def pack_history(history: History) -> np.ndarray:
    """The three columns of a history as the rows of one array."""
    return np.stack([history.step, history.seconds, history.fitting_error])


def unpack_history(array: np.ndarray) -> History:
    """Undo `pack_history`."""
    if array.dtype != np.float64 or array.ndim != 2 or len(array) != 3:
        raise ValueError(f"a history has shape {array.shape} and type {array.dtype}")
    step, seconds, fitting_error = array
    if not np.isfinite(seconds).all() or (np.diff(seconds) < 0).any() or (step < 0).any():
        raise ValueError("a history has steps below zero or times out of order")
    return History(step, seconds, fitting_error)


def pack_result(result: Factorization) -> tuple[Record, Arrays]:
    """A factorization as a record, with a summary for readers, and arrays."""
    result = result.numpy()
    record, arrays = pack_run(result.stages, result.merges, result.generalized_singular_values)
    summary = {
        "n_components": result.n_components,
        "fitting_error": result.fitting_error,
        "objective": result.objective,
        "loss": result.loss,
        "n_missing": result.n_missing,
        "status": result.status,
        "converged": result.converged,
        "n_iter": result.n_iter,
        "seconds": result.seconds,
        "names": list(result.names),
        "merge_ids": list(result.merge_ids),
    }
    starts, of_starts = _pack_starts(result)
    return summary | starts | record, {"W": result.W, "H": result.H} | of_starts | arrays


def unpack_result(record: Record, arrays: Mapping[str, np.ndarray]) -> Factorization:
    """Undo `pack_result`."""
    stages, merges, values = unpack_run(record, arrays)
    for name in ("W", "H"):
        check_factor(name, arrays[name])
    return Factorization(
        W=arrays["W"],
        H=arrays["H"],
        objective=number("objective", record["objective"]),
        fitting_error=number("fitting_error", record["fitting_error"]),
        loss=_loss(record["loss"]),
        n_missing=_whole("n_missing", record.get("n_missing", 0)),
        stages=stages,
        status=Status(record["status"]),
        seconds=number("seconds", record["seconds"]),
        merges=merges,
        generalized_singular_values=values,
        names=_names(record.get("names", [])),
        merge_ids=tuple(record.get("merge_ids", [])),
        **_unpack_starts(record, arrays),
    )


def _loss(word: object) -> str:
    if word not in LOSSES:
        raise ValueError(f"{word!r} is not a known loss")
    return str(word)


def _pack_starts(result: Factorization) -> tuple[Record, Arrays]:
    """The results of several starts; empty if there was only one."""
    if not result.starts:
        return {}, {}
    arrays = {"similarity": np.stack([start.similarity for start in result.starts])}
    if result.spread is not None:
        arrays |= {"spread W": result.spread.W, "spread H": result.spread.H}
    record = {
        "best_start": result.best_start,
        "starts": [
            {name: getattr(start, name) for name in _START_FIELDS} for start in result.starts
        ],
    }
    return record, arrays


def _unpack_starts(record: Record, arrays: Mapping[str, np.ndarray]) -> Record:
    """Undo `_pack_starts`: the fields of a factorization that are about starts."""
    if "starts" not in record:
        return {}
    shapes = arrays["W"].shape, arrays["H"].shape
    similarity = arrays["similarity"]
    if similarity.shape != (len(record["starts"]), len(arrays["H"])):
        raise ValueError(f"similarity has shape {similarity.shape}, expected starts × components")
    if similarity.dtype != np.float64 or not (np.abs(similarity) < 1 + _ROUNDING).all():
        raise ValueError("similarity has values that are no cosines")
    best = _whole("best_start", record["best_start"])
    if best >= len(similarity):
        raise ValueError(f"best_start is {best}, but there are {len(similarity)} starts")
    spread = None
    if "spread W" in arrays or "spread H" in arrays:
        spread = Spread(arrays["spread W"], arrays["spread H"])
        for name, F, shape in zip("WH", (spread.W, spread.H), shapes, strict=True):
            check_factor(f"spread {name}", F, shape)
    starts = tuple(map(_unpack_start, record["starts"], similarity))
    return {"starts": starts, "best_start": best, "spread": spread}


def _unpack_start(record: Record, similarity: np.ndarray) -> Start:
    seed = record["seed"]
    if not isinstance(record["init"], str):
        raise ValueError(f"a start is {record['init']!r}, expected a word")
    return Start(
        init=record["init"],
        seed=None if seed is None else _whole("seed", seed),
        status=Status(record["status"]),
        n_iter=_whole("n_iter", record["n_iter"]),
        fitting_error=number("fitting_error", record["fitting_error"]),
        subspace_mismatch=number("subspace_mismatch", record["subspace_mismatch"]),
        permutation_mismatch=number("permutation_mismatch", record["permutation_mismatch"]),
        similarity=similarity,
        merged=record.get("merged") is not False,  # earlier fits merged every start
    )


def pack_path(path: RankPath) -> tuple[Record, Arrays]:
    """A rank path as a record and arrays, those of a rank with its number before their names."""
    packed = {rank: pack_result(result) for rank, result in path.items()}
    arrays = {name: getattr(path, name) for name in _PATH_ARRAYS}
    for rank, (_, of_rank) in packed.items():
        arrays |= {f"{rank} {name}": array for name, array in of_rank.items()}
    record = {
        "status": path.status,
        "seconds": path.seconds,
        "ranks": path.ranks.tolist(),
        "results": [record for record, _ in packed.values()],
    }
    return record, arrays


def unpack_path(record: Record, arrays: Mapping[str, np.ndarray]) -> RankPath:
    """Undo `pack_path`."""
    results = []
    for rank, of_rank in zip(record["ranks"], record["results"], strict=True):
        start = f"{rank} "
        own = {name.removeprefix(start): arrays[name] for name in arrays if name.startswith(start)}
        results.append(unpack_result(of_rank, own))
    return RankPath(
        factorizations=results,
        seconds=number("seconds", record["seconds"]),
        status=Status(record["status"]),
        **{name: arrays[name] for name in _PATH_ARRAYS if name in arrays},
    )


def _names(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(name, str) for name in values):
        raise ValueError(f"names of components are {values!r}, expected a list of words")
    return tuple(values)


def check_factor(
    name: str, F: np.ndarray, shape: tuple[int, ...] | None = None, dtype: str | None = None
) -> None:
    """Check that a factor is finite and nonnegative, and has the shape and type it must have."""
    if F.dtype.kind != "f" or (dtype is not None and F.dtype != dtype):
        raise ValueError(f"{name} has the type {F.dtype}, expected {dtype or 'real numbers'}")
    if F.ndim != 2 or (shape is not None and F.shape != shape):
        raise ValueError(f"{name} has shape {F.shape}, expected {shape or 'two dimensions'}")
    for block in _blocks(F if F.shape[0] > F.shape[1] else F.T):
        if not np.isfinite(block).all():
            raise ValueError(f"{name} has NaN or infinite values")
        if block.size and block.min() < 0:
            raise ValueError(f"{name} has negative values")


def _blocks(F: np.ndarray) -> Iterator[np.ndarray]:
    """Some rows at a time, as a factor may be larger than memory."""
    return (F[start : start + _ROWS] for start in range(0, len(F), _ROWS))


def read_arrays(path: Path) -> Arrays:
    """All arrays of an npz file; we never compress them, so that they are no larger than it."""
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
        size = sum(entry.file_size for entry in archive.zip.infolist())
        if size > os.fstat(file.fileno()).st_size:
            raise ValueError(f"{path.name} unpacks to {size / 1e6:,.1f} MB, more than it has")
        return {name: archive[name] for name in archive.files}


def number(name: str, value: Any) -> float:
    """Check a real number of zero or more, which may be infinite."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise ValueError(f"{name} is {value!r}, expected a number of zero or more")
    return float(value)


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} is {value!r}, expected a whole number")
    return value


def _pack_stage(stage: Stage) -> Record:
    return {
        "name": stage.name,
        "n_components": stage.n_components,
        "n_iter": stage.n_iter,
        "seconds": stage.seconds,
        "fitting_error": stage.fitting_error,
        "status": stage.status,
    }


def _unpack_stage(record: Record, history: np.ndarray | None) -> Stage:
    stage = Stage(
        name=StageName(record["name"]),
        n_components=_whole("n_components", record["n_components"]),
        n_iter=_whole("n_iter", record["n_iter"]),
        seconds=number("seconds", record["seconds"]),
        fitting_error=number("fitting_error", record["fitting_error"]),
        status=Status(record["status"]),
        history=None if history is None else unpack_history(history),
    )
    if not math.isfinite(stage.seconds):
        raise ValueError("a stage took infinitely long")
    if stage.n_iter != (0 if stage.history is None else len(stage.history.step)):
        raise ValueError(f"stage {stage.name!r} does not have one record per iteration")
    return stage


def _unpack_merges(n_leaves: Any, arrays: Mapping[str, np.ndarray]) -> MergeTree:
    pairs, penalties = arrays["merge pairs"], arrays["merge penalties"]
    if pairs.dtype.kind != "i" or pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"merged pairs have shape {pairs.shape} and type {pairs.dtype}")
    if penalties.dtype != np.float64 or np.isnan(penalties).any():
        raise ValueError("penalties of merges are not numbers")
    return MergeTree(_whole("n_leaves", n_leaves), pairs, penalties)
