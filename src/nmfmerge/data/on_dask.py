"""X as a Dask array in chunks of rows, or of columns, read in passes; see `data.shards`."""

import math
from collections.abc import Iterable, Sequence
from itertools import count
from threading import Lock
from typing import Any, ClassVar, Literal
from weakref import finalize

import numpy as np
from scipy.linalg import eigh

from nmfmerge.data.base import Array, DataMatrix, Side
from nmfmerge.data.digest import digest
from nmfmerge.data.factor import Factor, Rows
from nmfmerge.data.shards.crew import Crew
from nmfmerge.data.shards.questions import (
    ColumnGram,
    Crosses,
    Extremes,
    Facts,
    Fingerprint,
    Question,
    Residuals,
    Sums,
    Survey,
    Triangle,
)
from nmfmerge.data.shards.recipes import Crossed, Filled, Given, Mixed, Recipe, Solved, Uniform
from nmfmerge.data.shards.shard import Message
from nmfmerge.data.shards.solve import lazy_weights
from nmfmerge.data.shards.spans import Span, spans_of
from nmfmerge.data.svd import TOLERANCE, Check, TruncatedSVD
from nmfmerge.kernels import on_dask

_GRAM_SIDE = 2000  # up to this short side, one pass for XᵀX gives the singular vectors
_EXTRA = 8  # more vectors than asked for, in a search by passes
_MOST_PASSES = 40


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
    crew : Crew
        Who works on the shards.
    shards : sequence of range
        The chunks of each.
    """

    kernels: ClassVar[Any] = on_dask
    start_kernels: ClassVar[Any] = on_dask

    def __init__(
        self, X: Any, dtype: np.dtype, by_columns: bool, crew: Crew, shards: Sequence[range]
    ) -> None:
        self.X, self.dtype = X, dtype
        self.long: Side = "H" if by_columns else "W"
        self.crew = crew
        self.bytes_read = 0  # of X gone through
        self.chunks_read = 0
        self.passes = 0
        self._svd, self._keeps_svd = None, False
        self._shards = shards
        self._exponent = 0
        self._lengths: list[int] | None = None
        self._spans: list[list[Span]] = []  # of each shard
        self._told = True  # whether the shards know those that there are
        self._numbers = count(1)
        self.unneeded: list[int] = []
        self._lock = Lock()
        finalize(self, crew.close)

    def survey(self) -> list[Facts]:
        """The first pass: lengths of chunks, and how large the values are."""
        facts: list[Facts] = self.ask((), Survey())[0]
        return facts

    def know(self, facts: Sequence[Facts], exponent: int) -> None:
        """Take up what the first pass found; X / 4ᵏ is factorized, k the exponent."""
        self._exponent, self.unit = exponent, math.ldexp(1.0, exponent)
        self._lengths = [fact.n_rows for fact in facts]
        n_long, n_short = sum(self._lengths), self.X.shape[0 if self.long == "H" else 1]
        self.shape = (n_short, n_long) if self.long == "H" else (n_long, n_short)
        self._told = False
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

    def ask(
        self, rows: Iterable[Rows], *questions: Question, through: Iterable[Rows] = ()
    ) -> list[Any]:
        """Ask questions about rows: one message each way.

        Rows are made and kept if they are not there; others, gone ``through`` on the way, are not.
        """
        rows = list(rows)
        with self._lock:  # starts are begun by several threads
            drop = tuple(self.unneeded)
            wanted = tuple(one.number for one in rows)
            recipes = _recipes([*rows, *through])
            message = Message(recipes, questions, wanted, drop, self._exponent)
            messages = [message] * len(self._shards)
            if not self._told or any(isinstance(recipe, Given) for recipe in recipes.values()):
                messages = [message.for_shard(spans, not self._told) for spans in self._spans]
            reply = self.crew.deal_with(messages)
            del self.unneeded[: len(drop)]  # more may have come meanwhile
            for one in rows:
                one.is_made = True
            self._told = True
            self.bytes_read += reply.n_bytes
            self.chunks_read += reply.n_reads
            self.passes += reply.n_bytes > 0
            return reply.answers

    def release(self) -> None:
        """Let the shards go."""
        self.crew.release()

    def HXt(self, H: Array, out: Array) -> Array:
        """Not offered: products of a batch go by `cross`."""
        raise NotImplementedError

    def WtX(self, Wt: Array, out: Array) -> Array:
        """Not offered: products of a batch go by `cross`."""
        raise NotImplementedError

    def defers(self, side: Side) -> bool:
        """Cross products for the long side are not made before a sweep needs them."""
        return side == self.long

    def cross(self, side: Literal["W", "H"], F: Any, out: Any = None) -> Any:
        """The cross product that an update of ``side`` needs."""
        if side == self.long:
            return Factor([self._rows(len(S), Crossed(S.copy())) for S in F])
        product = F.crosses()
        if out is None:
            return product
        out[:] = product
        return out

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
        return self._residuals([self._rows(len(S), Solved(S)) for S in shorts], shorts)

    def _residuals(self, rows: list[Rows], shorts: list[np.ndarray]) -> list[float]:
        question = Residuals(tuple(one.number for one in rows), shorts)
        residuals: list[float] = self.ask((), question, through=rows)[0].tolist()
        return residuals

    def digest(self) -> str:
        """A hash of the values of X, the same in other chunks along the same axis."""
        sums = self.ask((), Fingerprint())[0]
        return digest(f"in shards {self.unit} {self.long}", [sums.view(np.int64)])

    def blas_flops(self, r: int, n_starts: int = 1) -> float:
        """None in this thread."""
        return 0.0

    def place(self, F: Any, side: Side) -> Any:
        """A factor in the precision of X, in the shards if it is the long one."""
        if isinstance(F, Factor | Rows):
            return F
        if side != self.long:
            return super().place(F, side)
        starts = [F] if F.ndim == 2 else F
        rows = [self._rows(len(one), Given(np.asarray(one, self.dtype))) for one in starts]
        return rows[0] if F.ndim == 2 else Factor(rows)

    def place_pair(self, Wt: Any, H: Any) -> tuple[Any, Any]:
        """Factors that were saved; the long one is found again from the short one."""
        given: Any = (H, "H") if self.long == "W" else (Wt, "W")
        short = super().place(*given)
        rows = Factor([self._rows(len(S), Solved(S)) for S in short])
        return (rows, short) if self.long == "W" else (short, rows)

    def results(self, Wt: Any, H: Any) -> tuple[Any, Any]:
        """Factors of X: the long one lazy, the best for the short one."""
        short = self.returned(H if self.long == "W" else Wt)
        rows = lazy_weights(self.X, short, self.dtype, self.long == "H", self._lengths).T
        return (rows, short) if self.long == "W" else (short, rows)

    def shown(self, Wt: Any, H: Any) -> tuple[Any, Any]:
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
            sums = self.ask([W], Sums((W.number,)))[0]
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
        from nmfmerge.data.opening import open_dask

        return open_dask(self.X[first::2] if axis == 0 else self.X[:, first::2])

    def _rows(self, r: int, recipe: Recipe) -> Rows:
        return Rows(self, r, recipe)

    def _compute_svd(self, r: int, check: Check | None) -> TruncatedSVD:
        """Short vectors from XᵀX; then X times them gives the long ones and singular values."""
        check = check or (lambda: None)
        check()
        short = self._short_vectors(r, check).astype(self.dtype)
        product = self._rows(r, Crossed(short))
        check()
        R = self.ask([product], Triangle((product.number,)))[0]
        _, s, Yt = np.linalg.svd(R)
        Yt, s = _padded(Yt, r), np.pad(s, (0, r - len(s)))
        short = (Yt @ short).astype(self.dtype)
        inverse = np.divide(1, s, out=np.zeros(r), where=s > 0)
        rows = product.mixed(inverse[:, None] * Yt)
        if not s.all():  # beyond the rank of X, any unit vectors do
            rows = self._with_random(rows, s == 0)
        if self.long == "W":
            high, low = self.ask([rows], Extremes((rows.number,)))[0].T
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
            return leading_eigenvectors(self._squared, self.n_short, r, check)
        G = self.ask((), ColumnGram())[0]
        return np.ascontiguousarray(eigh(G, driver="evd")[1][:, : -r - 1 : -1].T)

    def _squared(self, rows: np.ndarray) -> np.ndarray:
        """XᵀX times vectors, which are rows here, in one pass."""
        product = self._rows(len(rows), Crossed(rows.astype(self.dtype)))
        squared: np.ndarray = self.ask((), Crosses((product.number,)), through=[product])[0]
        return squared


def leading_eigenvectors(
    multiply: Any, n: int, r: int, check: Check, tolerance: float = TOLERANCE
) -> np.ndarray:
    """Leading eigenvectors, as rows, of a positive semidefinite matrix by few products with blocks.

    A block Krylov space grows by what each product has outside it, until the residual of every
    eigenvector is below ``tolerance`` times its eigenvalue, or as small as rounding lets it be.
    """
    block = min(n, r + _EXTRA)
    V = np.linalg.qr(np.random.default_rng(0).standard_normal((n, block)))[0].T
    AV = np.empty((0, n))
    found = V[:r]
    new = V
    for _ in range(_MOST_PASSES):
        check()
        AV = np.concatenate([AV, multiply(new).astype(np.float64)])
        T = V @ AV.T
        values, Y = np.linalg.eigh((T + T.T) / 2)
        values, Y = values[: -r - 1 : -1], Y[:, : -r - 1 : -1]
        found = Y.T @ V
        residuals = np.linalg.norm(Y.T @ AV - values[:, None] * found, axis=1)
        noise = 1e-6 * max(values[0], 0)
        new = AV[-len(new) :].copy()
        for _ in range(2):
            new -= (new @ V.T) @ V
        room = min(block, n - len(V))
        if np.all(residuals <= np.maximum(tolerance * values, noise)) or room == 0:
            break
        Q, R = np.linalg.qr(new.T)
        new = Q.T[np.abs(np.diag(R)) > 1e-12 * max(values[0], 1e-300)][:room]
        if len(new) == 0:
            break
        new -= (new @ V.T) @ V
        new = np.linalg.qr(new.T)[0].T
        V = np.concatenate([V, new])
    return found


def _padded(Yt: np.ndarray, r: int) -> np.ndarray:
    """An orthogonal matrix of r rows: X may have fewer long entries than r."""
    return Yt if len(Yt) == r else np.eye(r)


def _recipes(rows: Sequence[Rows]) -> dict[int, Recipe]:
    """Recipes of rows and of all that they are mixed from."""
    found: dict[int, Recipe] = {}
    stack = list(rows)
    while stack:
        one = stack.pop()
        if one.number not in found:
            found[one.number] = one.recipe
            stack += [parent for parent in one.parents if parent.number in one.recipe.parents]
    return dict(sorted(found.items()))
