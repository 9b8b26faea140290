"""Lines of X on a device for losses that look at its entries: rows, or columns, dense or stored.

A pass takes a block of lines at a time, so that WH at their entries stays small. `Dense` and
`Stored` are such blocks; they give the same few operations, of which the passes consist.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

_BLOCK_ENTRIES = 2**24  # of WH in a block, over all starts


class Sparse(NamedTuple):
    """How stored values are arranged in lines."""

    indptr: torch.Tensor
    """Where each line begins."""
    places: torch.Tensor
    """The place of each value in its line."""
    numbers: torch.Tensor
    """The line of each value."""
    bounds: np.ndarray
    """``indptr`` on the host."""


class Lines(NamedTuple):
    """The lines of X that belong to one side; ``scale`` times the values are those of X."""

    values: torch.Tensor
    """A view of X (p × q), or the stored values of all lines, one after another."""
    scale: float
    shape: tuple[int, int]
    sparse: Sparse | None = None

    @property
    def longest(self) -> int:
        """Values in a line."""
        if self.sparse is None:
            return self.shape[1]
        return int(np.diff(self.sparse.bounds).max(initial=0))


def lines_of_dense(X: torch.Tensor, scale: float) -> Lines:
    """The rows of X."""
    return Lines(X, scale, tuple(X.shape))


def lines_of_csr(X: torch.Tensor, scale: float) -> Lines:
    """The rows of a CSR tensor."""
    indptr = X.crow_indices()
    numbers = torch.repeat_interleave(
        torch.arange(len(X), device=X.device), indptr.diff(), output_size=len(X.values())
    )
    bounds = indptr.cpu().numpy()
    return Lines(
        X.values(), scale, tuple(X.shape), Sparse(indptr, X.col_indices(), numbers, bounds)
    )


class Dense:
    """A block of lines of a dense X; at its entries arrays are (n_starts, b, q)."""

    def __init__(self, lines: Lines, columns: slice, dtype: torch.dtype) -> None:
        self.columns = columns
        self.x = lines.values[columns].to(dtype) * lines.scale

    def fit(self, F: torch.Tensor, fixed: torch.Tensor) -> torch.Tensor:
        """Y = WH at the entries."""
        return F[:, :, self.columns].mT @ fixed

    def beside(self, row: torch.Tensor) -> torch.Tensor:
        """A row of the fixed factor (n_starts × q) beside the entries."""
        return row[:, None]

    def spread(self, values: torch.Tensor) -> torch.Tensor:
        """A number of each line (n_starts × b) at its entries."""
        return values[:, :, None]

    def over_lines(self, values: torch.Tensor) -> torch.Tensor:
        """Sums over the entries of each line, n_starts × b."""
        return values.sum(dim=2)

    def products(self, fixed: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Sums over the entries of each line, times each row of ``fixed``, n_starts × r × b."""
        return fixed @ values.mT


class Stored:
    """A block of lines of stored values; at its entries arrays are (n_starts, count)."""

    def __init__(self, lines: Lines, sparse: Sparse, columns: slice, dtype: torch.dtype) -> None:
        self.columns = columns
        part = slice(int(sparse.bounds[columns.start]), int(sparse.bounds[columns.stop]))
        self.x = lines.values[part].to(dtype) * lines.scale
        self.places, self.numbers = sparse.places[part], sparse.numbers[part] - columns.start
        self.lengths = sparse.indptr[columns.start : columns.stop + 1].diff()

    def fit(self, F: torch.Tensor, fixed: torch.Tensor) -> torch.Tensor:
        """Y = WH at the entries."""
        y = torch.zeros((len(F), len(self.x)), dtype=F.dtype, device=F.device)
        for k in range(F.shape[1]):
            y.addcmul_(self.spread(F[:, k, self.columns]), self.beside(fixed[:, k]))
        return y

    def beside(self, row: torch.Tensor) -> torch.Tensor:
        """A row of the fixed factor (n_starts × q) beside the entries."""
        return row[:, self.places]

    def spread(self, values: torch.Tensor) -> torch.Tensor:
        """A number of each line (n_starts × b) at its entries."""
        return values[:, self.numbers]

    def over_lines(self, values: torch.Tensor) -> torch.Tensor:
        """Sums over the entries of each line, n_starts × b, always in their order."""
        by_entry = values.T.contiguous()  # not checked, as a GPU would be waited for
        return torch.segment_reduce(by_entry, "sum", lengths=self.lengths, unsafe=True).T

    def products(self, fixed: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Sums over the entries of each line, times each row of ``fixed``, n_starts × r × b."""
        rows = [self.over_lines(self.beside(row) * values) for row in fixed.unbind(dim=1)]
        return torch.stack(rows, dim=1)


def blocks(lines: Lines, n_starts: int, dtype: torch.dtype) -> Iterator[Dense | Stored]:
    """The lines in blocks of bounded size, in the precision of a factor."""
    p, q = lines.shape
    most = max(1, _BLOCK_ENTRIES // max(1, n_starts))
    sparse = lines.sparse
    if sparse is None:
        width = max(1, most // max(1, q))
        for start in range(0, p, width):
            yield Dense(lines, slice(start, min(p, start + width)), dtype)
        return
    start = 0
    while start < p:
        last = int(np.searchsorted(sparse.bounds, sparse.bounds[start] + most, side="right")) - 1
        last = min(p, max(start + 1, last))
        yield Stored(lines, sparse, slice(start, last), dtype)
        start = last
