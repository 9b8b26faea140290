"""What workers of a cluster run: shards live in their processes, between one message and the next.

A shard that is not there (its worker was lost, or it was not used for long) is said to be missing;
it can always be made again.
"""

import pickle
import time
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import psutil

from nmfmerge.data.shards.heap import give_back
from nmfmerge.data.shards.questions import Question
from nmfmerge.data.shards.shard import Reply, Shard

_STALE = 600.0  # seconds after which a fit that nobody goes on with makes room for another


@dataclass(frozen=True)
class Missing:
    """Shards that should have dealt with a message and are not there."""

    shards: tuple[int, ...]


@dataclass(eq=False)
class _Tenant:
    shard: Shard
    used: float


_shards: dict[tuple[str, int], _Tenant] = {}
_lock = Lock()


def deal_with(
    fit: str,
    shard: int,
    step: int,
    message: bytes,
    source: bytes | None = None,
) -> Reply | Missing:
    """Let a shard of this process deal with a message.

    It is made if need be, where its source is there, packed together with its spans.
    """
    with _lock:
        tenant = _shards.get((fit, shard))
    if tenant is None:
        if source is None:
            return Missing((shard,))
        tenant = _set_up(fit, shard, source)
    tenant.used = float("inf")
    try:
        return tenant.shard.deal_with(pickle.loads(message), step)
    finally:
        tenant.used = time.monotonic()


def _set_up(fit: str, shard: int, packed: bytes) -> _Tenant:
    """Make a shard in this process; shards of fits that have been given up make room for it."""
    source, spans = pickle.loads(packed)
    made = Shard(source, _memory_limit())
    if spans is not None:
        made.place(spans)
    with _lock:
        now = time.monotonic()
        for key in [key for key, tenant in _shards.items() if now - tenant.used > _STALE]:
            del _shards[key]
        return _shards.setdefault((fit, shard), _Tenant(made, float("inf")))


def stop(fit: str, step: int) -> None:
    """Let the shards of a fit give up a step that nobody waits for any more."""
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


def combine(questions: bytes, replies: Sequence[Reply | Missing]) -> Reply | Missing:
    """Combine the replies of some shards, on their way up."""
    missing = [shard for reply in replies if isinstance(reply, Missing) for shard in reply.shards]
    if missing:
        return Missing(tuple(missing))
    known: list[Question] = pickle.loads(questions)
    return Reply.combined(known, [reply for reply in replies if isinstance(reply, Reply)])


def _memory_limit() -> int:
    """Bytes that this process may have: what the worker was given, or the machine has."""
    from distributed import get_worker

    worker: Any = get_worker()
    limit = worker.memory_manager.memory_limit
    return int(limit) if limit else int(psutil.virtual_memory().total)
