"""Memory of chunks of X: reused for the next chunk, and released when memory is short.

Getting memory from the system and returning it can take longer than reading a chunk into it. glibc
learns to keep large pieces, but not in worker processes of Dask, which set MALLOC_TRIM_THRESHOLD_
to keep little. So these settings change while a pass reads.
"""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # what mallopt calls them
_KEEP = {_MMAP_THRESHOLD: 2**25, _TRIM_THRESHOLD: 2**28}  # the former is the largest that it takes
_USUAL = 2**17
_NAMES = {
    _MMAP_THRESHOLD: "MALLOC_MMAP_THRESHOLD_",
    _TRIM_THRESHOLD: "MALLOC_TRIM_THRESHOLD_",
}
_lock = Lock()
_passes = 0  # that read now


@contextmanager
def kept_memory() -> Iterator[None]:
    """Context in which freed memory is kept for the next chunk, where it would not be."""
    _count(1)
    try:
        yield
    finally:
        _count(-1)


def give_back() -> None:
    """Give memory that was freed back to the system, where it is counted as ours."""
    if _glibc() is not None:
        _glibc().malloc_trim(0)


def _count(change: int) -> None:
    global _passes
    with _lock:
        before, _passes = _passes, _passes + change
        usual = _fixed_settings()
        if usual and 0 in (before, _passes):
            for what, value in (_KEEP if _passes else usual).items():
                _glibc().mallopt(what, value)


@cache
def _fixed_settings() -> dict[int, int]:
    """Thresholds that this process has had from its beginning; none where glibc adapts them.

    The environment may have been changed since: starting a cluster does so.
    """
    if _glibc() is None:
        return {}
    environment: dict[str, str] = {}
    with suppress(OSError):
        for entry in Path("/proc/self/environ").read_bytes().split(b"\0"):
            name, _, value = entry.decode("utf-8", "replace").partition("=")
            environment[name] = value
    if _NAMES[_TRIM_THRESHOLD] not in environment:
        return {}
    asked = {what: environment.get(name, "") for what, name in _NAMES.items()}
    return {
        what: min(int(value), 2**31 - 1) if value.isdigit() else _USUAL
        for what, value in asked.items()
    }


@cache
def _glibc() -> Any:
    """The C library, if it has these settings."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") else None
