"""Deals the blocks of a kernel out to threads, as many as BLAS may use.

Kernels release the GIL, so plain Python threads do; they sleep when idle and fight with nobody.
The caller takes the first share itself, so a full pool (several fits at once) delays nobody.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

# Two cores halve the time of a kernel that runs alone. Right after a BLAS product they gain nothing
# for some milliseconds, while OpenBLAS's idle thread spins on the other core, so small work stays.
_FLOPS_PER_THREAD = 1e8


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="nmfmerge")


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork


def available_threads() -> int:
    """As many threads as BLAS may use now: OMP_NUM_THREADS, threadpoolctl and joblib decide."""
    counts = [library.num_threads for library in _controller().lib_controllers]
    return max(1, min(counts, default=1))


def over_blocks(
    kernel: Callable[..., None], n_blocks: int, threads: int, flops: float, *arguments: Any
) -> None:
    """Call ``kernel(*arguments, first, last)`` over all blocks, in up to ``threads`` shares.

    Parameters
    ----------
    kernel : callable
        A kernel whose last two arguments are the blocks to work on.
    n_blocks : int
        Number of blocks.
    threads : int
        Most threads to use.
    flops : float
        Rough work of the whole; small work stays in this thread.
    """
    shares = int(min(threads, n_blocks, flops / _FLOPS_PER_THREAD))
    if shares <= 1:
        kernel(*arguments, 0, n_blocks)
        return
    in_threads(kernel, [n_blocks * i // shares for i in range(shares + 1)], *arguments)


def in_threads(kernel: Callable[..., None], bounds: Sequence[int], *arguments: Any) -> None:
    """Call ``kernel(*arguments, first, last)`` for each share between two bounds, all at once."""
    others = [
        _pool().submit(kernel, *arguments, bounds[i], bounds[i + 1])
        for i in range(1, len(bounds) - 1)
    ]
    try:
        kernel(*arguments, bounds[0], bounds[1])
    finally:
        wait(others)  # also after Ctrl-C: nobody may write to the factor any more
    for other in others:
        other.result()
