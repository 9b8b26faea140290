"""Threads: how many a fit may use, how many of them BLAS gets, and kernels dealt out to the rest.

Kernels release the GIL, so plain Python threads do; they sleep when idle and fight with nobody.
They take work from one queue, which costs a third of what an executor and its futures do. The
caller takes the first share itself, so that busy threads (several fits at once) delay nobody.
"""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from queue import SimpleQueue
from threading import Lock, Thread, local
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from nmfmerge.kernels.blocks import BLOCK, inlined, kernel

_FLOPS_PER_THREAD = 2.5e6  # of a kernel, where waking threads pays:
_LEAST_FLOPS = 1e7

_ITEMS_PER_THREAD = 8  # of `of_each`

_T = TypeVar("_T")
_U = TypeVar("_U")

# Share of the cores that BLAS gets for products of fewer flops than these; all of them beyond.
_BLAS_SHARES = ((5e7, 1 / 2), (1e8, 5 / 8), (5e8, 3 / 4))


class _Share:
    """A share of a kernel's work, done by another thread."""

    def __init__(self, kernel: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self._kernel, self._arguments = kernel, arguments
        self._running = Lock()
        self._running.acquire()
        self.done = False
        self.error: BaseException | None = None

    def work(self) -> None:
        """Do it; keep an error for the thread that waits."""
        try:
            self._kernel(*self._arguments)
        except BaseException as error:
            self.error = error
        finally:
            self.done = True
            self._running.release()

    def wait(self) -> None:
        """Wait until it is done, once."""
        self._running.acquire()


@cache
def _queue() -> "SimpleQueue[_Share]":
    """The queue of work, with threads that wait at it."""
    queue: SimpleQueue[_Share] = SimpleQueue()

    def serve() -> None:
        while True:
            queue.get().work()

    for i in range(os.cpu_count() or 1):
        Thread(target=serve, name=f"nmfmerge-{i}", daemon=True).start()
    return queue


class _BlasThreads:
    """The number of threads of BLAS, which is one setting for the whole process.

    Fits that run at once share it: while any of them limits it, the least limit holds; after the
    last of them it is what it was before the first. The last bits of a product depend on it, so
    that a fit beside others gives the bits of the same fit alone only where BLAS has one thread:
    there is no setting for one Python thread, and to take turns would let small fits wait for
    every product of large ones.
    """

    def __init__(self) -> None:
        self._controller = ThreadpoolController().select(user_api="blas")
        self._lock = Lock()
        self._limits: list[int] = []
        self._usual = self._present = self._counts()

    def available(self) -> int:
        """Threads that BLAS may use when no fit limits it."""
        with self._lock:  # no fit that begins meanwhile may lower what is counted
            counts = self._usual if self._limits else self._counts()
        return max(1, min(counts, default=1))

    @contextmanager
    def at_most(self, n: int) -> Iterator[None]:
        """Hold BLAS to ``n`` threads."""
        self._limit(self._limits.append, n)
        try:
            yield
        finally:
            self._limit(self._drop, n)

    def after_fork(self) -> None:
        """In a child process, no other thread fits."""
        self._lock = Lock()
        self._limit(lambda _: self._limits.clear(), 0)

    def _limit(self, change: Callable[[int], object], n: int) -> None:
        with self._lock:
            if not self._limits:
                self._usual = self._present = self._counts()
            change(n)
            least = min(self._limits, default=max(self._usual, default=1))
            wanted = [min(usual, least) for usual in self._usual]
            if wanted != self._present:
                for library, count in zip(self._controller.lib_controllers, wanted, strict=True):
                    _set_threads(library, count)
            self._present = wanted

    def _drop(self, n: int) -> None:
        if n in self._limits:  # not in a child process that was forked meanwhile
            self._limits.remove(n)

    def _counts(self) -> list[int]:
        return [library.num_threads for library in self._controller.lib_controllers]


def _set_threads(library: Any, count: int) -> None:
    """Set the threads of a BLAS, from whichever Python thread.

    From threadpoolctl 3.8 on, the first thread to set them is the only one that can, for as long
    as it lives; what others set is passed over without a word. Our fits have a lock of their own.
    """
    free = getattr(library, "clear_controlling_thread", lambda force: None)
    free(force=True)
    library.set_num_threads(count)
    free(force=True)


@cache
def _blas() -> _BlasThreads:
    return _BlasThreads()


def _after_fork() -> None:
    _queue.cache_clear()  # threads do not survive a fork
    if _blas.cache_info().currsize:
        _blas().after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_after_fork)


_THREAD = local()  # whether this thread works `alone`


def available_threads() -> int:
    """Threads that a fit may use: OMP_NUM_THREADS, threadpoolctl and joblib decide."""
    return 1 if getattr(_THREAD, "alone", False) else _blas().available()


@contextmanager
def alone() -> Iterator[None]:
    """Let this thread work without others, and BLAS too: the others have work of their own."""
    before, _THREAD.alone = getattr(_THREAD, "alone", False), True
    try:
        with _blas().at_most(1):
            yield
    finally:
        _THREAD.alone = before


def blas_for(flops: float) -> AbstractContextManager[None]:
    """Context in which BLAS has as many threads as serve a fit with products of so many flops.

    BLAS's threads wait for their next product by spinning, on cores that the rest of an iteration
    needs, and on a busy machine they wait for one another. So they get all cores only if products
    are so large that nothing else counts, and one if BLAS has no products to do.
    """
    share = next((share for limit, share in _BLAS_SHARES if flops < limit), 1.0)
    return _blas().at_most(max(1, math.ceil(share * available_threads())) if flops > 0 else 1)


def over_blocks(
    kernel: Callable[..., None],
    F: np.ndarray,
    n_notes: int,
    flops: float,
    *arguments: Any,
    width: int = BLOCK,
) -> np.ndarray:
    """Call ``kernel(F, *arguments, notes, first, last)`` over all blocks of columns of F.

    Parameters
    ----------
    kernel : callable
        Works on the blocks from first to before last, counted through all starts, and writes what
        it has to tell of each into ``notes[block]``; `start_of` tells where a block is.
    F : array (n_starts, r, p)
        Factor of each start; its columns are dealt out.
    n_notes : int
        How many numbers the kernel notes for a block.
    flops : float
        Rough work of the whole; small work stays in this thread.
    width : int
        Columns in a block.

    Returns
    -------
    notes : float64 array (n_starts · n_blocks, n_notes)
    """
    n = len(F) * -(-F.shape[2] // width)
    notes = np.empty((n, n_notes))
    shares = 1
    if flops >= _LEAST_FLOPS:
        shares = int(min(available_threads(), n, flops / _FLOPS_PER_THREAD))
    if shares == 1:
        kernel(F, *arguments, notes, 0, n)
    else:
        in_threads(kernel, [n * i // shares for i in range(shares + 1)], F, *arguments, notes)
    return notes


@inlined
def start_of(block, p, width):
    """The start that a block belongs to, and the first of its columns, for starts of p columns."""
    n = -(-p // width)
    return block // n, block % n * width


@kernel
def add_blocks(notes, n_starts):
    """Sum over the blocks of each start, always in their order."""
    total = np.zeros((n_starts, notes.shape[1]))
    n = notes.shape[0] // n_starts if n_starts > 0 else 0
    for s in range(n_starts):
        row = total[s]
        for block in range(s * n, (s + 1) * n):
            for t in range(row.size):
                row[t] += notes[block, t]
    return total


def in_threads(kernel: Callable[..., None], bounds: Sequence[int], *arguments: Any) -> None:
    """Call ``kernel(*arguments, first, last)`` for each share between two bounds, all at once."""
    others = [
        _Share(kernel, (*arguments, bounds[i], bounds[i + 1])) for i in range(1, len(bounds) - 1)
    ]
    for share in others:
        _queue().put(share)
    try:
        kernel(*arguments, bounds[0], bounds[1])
    finally:
        _wait(others)
    for share in others:
        if share.error is not None:
            raise share.error


def of_each(function: Callable[[_T], _U], items: Sequence[_T]) -> list[_U]:
    """``function`` of each item, by several threads where there are many.

    For work in libraries that release the GIL.
    """
    threads = min(available_threads(), len(items) // _ITEMS_PER_THREAD)
    if threads < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, items))


def _wait(shares: Sequence[_Share]) -> None:
    """Wait for all, even if Ctrl-C comes meanwhile: nobody may write to a factor any more."""
    interrupt = None
    for share in shares:
        while not share.done:
            try:
                share.wait()
            except KeyboardInterrupt as error:
                interrupt = error
    if interrupt is not None:
        raise interrupt
