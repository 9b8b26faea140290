"""What every kind of data matrix offers: ‖X‖², two cross products, a truncated SVD, a residual.

Factors come component-major: ``Wt`` is Wᵀ (r × m) and ``H`` is r × n, both C-contiguous.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from nmfmerge.data.svd import Check, TruncatedSVD, truncated_svd


class DataMatrix(ABC):
    """A nonnegative matrix X (m × n) behind the few operations that factorizing it needs.

    Everything here is of X / unit²; factors of it times ``unit``, a power of two, are factors of X.
    In a fit the largest entry of X / unit² lies in [1/4, 1).
    """

    X: Any  # the matrix, as it came or divided by a power of four
    shape: tuple[int, int]
    dtype: np.dtype
    unit: float
    norm2: float  # ‖X‖²_F, in float64
    mean: float

    def __init__(self) -> None:
        self._svd: TruncatedSVD | None = None
        self.keeps_svd = False  # whether `forget_svd` is ignored

    @abstractmethod
    def HXt(self, H: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Cross product (X Hᵀ)ᵀ, r × m, into ``out``."""

    @abstractmethod
    def WtX(self, Wt: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Cross product Wᵀ X, r × n, into ``out``."""

    def gram(self, F: np.ndarray, out: np.ndarray) -> np.ndarray:
        """F Fᵀ of a factor into ``out``, as goes best with the products of this kind of data."""
        return np.dot(F, F.T, out=out)

    @abstractmethod
    def residual_norm2(self, Wt: np.ndarray, H: np.ndarray) -> float:
        """‖X − WH‖², accurate near an exact fit too; costs about half an iteration."""

    @abstractmethod
    def digest(self) -> str:
        """A hash of the values of X, the same however X lies in memory."""

    @abstractmethod
    def blas_flops(self, r: int) -> float:
        """Work of one cross product with r components that BLAS does."""

    def svd(self, r: int, check: Check | None = None) -> TruncatedSVD:
        """Leading ``r`` singular triplets, the same every time; kept until `forget_svd`.

        ``check`` is called without arguments between products and raises to stop.
        """
        if self._svd is None or len(self._svd.s) < r:
            self._svd = self._compute_svd(r, check)
        return self._svd.head(r)

    def forget_svd(self) -> None:
        """Free the memory of the kept singular vectors, unless they are to be kept."""
        if not self.keeps_svd:
            self._svd = None

    def _compute_svd(self, r: int, check: Check | None) -> TruncatedSVD:
        return truncated_svd(self.HXt, self.WtX, self.shape, self.dtype, r, check=check)
