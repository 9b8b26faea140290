"""Held-out entries: how well each rank predicts entries of X that its fit has not seen.

Input: the search of a path, and the share of entries to hide. Output: the held-out error of each
rank and its standard error over several masks. Each mask hides other entries, and a path is fitted
to the rest; the best solution of a rank is the one with the lowest training objective.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from nmfmerge.matrices import DataMatrix
from nmfmerge.matrices.sparse import entries
from nmfmerge.matrices.weighted import EntryWeights, WeightedData
from nmfmerge.ranks.search import RankSearch
from nmfmerge.solvers import Multiplicative, solver_of

N_MASKS = 5
_MOST_HIDDEN = 2_000_000  # entries of a mask


class _Mask:
    """X without some entries, and what these are."""

    def __init__(self, data: DataMatrix, share: float, rng: np.random.Generator) -> None:
        plain: Any = data if data.weights is None else data.plain  # type: ignore[attr-defined]
        X = plain.X.tocsr() if sp.issparse(plain.X) else plain.X
        X = X * X.dtype.type(plain.scale)
        weights = data.weights
        self.rows, self.columns = _hidden(X, weights, share, rng)
        at = self.rows, self.columns
        self.x = entries(X, *at).astype(np.float64)
        self.m = np.ones(len(self.x))
        if weights is not None:
            U = entries(weights.U.X, *at).astype(np.float64)
            self.m = 1 - U if weights.complement else U
        self.data = _without(X, weights, at)

    def error(self, loss: Any, Wt: np.ndarray, H: np.ndarray) -> float:
        """Held-out error in percent."""
        y, margins = (
            np.einsum("ke,ke->e", F[:, self.rows], G[:, self.columns], dtype=np.float64)
            for F, G in ((Wt, H), self.data.margins())
        )
        return float(loss.held_out_error(self.x, self.m, y, margins))


def _hidden(
    X: Any, weights: Any, share: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Places of observed entries to hide; every row and column keeps one that is not zero."""
    m, n = X.shape
    if weights is not None and sp.issparse(X) and not weights.complement:
        rows, columns = _places(X)
        drawn = rng.random(len(rows)) < share
        rows, columns = rows[drawn], columns[drawn]
    else:
        count = min(int(share * m * n), _MOST_HIDDEN)
        places = np.unique(rng.integers(0, m * n, count))
        rows, columns = np.divmod(places, n)
        if weights is not None:
            U = entries(weights.U.X, rows, columns)
            observed = (1 - U if weights.complement else U) > 0
            rows, columns = rows[observed], columns[observed]
    for line, axis in ((rows, 1), (columns, 0)):
        present = np.asarray((X != 0).sum(axis=axis)).ravel()
        values = entries(X, rows, columns) != 0
        left = present - np.bincount(line[values], minlength=len(present))
        kept = left[line] > 0
        rows, columns = rows[kept], columns[kept]
    return rows, columns


def _places(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the stored entries."""
    stored = X.tocoo()
    return stored.row, stored.col


def _without(X: Any, weights: Any, at: tuple[np.ndarray, np.ndarray]) -> WeightedData:
    """X in which these entries are missing, too."""
    ones = np.ones(len(at[0]), X.dtype)
    hidden = sp.csr_array((ones, at), X.shape)
    if weights is None or weights.complement:
        U = hidden if weights is None else sp.csr_array(weights.U.X + hidden)
        if sp.issparse(X):
            clean = X.tocoo()
            data = np.concatenate([clean.data, -entries(X, *at)])
            coords = [np.concatenate(pair) for pair in zip(_places(X), at, strict=True)]
            X = sp.csr_array((data, tuple(coords)), X.shape)
            X.sum_duplicates()
        else:
            X = np.array(X, order="C")
            X[at] = 0
        return WeightedData(X, EntryWeights(U, complement=True), n_missing=U.nnz)
    if not sp.issparse(X):
        X, U = np.array(X, order="C"), np.array(weights.U.X, order="C")
        X[at] = U[at] = 0
        return WeightedData(X, EntryWeights(U, complement=False))
    places = _places(X)
    numbers = places[0].astype(np.int64) * X.shape[1] + places[1]
    kept = ~np.isin(numbers, at[0].astype(np.int64) * X.shape[1] + at[1])
    left = tuple(axis[kept] for axis in places)
    own = [sp.csr_array((A.data[kept], left), X.shape) for A in (X, weights.U.X)]
    return WeightedData(own[0], EntryWeights(own[1], complement=False))


def held_out(search: RankSearch, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean held-out error of each rank in percent, and its standard error.

    NaN where time was up before two masks were done.
    """
    n_ranks = search.n_max - search.n_min + 1
    errors = np.array(list(_of_masks(search, share))).reshape(-1, n_ranks)
    if len(errors) < 2:
        return np.full(n_ranks, np.nan), np.full(n_ranks, np.nan)
    return errors.mean(axis=0), errors.std(axis=0, ddof=1) / np.sqrt(len(errors))


def _of_masks(search: RankSearch, share: float) -> Iterator[list[float]]:
    name = "mu" if search.solver.name == Multiplicative.name else "accelerated"
    for i in range(N_MASKS):
        mask = _Mask(search.data, share, np.random.default_rng([i, 17]))
        problem = replace(search.problem, matrix=mask.data)
        own = replace(
            search, problem=problem, solver=solver_of(name, problem.loss), name=f"mask {i + 1}: "
        )
        own.run()
        if own.stopped is not None:
            return
        ranks = range(search.n_min, search.n_max + 1)
        yield [
            mask.error(problem.loss, own.best[rank].Wt, own.best[rank].H)
            if rank in own.best
            else np.nan
            for rank in ranks
        ]
