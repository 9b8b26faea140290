"""What every kind of data matrix offers: ‖X‖², two cross products, a truncated SVD, a residual.

Factors come component-major: ``Wt`` is Wᵀ (r × m) and ``H`` is r × n, both C-contiguous.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, ClassVar, Literal

import numpy as np

from nmfmerge import kernels
from nmfmerge.data.scale import unit_exponent
from nmfmerge.data.svd import Check, TruncatedSVD, truncated_svd

Array = Any  # of NumPy, or of the library that the data matrix is of


class DataMatrix(ABC):
    """A nonnegative matrix X (m × n) behind the few operations that factorizing it needs.

    Everything here is of X / unit²; factors of it times ``unit``, a power of two, are factors of X.
    In a fit the largest entry of X / unit² lies in [1/4, 1).
    """

    kernels: ClassVar[ModuleType] = kernels  # for arrays of the library that X is of
    passes_at_once: ClassVar[int] = 1  # of a solver, between two looks at the steps
    X: Any  # as it came, or divided by a power of four; only for the code of this package
    own_threads: bool = False  # whether products are shared by our threads instead of BLAS's
    shape: tuple[int, int]
    dtype: np.dtype
    unit: float
    norm2: float  # ‖X‖²_F, in float64
    mean: float

    def __init__(self, X: Any, unit_exponent: int) -> None:
        self.shape, self.dtype = tuple(X.shape), X.dtype
        self.unit = math.ldexp(1.0, unit_exponent)
        self._svd: TruncatedSVD | None = None
        self._keeps_svd = False

    def give(self, A: Any) -> Any:
        """An array as the user gets it; set where X came as one of another library."""
        return A

    @abstractmethod
    def HXt(self, H: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Cross product (X Hᵀ)ᵀ, r × m, into ``out``."""

    @abstractmethod
    def WtX(self, Wt: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Cross product Wᵀ X, r × n, into ``out``."""

    def cross(self, side: Literal["W", "H"], F: Any, out: Any) -> Any:
        """The cross product that an update of ``side`` needs, of all starts of a batch at once.

        ``F`` (n_starts × r × length) is the factor of the other side.
        """
        product = self.HXt if side == "W" else self.WtX
        product(F.reshape(-1, F.shape[-1]), out=out.reshape(-1, out.shape[-1]))
        return out

    def gram(self, F: Any, out: Any) -> Any:
        """F Fᵀ of each start into ``out``, as goes best with the products of this kind of data."""
        return np.matmul(F, F.swapaxes(1, 2), out=out)

    @abstractmethod
    def residual_norm2(self, Wt: np.ndarray, H: np.ndarray) -> float:
        """‖X − WH‖², accurate near an exact fit too; costs about half an iteration."""

    def residual_norms2(self, Wt: Any, H: Any) -> list[float]:
        """`residual_norm2` of each start."""
        return [self.residual_norm2(*pair) for pair in zip(Wt, H, strict=True)]

    @abstractmethod
    def digest(self) -> str:
        """A hash of the values of X, the same however X lies in memory."""

    @abstractmethod
    def blas_flops(self, r: int, n_starts: int = 1) -> float:
        """Work of one cross product with r components that BLAS deals out to its threads."""

    def svd(self, r: int, check: Check | None = None) -> TruncatedSVD:
        """Leading ``r`` singular triplets, the same every time; kept until `forget_svd`.

        ``check`` is called without arguments between products and raises to stop.
        """
        if self._svd is None or len(self._svd.s) < r:
            self._svd = self._compute_svd(r, check)
        return self._svd.head(r)

    def place(self, F: np.ndarray) -> Any:
        """A factor in the precision of X, where X is."""
        return np.ascontiguousarray(F, dtype=self.dtype)

    def returned(self, F: Any) -> Any:
        """A factor of X from one of X / unit², of the kind that the user gave X in."""
        return self.give(F if self.unit == 1 else F * F.dtype.type(self.unit))

    def shown(self, F: Any) -> Any:
        """A factor of X, read-only, from one of X / unit²."""
        view = F.view() if self.unit == 1 else F * F.dtype.type(self.unit)
        view.flags.writeable = False
        return self.give(view)

    def forget_svd(self) -> None:
        """Free the memory of the kept singular vectors, unless `keeping_svd`."""
        if not self._keeps_svd:
            self._svd = None

    @contextmanager
    def keeping_svd(self) -> Iterator[None]:
        """Keep the singular vectors until the end of a ``with`` block: several ranks need them."""
        before, self._keeps_svd = self._keeps_svd, True
        try:
            yield
        finally:
            self._keeps_svd = before
            self.forget_svd()

    def half(self, axis: int, first: int) -> "DataMatrix":
        """Every other row (axis 0) or column (axis 1) of X, from the first or the second on."""
        X = self.X[first::2] if axis == 0 else self.X[:, first::2]
        return type(self)(X, unit_exponent(float(X.max())))

    def _compute_svd(self, r: int, check: Check | None) -> TruncatedSVD:
        return truncated_svd(self.HXt, self.WtX, self.shape, self.dtype, r, check=check)
