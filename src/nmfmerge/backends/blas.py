"""BLAS has one thread while a fit computes, and its usual number before and after.

Threads of BLAS wait for their next product by spinning: on a busy machine they wait for one another
while the system has put one of them aside, thousands of times in a fit. Our own threads sleep, and
take parts of a product; see `threads`. Bits do not depend on the number of threads then.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

import scipy.linalg.cython_blas  # noqa: F401 - compiled kernels call this copy of BLAS, not NumPy's
from threadpoolctl import ThreadpoolController


class BlasThreads:
    """The number of threads of every BLAS of this process, one for all Python threads.

    Fits that run at once share it: it is one until the last of them is done.
    """

    def __init__(self) -> None:
        self._controller = ThreadpoolController().select(user_api="blas")
        self._lock = Lock()
        self._fits = 0
        self._usual = self._counts()

    @property
    def fits(self) -> int:
        """How many fits compute now."""
        return self._fits

    def available(self) -> int:
        """Threads that BLAS has when no fit computes: OMP_NUM_THREADS and others decide."""
        with self._lock:  # no fit that begins meanwhile may lower what is counted
            counts = self._usual if self._fits else self._counts()
        return max(1, min(counts, default=_threads_asked_for()))

    @contextmanager
    def one(self) -> Iterator[None]:
        """Hold BLAS to one thread."""
        self._change(+1)
        try:
            yield
        finally:
            self._change(-1)

    def after_fork(self) -> None:
        """In a child process, no other thread fits."""
        self._lock = Lock()
        if self._fits:
            self._fits = 0
            self._set(self._usual)

    def _change(self, step: int) -> None:
        with self._lock:
            if self._fits == 0 and step > 0:
                self._usual = self._counts()
                self._set([1] * len(self._usual))
            fits = self._fits
            self._fits = max(0, fits + step)  # a child process may have begun in a fit
            if fits == 1 and step < 0:
                self._set(self._usual)

    def _set(self, counts: list[int]) -> None:
        for library, count, present in zip(
            self._controller.lib_controllers, counts, self._counts(), strict=True
        ):
            if count != present:
                _set_threads(library, count)

    def _counts(self) -> list[int]:
        return [library.num_threads for library in self._controller.lib_controllers]


def _threads_asked_for() -> int:
    """Threads for a BLAS that threadpoolctl does not know, as that of macOS."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()  # one for each nesting
    return int(first) if first.isdecimal() else sys.maxsize


def _set_threads(library: Any, count: int) -> None:
    """Set the threads of a BLAS, from whichever Python thread.

    From threadpoolctl 3.8 on, the first thread to set them is the only one that can, for as long
    as it lives; what others set is passed over without a word. Our fits have a lock of their own.
    """
    free: Callable[..., object] = getattr(library, "clear_controlling_thread", lambda force: None)
    free(force=True)
    library.set_num_threads(count)
    free(force=True)


@cache
def blas() -> BlasThreads:
    """The threads of BLAS in this process."""
    return BlasThreads()


def _after_fork() -> None:
    if blas.cache_info().currsize:
        blas().after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_after_fork)
