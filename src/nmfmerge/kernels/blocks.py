"""What all kernels share: the block width and the compiler's settings."""

from collections.abc import Callable
from typing import Any

import numba

BLOCK = 64

# Sums may be reordered and multiply-adds fused; NaN and infinity keep their meaning.
FASTMATH = {"reassoc", "contract", "nsz", "arcp"}


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on the first call, without the GIL, and keep the machine code for later processes."""
    options = {"nogil": True, "fastmath": FASTMATH}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder that could be written to keep it in
        return numba.njit(**options)(function)


def n_blocks(p: int) -> int:
    """Count the blocks that ``p`` columns make."""
    return -(-p // BLOCK)
