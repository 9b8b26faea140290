"""A consensus as a record for JSON and arrays for npz, and back, checked.

The components of all fits are kept for the rank that was chosen, where they are not too many.
"""

from collections.abc import Mapping
from typing import Any, TypeGuard

import numpy as np

from nmfmerge.results.consensus import Consensus, RankConsensus
from nmfmerge.solvers.history import Status
from nmfmerge.storage.records import (
    Arrays,
    Record,
    check_factor,
    number,
    pack_result,
    unpack_result,
)

_ARRAYS = (
    "low", "high", "silhouettes", "likeness", "density", "labels", "matches", "cosines", "errors",
    "n_iter",
)  # fmt: skip
_NUMBERS = ("density_threshold", "penalty", "structure", "fitted_error")
_KEPT = 2**26  # bytes of components of all fits


def pack_consensus(consensus: Consensus, chosen: int) -> tuple[Record, Arrays]:
    """A consensus as a record and arrays, those of a rank with its number before their names."""
    arrays: Arrays = {}
    records = []
    for at in consensus.results:
        record, own = pack_result(at.factorization)
        own |= {name: getattr(at, name) for name in _ARRAYS}
        if at.n_components == chosen and _is_kept(at.components):
            own["components"] = at.components
        numbers = {name: _or_none(getattr(at, name)) for name in _NUMBERS}
        records.append({"side": at.side, "result": record, **numbers})
        arrays |= {f"{at.n_components} {name}": array for name, array in own.items()}
    whole = {
        "ranks": list(consensus.ranks),
        "resample": consensus.resample,
        "merge": consensus.merge,
        "status": consensus.status,
        "seconds": consensus.seconds,
        "results": records,
    }
    return whole, arrays


def unpack_consensus(record: Record, arrays: Mapping[str, np.ndarray]) -> Consensus:
    """Undo `pack_consensus`."""
    results = []
    for rank, of_rank in zip(record["ranks"], record["results"], strict=True):
        start = f"{rank} "
        own = {name.removeprefix(start): arrays[name] for name in arrays if name.startswith(start)}
        results.append(_unpack_rank(of_rank, own))
    return Consensus(
        results=results,
        resample=record["resample"],
        merge=bool(record["merge"]),
        status=Status(record["status"]),
        seconds=number("seconds", record["seconds"]),
    )


def _unpack_rank(record: Record, arrays: Arrays) -> RankConsensus:
    result = unpack_result(record["result"], arrays)
    if record["side"] not in ("W", "H"):
        raise ValueError(f"the side of a consensus is {record['side']!r}")
    shape = (result.W.T if record["side"] == "W" else result.H).shape
    for name in ("low", "high"):
        check_factor(name, arrays[name], shape)
    matches = arrays["matches"]
    if not (np.sort(matches, axis=1) == np.arange(result.n_components)).all():
        raise ValueError("the components of a consensus are not matched one to one")
    for name in ("density", "labels", "cosines"):
        if arrays[name].shape != matches.shape:
            raise ValueError(f"{name} of a consensus has shape {arrays[name].shape}")
    known: dict[str, Any] = {name: arrays[name] for name in _ARRAYS}
    for name in _NUMBERS:
        known[name] = np.nan if record[name] is None else number(name, record[name])
    return RankConsensus(
        factorization=result,
        side=record["side"],
        components=arrays.get("components"),
        **known,
    )


def _is_kept(components: np.ndarray | None) -> TypeGuard[np.ndarray]:
    return components is not None and components.nbytes <= _KEPT


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
