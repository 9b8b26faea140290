"""Code that cluster workers run; their processes keep the shards between two messages.

A shard that is not there (its worker was lost, or it was not used for long) is said to be missing;
it can always be made again.
"""

import pickle
import time
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from nmfmerge.machine import machine_memory
from nmfmerge.matrices.dask.heap import give_back
from nmfmerge.matrices.dask.reductions import Reduction
from nmfmerge.matrices.dask.shard import Reply, Shard

_STALE = 600.0  # seconds after which an abandoned fit is dropped to free memory


@dataclass(frozen=True)
class MissingShards:
    """Shards that should have dealt with a message and are not there."""

    shards: tuple[int, ...]


@dataclass(eq=False)
class _HeldShard:
    shard: Shard
    used: float


_shards: dict[tuple[str, int], _HeldShard] = {}
_lock = Lock()


def deal_with(
    fit: str,
    shard: int,
    step: int,
    message: bytes,
    source: bytes | None = None,
) -> Reply | MissingShards:
    """Let a shard of this process deal with a message.

    It is made if need be, where its source is there, packed together with its spans.
    """
    with _lock:
        tenant = _shards.get((fit, shard))
    if tenant is None:
        if source is None:
            return MissingShards((shard,))
        tenant = _set_up(fit, shard, source)
    tenant.used = float("inf")
    try:
        return tenant.shard.deal_with(pickle.loads(message), step)
    finally:
        tenant.used = time.monotonic()


def _set_up(fit: str, shard: int, packed: bytes) -> _HeldShard:
    """Make a shard in this process; shards of fits that have been given up make room for it."""
    source, spans = pickle.loads(packed)
    made = Shard(source, _memory_limit())
    if spans is not None:
        made.place(spans)
    with _lock:
        now = time.monotonic()
        for key in [key for key, tenant in _shards.items() if now - tenant.used > _STALE]:
            del _shards[key]
        return _shards.setdefault((fit, shard), _HeldShard(made, float("inf")))


def stop(fit: str, step: int) -> None:
    """Cancel a step in the shards of a fit when its result is no longer needed."""
    with _lock:
        for key, tenant in _shards.items():
            if key[0] == fit:
                tenant.shard.stop(step)


def drop(fit: str, shard: int | None = None) -> None:
    """Forget one shard of a fit, or all."""
    with _lock:
        for key in [key for key in _shards if key[0] == fit and shard in (None, key[1])]:
            del _shards[key]
    give_back()


def combine(reductions: bytes, replies: Sequence[Reply | MissingShards]) -> Reply | MissingShards:
    """Combine the replies of some shards, on their way up."""
    missing = [
        shard for reply in replies if isinstance(reply, MissingShards) for shard in reply.shards
    ]
    if missing:
        return MissingShards(tuple(missing))
    known: list[Reduction] = pickle.loads(reductions)
    return Reply.combined(known, [reply for reply in replies if isinstance(reply, Reply)])


def _memory_limit() -> int:
    """Bytes that this process may have: what the worker was given, or the machine's."""
    from distributed import get_worker

    worker: Any = get_worker()
    limit = worker.memory_manager.memory_limit
    return int(limit) if limit else machine_memory()
