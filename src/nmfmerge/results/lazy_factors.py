"""A factor that is computed chunk by chunk when needed, as an array in memory or a file.

Input: a `Factorization` of a Dask array, whose W (or H, where X is wide) is a Dask array.
Output: the same with NumPy factors; a large one is mapped from a file, and never whole in memory.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.inputs.lazy import is_lazy
from nmfmerge.results.factorization import Factorization, Spread

LARGEST = 160 * 10**6  # bytes of a factor in memory, of which pages and tables make copies
_AT_ONCE = 32  # chunks that are computed together


def is_mapped(F: Any) -> bool:
    """True if a factor is mapped from a file because it is too large for memory."""
    return isinstance(F, np.memmap)


def mapped_file(F: Any) -> Path | None:
    """The file that a factor is mapped from; None where it is in memory."""
    return Path(F.filename) if isinstance(F, np.memmap) and F.filename else None


def computed(
    result: Factorization,
    folder: Path,
    most: float = LARGEST,
    tick: Callable[[float], None] = lambda share: None,
) -> Factorization:
    """The result with NumPy factors.

    Parameters
    ----------
    result : Factorization
        One of its factors may be a Dask array.
    folder : Path
        Where a factor of more than ``most`` bytes is written, as ``W.npy`` or ``H.npy``.
    most : float
        Bytes of a factor that is kept in memory.
    tick : callable
        Called with the share that is done, from 0 to 1.

    Returns
    -------
    Factorization
        Without the spread over starts, where a factor is too large for memory.
    """
    for name in ("W", "H"):
        F = getattr(result, name)
        if not is_lazy(F):
            continue
        large = F.nbytes > most
        target = _on_disk(folder / f"{name}.npy", F) if large else _in_memory(F)
        _fill(target, F, tick)
        if isinstance(target, np.memmap):
            target.flush()
        changed: dict[str, Any] = {name: target, "spread": _spread(result.spread, large)}
        result = replace(result, **changed)
    return result


def _in_memory(F: Any) -> np.ndarray:
    return np.empty(F.shape, F.dtype, order=_order(F))


def _on_disk(file: Path, F: Any) -> np.ndarray:
    fortran = _order(F) == "F"
    return np.lib.format.open_memmap(
        file, mode="w+", dtype=F.dtype, shape=F.shape, fortran_order=fortran
    )


def _order(F: Any) -> Any:
    """Component-major: W by columns, H by rows."""
    return "F" if F.shape[0] > F.shape[1] else "C"


def _fill(target: np.ndarray, F: Any, tick: Callable[[float], None]) -> None:
    """Compute some chunks at a time, and put them where they belong."""
    import dask

    axis = int(F.numblocks[1] > 1)
    chunks, lengths = F.to_delayed().ravel(), F.chunks[axis]
    ends = np.cumsum(lengths).tolist()
    for first in range(0, len(chunks), _AT_ONCE):
        some = range(first, min(first + _AT_ONCE, len(chunks)))
        for i, chunk in zip(some, dask.compute(*chunks[some.start : some.stop]), strict=True):
            place = slice(ends[i] - lengths[i], ends[i])
            target[place if axis == 0 else (slice(None), place)] = chunk
        tick(some.stop / len(chunks))


def _spread(spread: Spread | None, large: bool) -> Spread | None:
    if spread is None or large:
        return None
    factors: list[Any] = [spread.W, spread.H]
    return Spread(*(F.compute() if is_lazy(F) else F for F in factors))
