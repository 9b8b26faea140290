"""Settings shared by all kernels: the block width and the compiler's options."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

BLOCK = 64

# Sums may be reordered and multiply-adds fused; NaN and infinity keep their meaning.
FASTMATH = {"reassoc", "contract", "nsz", "arcp"}

_Function = TypeVar("_Function", bound=Callable[..., Any])

# What compiled code calls becomes part of it. Otherwise the function would exist twice, and the two
# copies may round differently: one in the process that compiles it, the other from the cache.
_OPTIONS = {"nogil": True, "fastmath": FASTMATH, "forceinline": True}


def least_curvature(dtype: np.dtype) -> Any:
    """Curvature G_tt up to which a component rests: its inverse, or a square, would overflow."""
    info = np.finfo(dtype)
    return info.tiny / info.eps


def kernel(function: _Function, **options: Any) -> _Function:
    """Compile on the first call, without the GIL, and keep the machine code for later processes."""
    options = {**_OPTIONS, **options}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder that could be written to keep it in
        return numba.njit(**options)(function)


def dividing_kernel(function: _Function) -> _Function:
    """A `kernel` in which x/0 is infinite: checks for zeros would keep its loops scalar."""
    return kernel(function, error_model="numpy")


def inlined(function: _Function) -> _Function:
    """A part of kernels, compiled with each of them and not by itself."""
    return numba.njit(inline="always", **_OPTIONS)(function)
