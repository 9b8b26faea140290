"""X as a Dask array in chunks of rows, or of columns, read in passes."""

import math
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import count
from threading import Lock
from typing import Any, ClassVar, Literal
from weakref import finalize

import numpy as np
from scipy.linalg import eigh

from nmfmerge.backends import shards as on_dask
from nmfmerge.matrices.base import Array, DataMatrix, Side
from nmfmerge.matrices.dask.executor import Executor
from nmfmerge.matrices.dask.expressions import (
    Crossed,
    ElementwiseCrossed,
    FactorExpression,
    Filled,
    GivenRows,
    Mixed,
    Solved,
    Uniform,
)
from nmfmerge.matrices.dask.factor import Factor, Rows
from nmfmerge.matrices.dask.reductions import (
    ColumnGram,
    Crosses,
    ElementwiseCrosses,
    Extremes,
    Facts,
    Fingerprint,
    Notes,
    Reduction,
    Residuals,
    Sums,
    Triangle,
)
from nmfmerge.matrices.dask.shard import PassRequest, Reply
from nmfmerge.matrices.dask.solve import Solve, lazy_weights, penalised_weights
from nmfmerge.matrices.dask.spans import Span, spans_of
from nmfmerge.matrices.digest import digest
from nmfmerge.matrices.rules import Rule
from nmfmerge.matrices.svd import Check, TruncatedSVD, right_singular_vectors

_GRAM_SIDE = 2000  # up to this short side, one pass for XᵀX gives the singular vectors


class DaskData(DataMatrix):
    """A Dask array as a data matrix: one of its factors is long, and lies in shards.

    Parameters
    ----------
    X : dask.array.Array (m, n)
        In chunks along one axis.
    dtype : dtype
        Float32 or float64.
    by_columns : bool
        Whether its chunks are columns: then H is the long factor, else W.
    executor : Executor
        Who works on the shards.
    shards : sequence of range
        The chunks of each.
    """

    kind = "a Dask array"
    in_memory = "X.compute()"
    residuals: ClassVar[type[Residuals]] = Residuals  # by which the error is summed
    kernels: ClassVar[Any] = on_dask
    start_kernels: ClassVar[Any] = on_dask

    def __init__(
        self, X: Any, dtype: np.dtype, by_columns: bool, executor: Executor, shards: Sequence[range]
    ) -> None:
        self.X, self.dtype = X, dtype
        self.long: Side = "H" if by_columns else "W"
        self.executor = executor
        self.bytes_read = 0  # of X processed
        self.chunks_read = 0
        self.passes = 0
        self._begin_without_svd()
        self._shards = shards
        self._exponent = 0
        self._l1 = self._l2 = 0.0  # penalties on the long factor of X / unit²
        self._lengths: list[int] | None = None
        self._spans: list[list[Span]] = []  # of each shard
        self._spans_are_sent = True  # to the shards
        self._numbers = count(1)
        self.unneeded: list[int] = []
        self._lock = Lock()
        finalize(self, executor.close)

    def know(self, facts: Sequence[Facts], exponent: int) -> None:
        """Take up what the first pass found; X / 4ᵏ is factorized, k the exponent."""
        self._exponent, self.unit = exponent, math.ldexp(1.0, exponent)
        self._lengths = [fact.n_rows for fact in facts]
        n_long, n_short = sum(self._lengths), self.X.shape[0 if self.long == "H" else 1]
        self.shape = (n_short, n_long) if self.long == "H" else (n_long, n_short)
        self._spans_are_sent = False
        self._spans = [spans_of(facts, shard, n_short) for shard in self._shards]
        if np.isnan(self.X.shape).any():  # now it can know its chunks
            self.X = self.X.copy()
            long = tuple(self._lengths)
            self.X._chunks = (
                (self.X.chunks[0], long) if self.long == "H" else (long, self.X.chunks[1])
            )
        self.size = n_long * n_short
        shifts = [2 * (fact.exponent - exponent) for fact in facts]
        self.norm2 = math.fsum(
            math.ldexp(f.squares, 2 * s) for f, s in zip(facts, shifts, strict=True)
        )
        total = math.fsum(math.ldexp(f.total, s) for f, s in zip(facts, shifts, strict=True))
        self.mean = total / (n_long * n_short)

    @property
    def n_long(self) -> int:
        """Length of the long side."""
        return self.shape[0 if self.long == "W" else 1]

    @property
    def n_short(self) -> int:
        """Length of the short side."""
        return self.shape[1 if self.long == "W" else 0]

    def number(self) -> int:
        """A number for new rows of the long factor."""
        return next(self._numbers)

    def evaluate(
        self, rows: Iterable[Rows], *reductions: Reduction, through: Iterable[Rows] = ()
    ) -> list[Any]:
        """Ask reductions about rows: one message each way.

        Rows are made and kept if they are not there; others, gone ``through`` on the way, are not.
        """
        rows = list(rows)
        with self._lock:  # starts are begun by several threads
            drop = tuple(self.unneeded)
            wanted = tuple(one.number for one in rows)
            expressions = _recipes([*rows, *through])
            message = PassRequest(expressions, reductions, wanted, drop, self._exponent)
            messages = [message] * len(self._shards)
            if not self._spans_are_sent or any(
                isinstance(expression, GivenRows) for expression in expressions.values()
            ):
                messages = [
                    message.for_shard(spans, not self._spans_are_sent) for spans in self._spans
                ]
            reply = self.executor.deal_with(messages)
            del self.unneeded[: len(drop)]  # more may have come meanwhile
            for one in rows:
                one.is_made = True
            self._spans_are_sent = True
            self.count(reply)
            return reply.answers

    def count(self, reply: Reply) -> None:
        """Count what was read for a reply."""
        self.bytes_read += reply.n_bytes
        self.chunks_read += reply.n_reads
        self.passes += reply.n_bytes > 0

    def release(self) -> None:
        """Let the shards go."""
        self.executor.release()

    def HXt(self, H: Array, out: Array) -> Array:
        """Not offered: products of a batch go by `cross`."""
        raise NotImplementedError

    def WtX(self, Wt: Array, out: Array) -> Array:
        """Not offered: products of a batch go by `cross`."""
        raise NotImplementedError

    def is_sharded(self, side: Side) -> bool:
        """Cross products for the long side are not made before a sweep needs them."""
        return side == self.long

    def cross(self, side: Literal["W", "H"], F: Any, out: Any = None) -> Any:
        """The cross product that an update of ``side`` needs."""
        if side == self.long:
            return Factor([self._crossed(S.copy()) for S in F])
        product = F.crosses()
        if out is None:
            return product
        out[:] = product
        return out

    def elementwise_cross(self, side: Side, Wt: Any, H: Any, rule: Rule) -> tuple[Any, Any]:
        """Cross products with E = rule(X, WH), of all starts in one pass."""
        long, shorts = (Wt, H) if self.long == "W" else (H, Wt)
        if side != self.long:
            reduction = ElementwiseCrosses(tuple(one.number for one in long), tuple(shorts), rule)
            found = self.evaluate((), reduction, through=long)[0]
            return found[:, :-1].reshape(shorts.shape).astype(self.dtype), found[:, -1]
        rows = [
            Rows(self, len(S), ElementwiseCrossed(rule, S.copy(), F.number), [F])
            for F, S in zip(long, shorts, strict=True)
        ]
        sums = self.evaluate(rows, Notes(tuple(one.number for one in rows)))[0]
        return Factor(rows), sums[:, 0]

    def gram(self, F: Any, out: Any) -> Any:
        """F Fᵀ of each start into ``out``."""
        if not isinstance(F, Factor):
            return super().gram(F, out)
        out[:] = F.grams()
        return out

    def residual_norm2(self, Wt: Any, H: Any) -> float:
        """‖X − WH‖², in one pass."""
        return self.residual_norms2([Wt], [H])[0]

    def residual_norms2(self, Wt: Any, H: Any) -> list[float]:
        """`residual_norm2` of each start, in one pass."""
        rows, shorts = (Wt, H) if self.long == "W" else (H, Wt)
        return self._residuals(list(rows), list(shorts))

    def errors2(self, Wt: Any, H: Any) -> list[float]:
        """‖X − WH‖² of each start for the best long factor, which is the one of `results`."""
        shorts = list(H if self.long == "W" else Wt)
        return self._residuals([self._solved(S) for S in shorts], shorts)

    def _residuals(self, rows: list[Rows], shorts: list[np.ndarray]) -> list[float]:
        reduction = self.residuals(tuple(one.number for one in rows), shorts)
        residuals: list[float] = self.evaluate((), reduction, through=rows)[0].tolist()
        return residuals

    def digest(self) -> str:
        """A hash of the values of X, the same in other chunks along the same axis."""
        sums = self.evaluate((), Fingerprint())[0]
        return digest(f"in shards {self.unit} {self.long}", [sums.view(np.int64)])

    def place(self, F: Any, side: Side) -> Any:
        """A factor in the precision of X, in the shards if it is the long one."""
        if isinstance(F, Factor | Rows):
            return F
        if side != self.long:
            return super().place(F, side)
        starts = [F] if F.ndim == 2 else F
        rows = [self._rows(len(one), GivenRows(np.asarray(one, self.dtype))) for one in starts]
        return rows[0] if F.ndim == 2 else Factor(rows)

    def place_pair(self, Wt: Any, H: Any) -> tuple[Any, Any]:
        """Factors that were saved; the long one is found again from the short one."""
        given: Any = (H, "H") if self.long == "W" else (Wt, "W")
        short = super().place(*given)
        rows = Factor([self._solved(S) for S in short])
        return (rows, short) if self.long == "W" else (short, rows)

    def penalise_solved(self, l1: float, l2: float) -> None:
        """Set the penalties on the long factor of X / unit²."""
        self._l1, self._l2 = l1, l2

    def as_returned(self, Wt: Any, H: Any) -> tuple[Any, Any]:
        """The factors of each start, the long one the best for the short one."""
        return self.place_pair(Wt, H)

    def _solved(self, short: np.ndarray) -> Rows:
        """The best long rows for a short factor."""
        return self._rows(len(short), Solved(short, l1=self._l1, l2=self._l2))

    def results(self, Wt: Any, H: Any) -> tuple[Any, Any]:
        """Factors of X: the long one lazy, the best for the short one."""
        short = self.returned(H if self.long == "W" else Wt)
        l2 = self._l2 * self.unit * self.unit
        l1 = self._l1 * self.unit * self.unit * self.unit
        solve = partial(penalised_weights, l1=l1, l2=l2)
        rows = self._lazy_weights(short, solve).T
        return (rows, short) if self.long == "W" else (short, rows)

    def _lazy_weights(self, short: np.ndarray, solve: Solve) -> Any:
        return lazy_weights(self.X, short, self.dtype, self.long == "H", self._lengths, solve)

    def read_only_factors(self, Wt: Any, H: Any) -> tuple[Any, Any]:
        """Factors of X: the short one read-only, the long one lazy."""
        factors = self.results(Wt, H)
        short = factors[1 if self.long == "W" else 0].view()
        short.flags.writeable = False
        return (factors[0], short) if self.long == "W" else (short, factors[1])

    def random_start(self, r: int, rng: np.random.Generator) -> tuple[Any, Any]:
        """The numbers that are drawn for an array in memory, each shard drawing its own."""
        m, n = self.shape
        drawn = rng.bit_generator
        if not isinstance(drawn, np.random.PCG64 | np.random.PCG64DXSM):  # which skip draw by draw
            drawn = np.random.default_rng(rng.integers(2**63)).bit_generator
        state: Any = drawn.state
        drawn.advance(m * r + r * n)  # type: ignore[attr-defined]
        at_H = Uniform(r, state, n, True, self.dtype).at(m * r)
        if self.long == "W":
            W = self._rows(r, Uniform(r, state, m, True, self.dtype))
            sums = self.evaluate([W], Sums((W.number,)))[0]
            return W.mixed(np.diag(1 / sums)), at_H.random((r, n)).astype(self.dtype, copy=False)
        Wt = Uniform(r, state, m, True, self.dtype).at(0).random((m, r))
        Wt /= Wt.sum(axis=0)
        H = self._rows(r, Uniform(r, at_H.bit_generator.state, n, False, self.dtype))  # type: ignore[arg-type]
        return np.ascontiguousarray(Wt.T, dtype=self.dtype), H

    def filled(self, F: Any, value: float, rng: np.random.Generator | None = None) -> Any:
        """A factor with a number for its zeros, or uniform numbers up to it."""
        if not isinstance(F, Rows):
            return super().filled(F, value, rng)
        random = None
        if rng is not None:
            state: Any = np.random.default_rng(rng.integers(2**63)).bit_generator.state
            random = Uniform(len(F), state, self.n_long, True, self.dtype)
        return Rows(self, len(F), Filled(F.number, value, random), [F])

    def half(self, axis: int, first: int) -> DataMatrix:
        """Every other row (axis 0) or column (axis 1) of X."""
        from nmfmerge.matrices.dask.opening import open_dask

        return open_dask(self.X[first::2] if axis == 0 else self.X[:, first::2])

    def _rows(self, r: int, expression: FactorExpression) -> Rows:
        return Rows(self, r, expression)

    def _compute_svd(self, r: int, check: Check | None) -> TruncatedSVD:
        """Short vectors from XᵀX; then X times them gives the long ones and singular values."""
        check = check or (lambda: None)
        check()
        short = self._short_vectors(r, check).astype(self.dtype)
        product = self._crossed(short)
        check()
        R = self.evaluate([product], Triangle((product.number,)))[0]
        _, s, Yt = np.linalg.svd(R)
        Yt, s = _padded(Yt, r), np.pad(s, (0, r - len(s)))
        short = (Yt @ short).astype(self.dtype)
        inverse = np.divide(1, s, out=np.zeros(r), where=s > 0)
        rows = product.mixed(inverse[:, None] * Yt)
        if not s.all():  # beyond the rank of X, any unit vectors do
            rows = self._with_random(rows, s == 0)
        if self.long == "W":
            high, low = self.evaluate([rows], Extremes((rows.number,)))[0].T
            signs = np.where(low > high, -1.0, 1.0)
        else:
            largest = np.abs(short).argmax(axis=1)[:, None]
            signs = np.where(np.take_along_axis(short, largest, axis=1)[:, 0] < 0, -1.0, 1.0)
        short = short * signs[:, None].astype(self.dtype)
        rows = rows.mixed(np.diag(signs))
        s = s.astype(self.dtype)
        return TruncatedSVD(rows, s, short) if self.long == "W" else TruncatedSVD(short, s, rows)

    def _with_random(self, rows: Rows, lacking: np.ndarray) -> Rows:
        state: Any = np.random.default_rng(1).bit_generator.state
        noise = self._rows(len(rows), Uniform(len(rows), state, self.n_long, True, self.dtype))
        size = np.diag(lacking / np.sqrt(self.n_long / 3))
        terms = ((np.eye(len(rows)), rows.number), (size, noise.number))
        return Rows(self, len(rows), Mixed(terms), [rows, noise])

    def _short_vectors(self, r: int, check: Check) -> np.ndarray:
        """Leading eigenvectors of XᵀX as rows."""
        if self.n_short > _GRAM_SIDE:
            return right_singular_vectors(self._squared, self.n_short, self.dtype, r, check=check)
        G = self._column_gram()
        return np.ascontiguousarray(eigh(G, driver="evd")[1][:, : -r - 1 : -1].T)

    def _squared(self, rows: np.ndarray) -> np.ndarray:
        """XᵀX times vectors, which are rows here, in one pass."""
        product = self._crossed(rows.astype(self.dtype))
        squared: np.ndarray = self._crosses([product])
        return squared

    def _crossed(self, short: np.ndarray) -> Rows:
        """The cross product of X with a short factor."""
        return self._rows(len(short), Crossed(short))

    def _crosses(self, rows: Sequence[Rows]) -> np.ndarray:
        """Cross products of X with rows, one after the other, which are not kept."""
        reduction = Crosses(tuple(one.number for one in rows))
        product: np.ndarray = self.evaluate((), reduction, through=rows)[0]
        return product

    def _column_gram(self) -> np.ndarray:
        """XᵀX of the short side."""
        gram: np.ndarray = self.evaluate((), ColumnGram())[0]
        return gram


def _padded(Yt: np.ndarray, r: int) -> np.ndarray:
    """An orthogonal matrix of r rows: X may have fewer long entries than r."""
    return Yt if len(Yt) == r else np.eye(r)


def _recipes(rows: Sequence[Rows]) -> dict[int, FactorExpression]:
    """Recipes of rows and of all that they are mixed from."""
    found: dict[int, FactorExpression] = {}
    stack = list(rows)
    while stack:
        one = stack.pop()
        if one.number not in found:
            found[one.number] = one.expression
            stack += [parent for parent in one.parents if parent.number in one.expression.parents]
    return dict(sorted(found.items()))
