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
from nmfmerge.data.sample import Sample
from nmfmerge.data.scale import unit_exponent
from nmfmerge.data.svd import Check, TruncatedSVD, truncated_svd

Array = Any  # of NumPy, or of the library that the data matrix is of
Side = Literal["W", "H"]


class Unreadable(RuntimeError):
    """X, or a part of it, cannot be read any more.

    ``factorization`` holds the best factors so far, where there are any; of `rank_path`, ``path``
    holds those of the ranks that were found, and ``factorization`` those of the highest.
    """

    factorization: Any = None
    path: Any = None


class TooLittleMemory(Unreadable):
    """A chunk of X does not fit; its argument says which, and where."""

    def __str__(self) -> str:
        return f"{self.args[0]}: make chunks smaller with X.rechunk, or give it more memory"


class DataMatrix(ABC):
    """A nonnegative matrix X (m × n) behind the few operations that factorizing it needs.

    Everything here is of X / unit²; factors of it times ``unit``, a power of two, are factors of X.
    In a fit the largest entry of X / unit² lies in [1/4, 1).
    """

    kernels: ClassVar[ModuleType] = kernels  # for arrays of the library that X is of
    start_kernels: ClassVar[ModuleType] = kernels  # for the factors that starts begin with
    passes_at_once: ClassVar[int] = 1  # of a solver, between two looks at the steps
    X: Any  # as it came, or divided by a power of four; only for the code of this package
    own_threads: bool = False  # whether products are shared by our threads instead of BLAS's
    shape: tuple[int, int]
    dtype: np.dtype
    unit: float
    norm2: float  # ‖X‖²_F, in float64
    mean: float
    axes: Any = None  # a Dataset that says what rows and columns are, where X came with names

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

    @property
    def smaller_side(self) -> Side:
        """The side whose factor is smaller."""
        return "W" if self.shape[0] <= self.shape[1] else "H"

    def defers(self, side: Side) -> bool:
        """Whether cross products for a side are made by the sweep that needs them."""
        return False

    def cross(self, side: Side, F: Any, out: Any = None) -> Any:
        """The cross product that an update of ``side`` needs, of all starts of a batch at once.

        ``F`` (n_starts × r × length) is the factor of the other side. Without ``out`` the product
        gets an array of its own.
        """
        out = self._room(side, F) if out is None else out
        product = self.HXt if side == "W" else self.WtX
        product(F.reshape(-1, F.shape[-1]), out=out.reshape(-1, out.shape[-1]))
        return out

    def release(self) -> None:  # noqa: B027
        """Free what is kept elsewhere, at the end of a fit; it is made again if it is needed."""

    def _room(self, side: Side, F: Any) -> Any:
        """An array for a cross product."""
        length = self.shape[0 if side == "W" else 1]
        return self.kernels.empty((*F.shape[:2], length), F)

    def gram(self, F: Any, out: Any) -> Any:
        """F Fᵀ of each start into ``out``, as goes best with the products of this kind of data."""
        return np.matmul(F, F.swapaxes(1, 2), out=out)

    @abstractmethod
    def residual_norm2(self, Wt: np.ndarray, H: np.ndarray) -> float:
        """‖X − WH‖², accurate near an exact fit too; costs about half an iteration."""

    def residual_norms2(self, Wt: Any, H: Any) -> list[float]:
        """`residual_norm2` of each start."""
        return [self.residual_norm2(*pair) for pair in zip(Wt, H, strict=True)]

    def errors2(self, Wt: Any, H: Any) -> list[float]:
        """‖X − WH‖² of the `results` of each start."""
        return self.residual_norms2(Wt, H)

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

    def place(self, F: np.ndarray, side: Side) -> Any:
        """A factor of a side in the precision of X, where X is."""
        return np.ascontiguousarray(F, dtype=self.dtype)

    def place_pair(self, Wt: np.ndarray, H: np.ndarray) -> tuple[Any, Any]:
        """Factors as `kernels.to_host` gave them, where X is."""
        return self.place(Wt, "W"), self.place(H, "H")

    def random_start(self, r: int, rng: np.random.Generator) -> tuple[Any, Any]:
        """W uniform with columns scaled to sum 1, H uniform; component-major."""
        m, n = self.shape
        W = rng.random((m, r))
        W /= W.sum(axis=0)
        H = rng.random((r, n))
        return np.ascontiguousarray(W.T, dtype=self.dtype), H.astype(self.dtype, copy=False)

    def filled(self, F: Any, value: float, rng: np.random.Generator | None = None) -> Any:
        """A factor with a number for its zeros, or with uniform numbers up to it; in place."""
        zero = F == 0
        F[zero] = value if rng is None else rng.random(np.count_nonzero(zero)) * value
        return F

    def results(self, Wt: Any, H: Any) -> tuple[Any, Any]:
        """Factors of X from those of X / unit², of the kind that the user gave X in."""
        return self.returned(Wt), self.returned(H)

    def returned(self, F: Any) -> Any:
        """A factor of X from one of X / unit², of the kind that the user gave X in."""
        return self.give(F if self.unit == 1 else F * F.dtype.type(self.unit))

    def shown(self, Wt: Any, H: Any) -> tuple[Any, Any]:
        """Factors of X, read-only, from those of X / unit²."""
        views = [F.view() if self.unit == 1 else F * F.dtype.type(self.unit) for F in (Wt, H)]
        for view in views:
            view.flags.writeable = False
        return self.give(views[0]), self.give(views[1])

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

    def sample(self, max_entries: int) -> Sample | None:
        """The heaviest rows and columns of X as a dense array; None where X is not at hand."""
        return None

    def _compute_svd(self, r: int, check: Check | None) -> TruncatedSVD:
        return truncated_svd(self.HXt, self.WtX, self.shape, self.dtype, r, check=check)
