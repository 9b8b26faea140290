"""Matrices made small enough to send: averages of blocks of X and of WH."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from nmfmerge.drawing.blocks import average, average_product, block_starts
from nmfmerge.matrices import DataMatrix

_COARSE = 1600  # blocks a side of the sums that are kept for looking at large parts of X
_EXACT = 2_000_000  # entries that are averaged afresh at every look
_AT_ONCE = 10_000_000  # products of the entries of W and H that are made at every look
_NONE = 1e-9  # 1 less the share that is missing, of a block without any observed entry


class Overview:
    """Any part of X as a small picture, at once.

    Parameters
    ----------
    X : array or sparse matrix (m, n)
        The data. Sums over at most 1600 × 1600 blocks are kept where X is larger than that.
    """

    @staticmethod
    def of(data: DataMatrix, X: Any) -> "Overview":
        """The overview of X, whose entries may have weights."""
        return Overview(X) if data.weights is None else WeightedOverview(data)

    def __init__(self, X: Any) -> None:
        self.X = sp.csr_array(X) if sp.issparse(X) else np.asarray(X)
        self.shape: tuple[int, int] = X.shape
        self._coarse: np.ndarray | None = None
        if self.shape[0] * self.shape[1] > _EXACT:
            self._starts = [block_starts(length, _COARSE) for length in self.shape]
            sizes = [
                np.diff(np.append(starts, length))
                for starts, length in zip(self._starts, self.shape, strict=True)
            ]
            self._coarse = average(self.X, *self._starts) * np.outer(*sizes)

    def window(
        self, rows: tuple[int, int], columns: tuple[int, int], most: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Averages of X over blocks of a part of it.

        Parameters
        ----------
        rows, columns : tuples of int
            First row and the one after the last; the same of columns.
        most : int
            Largest number of blocks along a side.

        Returns
        -------
        averages : array
            One for each block.
        row_edges, column_edges : int arrays
            Where blocks begin, and the end. They may extend slightly beyond the requested part.
        """
        area = (rows[1] - rows[0]) * (columns[1] - columns[0])
        if self._coarse is None or area <= _EXACT:
            part = self.X[rows[0] : rows[1], columns[0] : columns[1]]
            first, second = (block_starts(length, most) for length in part.shape)
            row_edges = np.append(first + rows[0], rows[1])
            return (
                average(part, first, second),
                row_edges,
                np.append(second + columns[0], columns[1]),
            )
        (r0, r1, row_groups, row_edges), (c0, c1, column_groups, column_edges) = (
            _blocks(starts, span, length, most)
            for starts, span, length in zip(self._starts, (rows, columns), self.shape, strict=True)
        )
        sums = np.add.reduceat(self._coarse[r0:r1, c0:c1], row_groups, axis=0)
        sums = np.add.reduceat(sums, column_groups, axis=1)
        sizes = np.outer(np.diff(row_edges), np.diff(column_edges))
        return sums / sizes, row_edges, column_edges

    def fit(
        self, W: np.ndarray, H: np.ndarray, row_edges: np.ndarray, column_edges: np.ndarray
    ) -> np.ndarray:
        """Averages of WH over the blocks of a window, of the same entries as those of X."""
        return product_window(W, H, row_edges, column_edges)


class WeightedOverview(Overview):
    """The same of data with weights: averages of what is observed, NaN where nothing is."""

    def __init__(self, data: Any) -> None:
        super().__init__(data.product.in_full())
        self._weights, self._complement = Overview(data.weights.U.X), data.weights.complement

    def window(
        self, rows: tuple[int, int], columns: tuple[int, int], most: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weighted averages of X over blocks of a part of it."""
        sums, row_edges, column_edges = super().window(rows, columns, most)
        weights = self._weights.window(rows, columns, most)[0]
        weights = 1 - weights if self._complement else weights
        return self._ratio(sums, weights, np.full_like(sums, np.nan)), row_edges, column_edges

    def fit(
        self, W: np.ndarray, H: np.ndarray, row_edges: np.ndarray, column_edges: np.ndarray
    ) -> np.ndarray:
        """Weighted averages of WH over blocks; plain ones where these would take long."""
        everywhere = product_window(W, H, row_edges, column_edges)
        rows, columns = (slice(edges[0], edges[-1]) for edges in (row_edges, column_edges))
        U: Any = self._weights.X[rows, columns]
        if (U.nnz if sp.issparse(U) else U.size) * len(H) > _AT_ONCE:
            return everywhere
        starts = row_edges[:-1] - row_edges[0], column_edges[:-1] - column_edges[0]
        part = _times(U, W[rows], H[:, columns])
        sums, weights = average(part, *starts), average(U, *starts)
        if self._complement:
            sums, weights = everywhere - sums, 1 - weights
        return self._ratio(sums, weights, everywhere)

    def _ratio(self, sums: np.ndarray, weights: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
        """Quotients, written over ``otherwise`` where a block has weight."""
        least = _NONE if self._complement else 0.0
        return np.divide(sums, weights, out=otherwise, where=weights > least)


def _times(U: Any, W: np.ndarray, H: np.ndarray) -> Any:
    """U∘WH, of the kind of U."""
    if not sp.issparse(U):
        return U * (W @ H)
    at = U.tocoo()
    WH = sum(w[at.row] * h[at.col] for w, h in zip(W.T, H, strict=True))
    return sp.csr_array((at.data * WH, (at.row, at.col)), U.shape)


def _blocks(
    starts: np.ndarray, span: tuple[int, int], length: int, most: int
) -> tuple[int, int, np.ndarray, np.ndarray]:
    """Kept blocks that cover a span: first, last + 1, how they are grouped, edges of groups."""
    first = int(np.searchsorted(starts, span[0], side="right")) - 1
    last = int(np.searchsorted(starts, span[1], side="left"))
    groups = block_starts(last - first, most)
    edges = np.append(starts, length)
    return first, last, groups, np.append(edges[first + groups], edges[last])


def product_window(
    W: np.ndarray, H: np.ndarray, row_edges: np.ndarray, column_edges: np.ndarray
) -> np.ndarray:
    """Averages of WH over the blocks between edges."""
    W = W[row_edges[0] : row_edges[-1]]
    H = H[:, column_edges[0] : column_edges[-1]]
    return average_product(W, H, row_edges[:-1] - row_edges[0], column_edges[:-1] - column_edges[0])
