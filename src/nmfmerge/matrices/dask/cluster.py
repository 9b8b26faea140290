"""Shards on the workers of a cluster, one for each of their threads.

Each message is one task, pinned to the worker that has the shard. Where a worker is lost, its
shards go to others, and the message is dealt with again: that changes nothing where it had been
dealt with already.
"""

import asyncio
import pickle
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from distributed import wait
from distributed.scheduler import KilledWorker, NoValidWorkerError

from nmfmerge.matrices.base import DataReadError
from nmfmerge.matrices.dask import work
from nmfmerge.matrices.dask.chunk_reader import ChunkBeingRecomputed, Source
from nmfmerge.matrices.dask.executor import FLAT, Executor, fans, sent_spans
from nmfmerge.matrices.dask.shard import PassRequest, Reply
from nmfmerge.matrices.dask.spans import Span

_POLL = 0.25  # seconds after which a step that takes longer looks whether workers are there
_LOOK_AROUND = 2.0  # seconds between looks for workers that have joined
_PATIENCE = 60.0  # seconds without any worker before giving up
_SCHEDULER_PATIENCE = 10.0  # seconds without a connection to the scheduler before giving up
_RELEASE_PATIENCE = 5.0  # seconds for workers to free memory, at the end of a fit
_ATTEMPTS = 8  # at one step, each ended by the loss of a worker
_SMALL = 50_000  # bytes that go with a task; more are sent by themselves
_LOST = (KilledWorker, NoValidWorkerError, CancelledError, OSError)  # what a loss looks like here
# Evaluated there: a function of nmfmerge would not arrive where nmfmerge is not. What else is
# needed is imported where the version is right.
_VERSION = (
    "(lambda found: found != {!r} and found"
    " or (__import__('nmfmerge.matrices.dask.work'), found)[1])"
    "(__import__('nmfmerge').__version__)"
)


class ClusterLost(DataReadError):
    """The cluster cannot go on with a fit; to ask it again would only take time."""


class Cluster(Executor):
    """The workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
        Connected to the cluster.
    sources : sequence of Source
        The chunks of each shard.
    homes : sequence of str, optional
        The worker that each shard would best be on.
    persisted : sequence of distributed.Future
        Of chunks that lie in the memory of the cluster.
    """

    def __init__(
        self,
        client: Any,
        sources: Sequence[Source],
        homes: Sequence[str | None] | None = None,
        persisted: Sequence[Any] = (),
    ) -> None:
        self.n_shards = len(sources)
        self._client, self._sources, self._persisted = client, sources, persisted
        self._address = client.scheduler.address
        self._fit = uuid.uuid4().hex
        self._homes: list[str | None] = list(homes or [None] * len(sources))
        self._absent = set(range(len(sources)))  # shards that have to be made first
        self._usable: dict[str, bool] = {}  # whether workers that were seen have our nmfmerge
        self._spans: list[Sequence[Span]] = []  # of each shard, once they are known
        self._step = 0
        self._looked = 0.0
        self._over: DataReadError | None = None  # why nothing can be asked any more
        self._place()

    def deal_with(self, messages: Sequence[PassRequest]) -> Reply:
        """Let each worker deal with the messages of its shards."""
        if self._over is not None:
            raise self._over
        try:
            return self._dealt_with(messages)
        except ClusterLost as error:
            self._over = error
            raise

    def _dealt_with(self, messages: Sequence[PassRequest]) -> Reply:
        self._spans = sent_spans(messages) or self._spans
        if time.monotonic() - self._looked > _LOOK_AROUND:
            self._place()
        shared = all(message is messages[0] for message in messages)
        packed = [pickle.dumps(message) for message in (messages[:1] if shared else messages)]
        attempts = 0
        while attempts < _ATTEMPTS:
            reply = self._try(packed, messages[0])
            if isinstance(reply, Reply):
                return reply
            if isinstance(reply, work.MissingShards):
                self._absent |= set(reply.shards)
            else:
                attempts += 1
                self._place()
        raise ClusterLost(
            f"workers were lost {_ATTEMPTS} times in a row at the same step, and the fit cannot go "
            "on: see in their logs what ends them; where it is too little memory, make chunks of X "
            "smaller with X.rechunk, or give workers more memory"
        )

    def close(self) -> None:
        """Let the workers forget the shards."""
        self._absent = set(range(self.n_shards))
        self._tell(None, work.drop, self._fit)

    def release(self) -> None:
        """Let the workers forget the shards, before the client may be closed."""
        self._absent = set(range(self.n_shards))
        client = self._client
        if client.status == "running":
            with suppress(Exception):  # a worker that does not answer, a cluster that is lost
                client.sync(
                    client._run, work.drop, self._fit, on_error="ignore",
                    callback_timeout=_RELEASE_PATIENCE,
                )  # fmt: skip

    def _try(self, packed: list[bytes], message: PassRequest) -> Reply | work.MissingShards | None:
        """One attempt at a step; None where a worker was lost."""
        futures: list[Any] = []
        replies, elsewhere = None, False
        try:
            roots = self._submit(packed, message, futures)
            replies = self._client.sync(self._gathered, roots)
        except ChunkBeingRecomputed:
            elsewhere = True
        except _LOST:
            pass
        except Exception:
            if self._client.status == "running":
                raise  # else it was closed
        finally:
            if replies is None:
                self._call_off(futures)
            for future in futures:  # an error that was raised would keep them
                future.release()
        if elsewhere:
            with suppress(*_LOST):
                wait(self._persisted)
        if replies is None:
            return None
        combined = work.combine(pickle.dumps(message.reductions), replies)
        if isinstance(combined, Reply):
            self._absent.clear()
        return combined

    def _submit(self, packed: list[bytes], message: PassRequest, futures: list[Any]) -> list[Any]:
        """Submit the tasks of a step; return those whose results are wanted."""
        client, self._step = self._client, self._step + 1
        args = self._sent(packed, None, futures)
        replies = []
        for shard, home in enumerate(self._homes):
            source = self._sent_source(shard, futures) if shard in self._absent else None
            future = client.submit(
                work.deal_with, self._fit, shard, self._step, args[shard % len(args)],
                source, workers=[home], allow_other_workers=False, pure=False,
                key=f"nmfmerge-{self._fit[:8]}-{self._step}-{shard}",
            )  # fmt: skip
            replies.append(future)
        futures += replies
        if len(replies) > FLAT:
            reductions = pickle.dumps(message.reductions)
        while len(replies) > FLAT:
            replies = [
                client.submit(work.combine, reductions, fan, pure=False) for fan in fans(replies)
            ]
            futures += replies
        return replies

    def _sent_source(self, shard: int, futures: list[Any]) -> Any:
        spans = self._spans[shard] if self._spans else None
        packed = pickle.dumps((self._sources[shard], spans))
        return self._sent([packed], self._homes[shard], futures)[0]

    def _sent(self, packed: list[bytes], worker: str | None, futures: list[Any]) -> list[Any]:
        """Arguments of tasks: bytes as they are or, if they are many, as futures of them."""
        if max(map(len, packed)) <= _SMALL:
            return packed
        workers = None if worker is None else [worker]
        try:
            sent: list[Any] = self._client.scatter(packed, workers=workers, hash=False)
        except KeyError as error:  # the worker is not known any more
            raise OSError(f"the worker at {worker} was lost") from error
        futures += sent
        return sent

    async def _gathered(self, futures: list[Any]) -> list[Any] | None:
        """Results of futures; None where a worker that should do them was lost.

        Tasks of a lost worker would wait for ever, be it that they are to be done, or done again
        because their results were lost before they were fetched.
        """
        client = self._client
        gathering = asyncio.ensure_future(client.gather(futures, asynchronous=True))
        # If it is no longer awaited, it ends when its futures are cancelled.
        gathering.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        while not (await asyncio.wait([gathering], timeout=_POLL))[0]:
            asking = client.scheduler.ncores_running()
            present = await asyncio.wait_for(asking, _SCHEDULER_PATIENCE)
            if any(home not in present for home in self._homes):
                return None
        return gathering.result()

    def _call_off(self, futures: list[Any]) -> None:
        """Cancel tasks whose results are no longer needed."""
        if self._client.status == "running":
            with suppress(*_LOST):
                self._client.cancel(futures, force=True)
            self._tell(None, work.stop, self._fit, self._step)

    def _place(self) -> None:
        """Give each shard a worker."""
        threads = self._threads()
        self._looked = time.monotonic()
        before, self._homes = self._homes, placed(self._homes, threads)
        for shard, (old, new) in enumerate(zip(before, self._homes, strict=True)):
            if old != new:
                self._absent.add(shard)
                if old in threads:
                    self._tell([old], work.drop, self._fit, shard)

    def _tell(self, workers: list[str | None] | None, function: Any, *args: Any) -> None:
        """Run a function on workers without waiting for it; the cluster may be gone."""
        client = self._client

        async def run() -> None:
            with suppress(Exception):
                await client._run(function, *args, workers=workers, on_error="ignore")

        if client.status == "running":
            client.loop.add_callback(run)

    def _threads(self) -> dict[str, int]:
        """Threads of each worker that can be used, by address."""
        began = time.monotonic()
        while True:
            threads = running_workers(self._client, self._address)
            new = sorted(name for name in threads if name not in self._usable)
            if not self._usable:
                self._check(self._client.sync(self._versions, new))
            elif new:  # the fit does not wait while it imports nmfmerge
                self._usable.update(dict.fromkeys(new, False))
                self._client.loop.add_callback(self._versions, new)
            usable = {name: n for name, n in threads.items() if self._usable.get(name)}
            if usable:
                return usable
            if time.monotonic() - began > _PATIENCE:
                raise ClusterLost("none of the workers that are left has this version of nmfmerge")
            time.sleep(_POLL)

    async def _versions(self, names: list[str]) -> dict[str, Any]:
        """Find out whether workers have nmfmerge, the same as here."""
        from nmfmerge._version import __version__

        asked = _VERSION.format(__version__)
        with suppress(OSError):
            found = await self._client._run(eval, asked, workers=names, on_error="return")
            self._usable.update({name: answer == __version__ for name, answer in found.items()})
            return dict(found)
        return {}

    def _check(self, found: dict[str, Any]) -> None:
        """Refuse workers that lack nmfmerge, when a fit begins; later they are left alone."""
        from nmfmerge._version import __version__

        for address, answer in found.items():
            if isinstance(answer, OSError):
                continue  # it was lost meanwhile
            if isinstance(answer, BaseException):
                raise ClusterLost(
                    f"the worker at {address} cannot run nmfmerge ({answer}): install nmfmerge, "
                    "with the extra [dask], in the environment of the workers"
                )
            if answer != __version__:
                raise ClusterLost(
                    f"the worker at {address} has nmfmerge {answer} and this process has "
                    f"{__version__}: install the same version in both"
                )


def computed(futures: Sequence[Any]) -> Sequence[Any]:
    """Futures, once they are done: shards would hold the threads that have to compute them."""
    wait(futures)
    for future in futures:
        if future.status == "error":
            future.result()  # raises it
    return futures


def running_workers(client: Any, address: str) -> dict[str, int]:
    """Threads of each worker of a cluster, by address; waits for a while if there is none."""
    began, waiting = time.monotonic(), None
    while True:
        threads: Mapping[str, int] = {}
        if client.status == "running":
            with suppress(OSError):
                threads = client.sync(
                    client.scheduler.ncores_running, callback_timeout=_SCHEDULER_PATIENCE
                )
        if threads:
            return dict(sorted(threads.items()))
        connected, waited = client.status == "running", time.monotonic() - began
        if not connected and (waited > _SCHEDULER_PATIENCE or client.status == "closed"):
            raise ClusterLost(f"the connection to the scheduler at {address} was lost")
        if waited > _PATIENCE:
            raise ClusterLost(
                f"the cluster at {address} has had no workers for "
                f"{_PATIENCE:.0f} s: start workers, and wait for them with "
                "client.wait_for_workers(n_workers)"
            )
        if waiting is None and connected:  # a cluster that adapts starts workers for tasks only
            waiting = client.submit(int, pure=False)
        time.sleep(_POLL)


def placed(homes: Sequence[str | None], threads: Mapping[str, int]) -> list[str | None]:
    """A worker for each shard: the one that it has, else the one with most threads to spare.

    Where a worker has more shards than threads, some go to workers that have threads to spare, as
    long as that makes the load more even.
    """
    found = [home if home in threads else None for home in homes]
    count = dict.fromkeys(threads, 0)
    for home in found:
        if home is not None:
            count[home] += 1

    def freest() -> str:
        return min(threads, key=lambda name: (count[name] + 1) / threads[name])

    def move(shard: int) -> None:
        old, new = found[shard], freest()
        if old is not None:
            count[old] -= 1
        found[shard] = new
        count[new] += 1

    for shard, home in enumerate(found):
        if home is None:
            move(shard)
    while True:
        fullest = max(threads, key=lambda name: count[name] / threads[name])
        load, best = count[fullest] / threads[fullest], freest()
        if load <= 1 or (count[best] + 1) / threads[best] >= load:
            return found
        move(max(shard for shard, home in enumerate(found) if home == fullest))
