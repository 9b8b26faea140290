"""Who works on the shards: threads of this process, or (see `cluster`) the workers of a cluster."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from nmfmerge.backends.numba import available_threads
from nmfmerge.matrices.dask.chunk_reader import Source
from nmfmerge.matrices.dask.heap import give_back
from nmfmerge.matrices.dask.shard import PassRequest, Reply, Shard
from nmfmerge.matrices.dask.spans import Span

FLAT = 8  # shards whose replies come up one by one
_FAN = 4  # replies that are combined at a time where there are more


class Executor(ABC):
    """Those who deal with messages, one shard each."""

    n_shards: int

    @abstractmethod
    def deal_with(self, messages: Sequence[PassRequest]) -> Reply:
        """Let each shard deal with its message; combine what they reply."""

    @abstractmethod
    def close(self) -> None:
        """Free the memory of the shards; they are made again if they are needed.

        The garbage collector calls it in any thread, so it must not wait.
        """

    def release(self) -> None:
        """The same at the end of a fit; when it returns the memory is free."""
        self.close()


class Threads(Executor):
    """A thread of this process for each shard, or fewer where a fit may not use so many.

    Parameters
    ----------
    sources : sequence of Source
        The chunks of each shard.
    limit : int
        Bytes of memory of this process.
    """

    def __init__(self, sources: Sequence[Source], limit: int) -> None:
        self.n_shards = len(sources)
        self._sources, self._limit = sources, limit
        self._shards: list[Shard] = []
        self._pool: ThreadPoolExecutor | None = None
        self._spans: list[Sequence[Span]] = []  # of each shard, once they are known
        self._step = 0

    def deal_with(self, messages: Sequence[PassRequest]) -> Reply:
        """Let each thread deal with its message."""
        self._step += 1
        self._spans = sent_spans(messages) or self._spans
        pool = self._pool or self._open()
        work = [
            pool.submit(shard.deal_with, message, self._step)
            for shard, message in zip(self._shards, messages, strict=True)
        ]
        try:
            replies = [reply.result() for reply in work]
        except BaseException:  # of one of them, or Ctrl-C: the others need not go on
            for shard in self._shards:
                shard.stop(self._step)
            raise
        reductions = messages[0].reductions
        while len(replies) > FLAT:  # as on a cluster, so that sums have the same bits
            replies = [Reply.combined(reductions, fan) for fan in fans(replies)]
        return Reply.combined(reductions, replies)

    def close(self) -> None:
        """Let the threads end, and forget the shards."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._shards, self._pool = [], None
        give_back()

    def _open(self) -> ThreadPoolExecutor:
        """Make the shards, and threads for them."""
        self._shards = [Shard(source, self._limit) for source in self._sources]
        if self._spans:
            for shard, spans in zip(self._shards, self._spans, strict=True):
                shard.place(spans)
        n_threads = min(self.n_shards, available_threads())
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix="nmfmerge-shard")
        return self._pool


def sent_spans(messages: Sequence[PassRequest]) -> list[Sequence[Span]]:
    """The spans that messages assign to their shards; empty if they assign none."""
    return [message.spans for message in messages if message.spans is not None]


def fans(replies: list[Any]) -> list[list[Any]]:
    """Replies in groups, each of which is combined into one."""
    return [replies[i : i + _FAN] for i in range(0, len(replies), _FAN)]


def runs(lengths: Sequence[int], n: int) -> list[range]:
    """Deal chunks of these lengths out into ``n`` runs of about the same length, none empty."""
    ends = list(itertools.accumulate(lengths))
    bounds = [0]
    for i in range(1, n):
        target = ends[-1] * i / n
        cut = next((j for j, end in enumerate(ends) if end > target), len(ends))
        before = ends[cut - 1] if cut else 0
        if cut < len(ends) and ends[cut] - target < target - before:
            cut += 1
        bounds.append(min(max(cut, bounds[-1] + 1), len(lengths) - (n - i)))
    return [range(*pair) for pair in itertools.pairwise([*bounds, len(lengths)])]
