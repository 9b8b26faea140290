"""What all kernels share: the block width and the compiler's settings."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

BLOCK = 64

# Sums may be reordered and multiply-adds fused; NaN and infinity keep their meaning.
FASTMATH = {"reassoc", "contract", "nsz", "arcp"}

_OPTIONS = {"nogil": True, "fastmath": FASTMATH}


def least_curvature(dtype: np.dtype) -> Any:
    """Curvature G_tt up to which a component rests: its inverse, or a square, would overflow."""
    info = np.finfo(dtype)
    return info.tiny / info.eps


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on the first call, without the GIL, and keep the machine code for later processes."""
    try:
        return numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # no folder that could be written to keep it in
        return numba.njit(**_OPTIONS)(function)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """A part of kernels, always compiled into them.

    A kernel that called another compiled function would be linked to one of two copies of it, which
    round differently: one in the process that compiles it, the other where it comes from the cache.
    """
    return numba.njit(inline="always", **_OPTIONS)(function)
