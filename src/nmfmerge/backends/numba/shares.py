"""Blocks of columns of factors, shared out to threads; and sums over them, in their order."""

from collections.abc import Callable
from typing import Any

import numpy as np

from nmfmerge.backends.numba.blocks import BLOCK, inlined, kernel
from nmfmerge.backends.teams import available_threads
from nmfmerge.backends.threads import in_threads

_FLOPS_PER_THREAD = 2.5e6
LEAST_FLOPS = 1e7  # of a kernel, where waking threads pays


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
    if flops >= LEAST_FLOPS:
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
