"""X on a device with a weight for each entry: a dense tensor, and one of its weights.

Input: X with its weights in memory, whose missing values are zero. What a pass needs is on the
device; what is computed once, such as margins and singular vectors, comes from memory.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from nmfmerge.matrices.base import Array, DataMatrix, Side
from nmfmerge.matrices.svd import Check, TruncatedSVD
from nmfmerge.matrices.torch import BLOCK_ENTRIES, TorchData
from nmfmerge.matrices.weighted import Term, WeightedData


class TensorWeights:
    """Weights from 0 to 1 as a tensor M (m × n).

    With ``few_missing`` the lines are those of 1 − M, as in `EntryWeights`.
    """

    def __init__(self, M: torch.Tensor, few_missing: bool) -> None:
        self.M, self.few_missing, self.complement = M, few_missing, few_missing
        self._U = 1 - M if few_missing else M

    def lines(self, side: Side) -> torch.Tensor:
        """Rows or columns of the weights, or of what they lack to 1."""
        return self._U if side == "W" else self._U.T

    def cross(self, side: Side, F: Array) -> Array:
        """The cross product of the weights with a factor, which may be a NumPy array."""
        if isinstance(F, np.ndarray):
            return self.cross(side, torch.from_numpy(F).to(self.M)).cpu().numpy()
        return F @ (self.M.T if side == "W" else self.M)

    def unobserved(self, side: Side) -> np.ndarray:
        """Rows or columns without any weight."""
        return np.flatnonzero((self.M.sum(dim=1 if side == "W" else 0) <= 0).cpu().numpy())

    def sums(self, side: Side, F: torch.Tensor) -> torch.Tensor:
        """Σ m f of each line of a side, in float64 (n_starts × r × length)."""
        return self.cross(side, F).double()


class WeightedTensor(TorchData):
    """M∘X as a tensor, with the weights M of the entries of X.

    Parameters
    ----------
    data : WeightedData
        X in memory.
    device : device
        Where it is to be.
    tf32 : bool
        As for `TorchData`.
    """

    kind = "a tensor with missing values or weights"

    def __init__(self, data: WeightedData, device: Any, tf32: bool = False) -> None:
        exponent = int(np.log2(data.unit))
        X = data.X.toarray() if sp.issparse(data.X) else np.ascontiguousarray(data.X)
        M = np.ascontiguousarray(data.weights.rows(slice(None)), dtype=X.dtype)
        weights, values = (torch.from_numpy(A).to(device) for A in (M, X))
        super().__init__(weights * values, exponent, tf32)
        self._exponent = exponent
        self._own = TorchData(values, exponent, tf32)
        self.in_memory_too = data
        self.weights = TensorWeights(weights, data.weights.few_missing)
        self.weight_unit, self.n_missing = data.weight_unit, data.n_missing
        self.norm2, self.mean = data.norm2, data.mean

    @property
    def product(self) -> TorchData:
        """M∘X, as data without weights."""
        X = self.X * self.unit * self.unit if self._divided else self.X
        return TorchData(X, self._exponent, self.tf32)

    def on_host(self) -> DataMatrix:
        """X in memory."""
        return self.in_memory_too

    def _residual_norm2(self, Wt: Array, H: Array) -> Array:
        return self._sum_of(lambda x, y, _: (x - y) ** 2, Wt, H)

    def weighted_sum(self, term: Term, everywhere: float, Wt: Array, H: Array) -> float:
        """Σ m·term(x, y) in float64, entry by entry."""
        return float(self._sum_of(term, Wt, H))

    def _sum_of(self, term: Term, Wt: Array, H: Array) -> Array:
        Wt, H = Wt.double(), H.double()
        total = torch.zeros((), dtype=torch.float64, device=H.device)
        for rows in self._blocks():
            x = self._own.X[rows].double() * self._own.scale
            total += (self.weights.M[rows].double() * term(x, Wt[:, rows].T @ H, torch)).sum()
        return total

    def _blocks(self) -> list[slice]:
        step = max(1, BLOCK_ENTRIES // self.shape[1])
        return [slice(start, start + step) for start in range(0, self.shape[0], step)]

    def completed(self, Wt: Array, H: Array) -> DataMatrix:
        """M∘X + (1 − M)∘WH of one start; see `WeightedData.completed`."""
        X = torch.empty_like(self._own.X)
        for rows in self._blocks():
            y = Wt[:, rows].T @ H
            X[rows] = y + self.weights.M[rows] * (self._own.X[rows] * self._own.scale - y)
        return TorchData(X, 0, self.tf32)

    def margins(self) -> tuple[np.ndarray, np.ndarray]:
        """Factors of rank 1 with the weighted row and column sums of X, in memory."""
        return self.in_memory_too.margins()

    def digest(self) -> str:
        """A hash of the observed values and of the weights."""
        return self.in_memory_too.digest()

    def _compute_svd(self, r: int, check: Check | None) -> TruncatedSVD:
        if self._is_small:
            return self.in_memory_too._compute_svd(r, check)
        w, h = (self.place(F) for F in self.margins())
        return self.completed(w, h)._compute_svd(r, check)
