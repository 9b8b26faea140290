"""Settings shared by all kernels: the block width and the compiler's options."""

import gc
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core import event

BLOCK = 64

# Sums may be reordered and multiply-adds fused; NaN and infinity keep their meaning.
FASTMATH = {"reassoc", "contract", "nsz", "arcp"}

_Function = TypeVar("_Function", bound=Callable[..., Any])

OPTIONS = {
    "nogil": True,
    "fastmath": FASTMATH,
    "error_model": "numpy",  # x/0 is infinite: checks for zeros would keep loops scalar
    "no_cfunc_wrapper": True,  # which nothing calls, and which takes as long as the function
}


class _GarbageWaits(event.Listener):
    """Stops Python's garbage collector while a kernel is compiled.

    It would go through millions of objects, again and again, and find nothing: a fifth of the time.
    The compiler's lock is held meanwhile, so that one thread at a time comes here.
    """

    depth, was_enabled = 0, False

    def on_start(self, event: Any) -> None:
        if _is_ours(event):
            if self.depth == 0:
                self.was_enabled = gc.isenabled()
                gc.disable()
            self.depth += 1

    def on_end(self, event: Any) -> None:
        if _is_ours(event):
            self.depth -= 1
            if self.depth == 0 and self.was_enabled:
                gc.enable()


def _is_ours(event: Any) -> bool:
    return str(event.data["dispatcher"].py_func.__module__).startswith("nmfmerge.")


event.register("numba:compile", _GarbageWaits())


def least_curvature(dtype: np.dtype) -> Any:
    """Curvature G_tt up to which a component rests: its inverse, or a square, would overflow."""
    info = np.finfo(dtype)
    return info.tiny / info.eps


def kernel(function: _Function, **options: Any) -> _Function:
    """Compile on the first call, without the GIL, and keep the machine code for later processes."""
    try:
        return numba.njit(cache=True, **OPTIONS, **options)(function)
    except RuntimeError:  # no folder that could be written to keep it in
        return numba.njit(**OPTIONS, **options)(function)


def part(function: _Function) -> _Function:
    """A part of kernels, which only they call: analysed once, and compiled into each of them.

    Were it called as a function, it would exist twice, and the two copies may round differently:
    one in the process that compiles it, the other from the cache.
    """
    return kernel(function, forceinline=True, no_cpython_wrapper=True)


def inlined(function: _Function) -> _Function:
    """A part of kernels, written into each of them and analysed there; best where it is short."""
    return numba.njit(inline="always", **OPTIONS)(function)
