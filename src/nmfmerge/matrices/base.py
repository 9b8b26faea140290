"""The interface of data matrices: ‖X‖², two cross products, a truncated SVD, a residual.

Factors come component-major: ``Wt`` is Wᵀ (r × m) and ``H`` is r × n, both C-contiguous.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, RLock
from types import ModuleType
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from nmfmerge.backends import numba as kernels
from nmfmerge.matrices.offers import Need
from nmfmerge.matrices.rules import Rule
from nmfmerge.matrices.sample import Sample
from nmfmerge.matrices.scale import unit_exponent
from nmfmerge.matrices.svd import Check, TruncatedSVD, truncated_svd

Array = Any  # of NumPy, or of the library that the data matrix is of
Side = Literal["W", "H"]
SIDES: tuple[Side, Side] = ("W", "H")
Product = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of a factor, into an array
T = TypeVar("T")


class DataReadError(RuntimeError):
    """X, or a part of it, cannot be read any more.

    ``factorization`` holds the best factors so far, where there are any; of `rank_path`, ``path``
    holds those of the ranks that were found, and ``factorization`` those of the highest.
    """

    factorization: Any = None
    path: Any = None


class TooLittleMemory(DataReadError):
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
    iterations_per_sync: ClassVar[int] = 0  # between two looks at the steps; 0: as time allows
    X: Any  # as it came, or divided by a power of four; only for the code of this package
    offers: ClassVar[frozenset[Need]] = frozenset()
    kind: ClassVar[str] = "an array"  # for people
    in_memory: ClassVar[str] = "X"  # how users make an array of it that offers all
    shape: tuple[int, int]
    dtype: np.dtype
    unit: float
    norm2: float  # ‖X‖²_F, in float64
    mean: float
    weights: Any = None  # of the entries, where they have any; see `nmfmerge.matrices.weighted`
    weight_unit: float = 1.0  # a value is of the weights of the user divided by this
    n_missing: int = 0  # entries without a value
    axes: Any = None  # a Dataset that says what rows and columns are, where X came with names

    def __init__(self, X: Any, unit_exponent: int) -> None:
        self.shape, self.dtype = tuple(X.shape), X.dtype
        self.unit = math.ldexp(1.0, unit_exponent)
        self._begin_without_svd()

    def _begin_without_svd(self) -> None:
        self._svds: dict[int, TruncatedSVD] = {}  # by the number of triplets
        self._svd_lock = RLock()  # several starts may ask for it at once
        self._keeps_svd = self._cuts_svd = False
        self._derived: dict[Any, Any] = {}
        self._deriving = Lock()

    def derived(self, make: Callable[["DataMatrix"], T]) -> T:
        """Return ``make(self)``, made once although several threads may ask, and freed with X.

        It must not refer to this matrix, or X is freed only by the cycle collector.
        """
        with self._deriving:
            if make not in self._derived:
                self._derived[make] = make(self)
            made: T = self._derived[make]
            return made

    def to_user(self, A: Any) -> Any:
        """An array as the user gets it; set where X came as one of another library."""
        return A

    @abstractmethod
    def HXt(self, H: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Cross product (X Hᵀ)ᵀ, r × m, into ``out``."""

    @abstractmethod
    def WtX(self, Wt: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Cross product Wᵀ X, r × n, into ``out``."""

    def lines(self, side: Side) -> Any:
        """Rows of X for "W", columns for "H", as `kernels` read them for losses of its entries."""
        raise NotImplementedError(f"{type(self).__name__} does not give its lines")

    def for_passes(self, r: int) -> tuple[Any, float, Side] | None:
        """X for compiled passes with r components, the number to scale it by, the side of lines.

        None where products take so long that single operations serve better, or X is elsewhere.
        """
        return None

    @property
    def smaller_side(self) -> Side:
        """The side whose factor is smaller."""
        return "W" if self.shape[0] <= self.shape[1] else "H"

    def on_host(self) -> "DataMatrix":
        """X in memory."""
        return self

    def products_on_host(self) -> tuple[Product, Product]:
        """`HXt` and `WtX` for NumPy arrays, wherever X is."""
        return self.HXt, self.WtX

    def is_sharded(self, side: Side) -> bool:
        """True if the sweep itself computes the cross products for this side."""
        return False

    def cross(self, side: Side, F: Any, out: Any = None) -> Any:
        """The cross product that an update of ``side`` needs, of all starts of a batch at once.

        ``F`` (n_starts × r × length) is the factor of the other side. Without ``out`` the product
        gets an array of its own.
        """
        out = self._room(side, F) if out is None else out
        product = self.HXt if side == "W" else self.WtX
        n = F.shape[0] * F.shape[1]  # not −1, which would not do for chunks without rows
        product(F.reshape(n, F.shape[-1]), out=out.reshape(n, out.shape[-1]))
        return out

    def elementwise_cross(self, side: Side, Wt: Any, H: Any, rule: Rule) -> tuple[Array, Array]:
        """Cross products of E = rule(X / unit², WH) with a factor, without making WH.

        Parameters
        ----------
        side : "W" or "H"
            Which factor the product is for: (E Hᵀ)ᵀ for "W", WᵀE for "H".
        Wt, H : arrays (n_starts, r, m) and (n_starts, r, n)
            Component-major factors.
        rule : Rule
            What E is; see `nmfmerge.matrices.rules`.

        Returns
        -------
        product : array, of the shape of Wt or H
        sums : float64 array (n_starts,)
            The sum that the rule defines.
        """
        own, other = (Wt, H) if side == "W" else (H, Wt)
        out = self.kernels.empty(own.shape, own)
        sums = self.kernels.numbers(len(own), 0.0, own)
        for i in range(len(own)):
            sums[i] = self._elementwise_cross_(side, own[i], other[i], rule, out[i])
        return out, sums

    def _elementwise_cross_(
        self, side: Side, own: Array, other: Array, rule: Rule, out: Array
    ) -> Any:
        """The same of one start into ``out``: ``own`` is the factor of the side; return the sum."""
        raise NotImplementedError

    def release(self) -> None:  # noqa: B027
        """Free what is kept elsewhere, at the end of a fit; it is made again if it is needed."""

    def penalise_solved(self, l1: float, l2: float) -> None:  # noqa: B027
        """Set the penalties on a factor that is solved for, as one in shards is in the end."""

    def as_returned(self, Wt: Any, H: Any) -> tuple[Any, Any]:
        """The factors of each start as `results` returns them: one may be solved for."""
        return Wt, H

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

    def identity(self) -> str:
        """`digest`, and what all weights of the user were divided by: penalties depend on it."""
        return self.digest() if self.weight_unit == 1 else f"{self.digest()} × {self.weight_unit}"

    def svd(self, r: int, check: Check | None = None) -> TruncatedSVD:
        """Leading ``r`` singular triplets, the same every time; kept until `forget_svd`.

        Their bits do not depend on what other starts have asked for: those of more triplets differ
        by rounding, and are taken only where `keeping_svd` allows it. ``check`` is called without
        arguments between products and raises to stop.
        """
        with self._svd_lock:
            most = max(self._svds, default=0)
            size = most if self._cuts_svd and r <= most else r
            if size not in self._svds:
                self._svds[size] = self._compute_svd(size, check)
            return self._svds[size].head(r)

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
        return self.to_user(F if self.unit == 1 else F * F.dtype.type(self.unit))

    def read_only_factors(self, Wt: Any, H: Any) -> tuple[Any, Any]:
        """Factors of X, read-only, from those of X / unit²."""
        views = [F.view() if self.unit == 1 else F * F.dtype.type(self.unit) for F in (Wt, H)]
        for view in views:
            view.flags.writeable = False
        return self.to_user(views[0]), self.to_user(views[1])

    def forget_svd(self) -> None:
        """Free the memory of the kept singular vectors, unless `keeping_svd`."""
        if not self._keeps_svd:
            self._svds.clear()

    @contextmanager
    def keeping_svd(self, cut: bool = False) -> Iterator[None]:
        """Keep the singular vectors until the end of a ``with`` block: several starts need them.

        With ``cut`` lower ranks get the first of the triplets of higher ones, which is
        reproducible where one thread asks for them.
        """
        before = self._keeps_svd, self._cuts_svd
        self._keeps_svd, self._cuts_svd = True, cut or self._cuts_svd
        try:
            yield
        finally:
            self._keeps_svd, self._cuts_svd = before
            self.forget_svd()

    def completed(self, Wt: Array, H: Array) -> "DataMatrix":
        """X with the WH of one start where it is missing; X itself where all is known."""
        return self

    def in_full(self) -> Any:
        """X in full scale, as an array or a compressed matrix."""
        return self.X

    def with_values(self, X: Any) -> "DataMatrix":
        """Other values in the place of X, with its weights."""
        return type(self)(X, unit_exponent(float(X.max())))

    def transposed(self) -> "DataMatrix":
        """Xᵀ, with its weights."""
        return type(self)(self.in_full().T, round(math.log2(self.unit)))

    def part(self, axis: int, places: Any) -> "DataMatrix":
        """Some rows (axis 0) or columns (axis 1) of X, by a slice or indices, with weights."""
        X = self.in_full()
        X = X[places] if axis == 0 else X[:, places]
        X = np.ascontiguousarray(X) if isinstance(X, np.ndarray) else X
        return type(self)(X, unit_exponent(float(X.max())))

    def half(self, axis: int, first: int) -> "DataMatrix":
        """Every other row (axis 0) or column (axis 1) of X, from the first or the second on."""
        return self.part(axis, slice(first, None, 2))

    def sample(self, max_entries: int) -> Sample | None:
        """The heaviest rows and columns of X as a dense array; None where X is not at hand."""
        return None

    def _compute_svd(self, r: int, check: Check | None) -> TruncatedSVD:
        return truncated_svd(*self.products_on_host(), self.shape, self.dtype, r, check=check)
