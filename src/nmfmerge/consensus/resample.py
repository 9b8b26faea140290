"""Data drawn from X, for one fit each: Poisson counts around X, or a part of its rows or columns.

Input: X in memory and the number of a fit. Output: a data matrix, the same for the same number.
Entries keep their weights, and what is missing stays missing.
"""

from threading import Lock
from typing import Any

import numpy as np
import scipy.sparse as sp

from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.inputs import check
from nmfmerge.matrices import DataMatrix

KINDS = ("poisson", "rows", "columns")
DRAWN = 0.9  # of the rows or columns
_LARGEST = 1e15  # entry up to which float64 has room for counts and NumPy draws them
_BLOCK = 2**20  # entries drawn at a time


class Resampler:
    """The data of each fit; those that were made last are kept, as several ranks need them.

    Parameters
    ----------
    data : DataMatrix
        X in memory.
    kind : {None, "poisson", "rows", "columns"}
        How data are drawn; with None every fit has X itself.
    seed : int
        Seed of the draws.
    device : str or torch.device, optional
        Where the data are placed; default in memory.
    n_kept : int
        How many draws are kept.
    """

    def __init__(
        self, data: DataMatrix, kind: str | None, seed: int, device: Any = None, n_kept: int = 2
    ) -> None:
        self._kind, self._seed, self._device, self._n_kept = kind, seed, device, n_kept
        self.on_device = device is not None
        self._data = data
        self._kept: dict[int, DataMatrix] = {}
        self._lock = Lock()
        self.whole: DataMatrix | None = None  # X itself, where all fits share it
        if kind is None:
            self.whole = check.placed(data, device)
        elif kind == "poisson":
            _check_counts(data.in_full())

    def matrix(self, fit: int) -> DataMatrix:
        """The data of one fit."""
        if self.whole is not None:
            return self.whole
        with self._lock:
            known = self._kept.get(fit)
        if known is None:  # two threads may both make it; the result is the same
            rng = np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(fit,)))
            known = check.placed(drawn(self._data, self._kind, rng), self._device)
            with self._lock:
                self._kept[fit] = known
                while len(self._kept) > self._n_kept:
                    del self._kept[next(iter(self._kept))]
        return known


def drawn(data: DataMatrix, kind: str | None, rng: np.random.Generator) -> DataMatrix:
    """One draw from X, of the same kind and precision."""
    if kind == "poisson":
        return data.with_values(_poisson(data.in_full(), rng, data.weights is None))
    axis = 0 if kind == "rows" else 1
    order = rng.choice(data.shape[axis], n_drawn(data.shape[axis]), replace=False)
    part = data.part(axis, np.sort(order))
    if data.weights is None:
        return part
    lost = part.weights.unobserved("H" if axis == 0 else "W")
    if not len(lost):
        return part
    left = np.setdiff1d(np.arange(data.shape[axis]), order)
    needed = left[_observing(data.part(axis, left), axis, lost)]
    return data.part(axis, np.sort(np.concatenate([order, needed])))


def n_drawn(length: int) -> int:
    """How many of the rows or columns are drawn."""
    return max(1, round(DRAWN * length))


def _observing(rest: DataMatrix, axis: int, lost: np.ndarray) -> np.ndarray:
    """The first line with an observation in each of the lines across that have lost all."""
    weights = rest.part(1 - axis, lost).weights.rows(slice(None))
    return np.unique((weights > 0).argmax(axis=axis))


def _poisson(X: Any, rng: np.random.Generator, zeros_are_absent: bool) -> Any:
    if sp.issparse(X):
        counts = X.copy()
        counts.data = _counts(X.data, rng)
        if zeros_are_absent:
            counts.eliminate_zeros()
        return counts
    by_rows = X if X.flags.c_contiguous else np.ascontiguousarray(X)
    return _counts(by_rows.ravel(), rng).reshape(X.shape)


def _counts(means: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A Poisson count for each mean, drawn in blocks so that little memory is needed."""
    counts = np.empty_like(means)
    for first in range(0, len(means), _BLOCK):
        part = slice(first, first + _BLOCK)
        counts[part] = rng.poisson(means[part])
    return counts


def _check_counts(X: Any) -> None:
    values = X.data if sp.issparse(X) else X
    largest = float(values.max()) if values.size else 0.0
    if largest > _LARGEST:
        raise ArgumentError(
            "resample",
            f"draws counts, but the largest entry of X is {largest:.3g}",
            value="poisson",
            fix="divide X by a number that makes its entries counts",
        )
