"""X as a Dask array with missing values or weights, and X completed by WH.

Sweeps need only products with E = M∘(X − WH); see `observed`. One pass over X sweeps the long
factor and gives what the next update of the short one needs.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from nmfmerge.matrices.base import DataMatrix, Side
from nmfmerge.matrices.dask.expressions import Extrapolated
from nmfmerge.matrices.dask.factor import Factor, PrefetchedProducts, ResidualCross, Rows
from nmfmerge.matrices.dask.matrix import DaskData
from nmfmerge.matrices.dask.observed import (
    RESIDUAL,
    CompletedCrossed,
    CompletedCrosses,
    CompletedGram,
    Completion,
    MarginRows,
    MarginSums,
    ObservedResiduals,
    ObservedSolved,
    ObservedSwept,
)
from nmfmerge.matrices.dask.reductions import (
    ElementwiseCrosses,
    Extremes,
    Facts,
    Notes,
    Products,
    Reduction,
)
from nmfmerge.matrices.dask.solve import Solve, lazy_weights
from nmfmerge.matrices.svd import Check, TruncatedSVD
from nmfmerge.matrices.weighted import ratio

_FEW = 0.5  # of the weights that X could have
_MARGIN_ROUNDS = 20  # each is a pass over X
_MARGIN_TOLERANCE = 1e-6


def side_by_side(X: Any, weights: Any, by_columns: bool) -> Any:
    """Chunks of X, long side first, each with its weights beside it."""
    from dask.array import concatenate

    both = [A.T if by_columns else A for A in (X, weights.rechunk(X.chunks))]
    return concatenate(both, axis=1).rechunk({1: -1})


class ObservedLines:
    """Rows and columns of the weights of the entries, as the first pass found them."""

    few_missing = True  # sweeps look at X completed by WH, however many are missing

    def __init__(self, facts: Sequence[Facts], long: Side) -> None:
        self._long, self._rows = long, []
        self.of_columns: Any = 0.0
        first = 0
        for fact in facts:
            self._rows += [first + row for row in fact.unobserved]
            own = fact.n_rows if fact.weights is None else fact.weights
            self.of_columns = self.of_columns + own
            first += fact.n_rows

    def unobserved(self, side: Side) -> np.ndarray:
        """Rows or columns of X without any weight."""
        return np.array(self._rows) if side == self._long else np.flatnonzero(self.of_columns <= 0)


class WeightedDask(DaskData):
    """A Dask array in which NaN is missing, with weights of its entries or without."""

    kind = "a Dask array with missing values or weights"
    residuals = ObservedResiduals
    stride = 1.0  # of a sweep over a completed X, in strides of a sweep over what is observed
    entry_weights: Any = None  # a Dask array like X, if they are not all equal or zero

    def know(self, facts: Sequence[Facts], exponent: int) -> None:
        """Take up what the first pass found."""
        super().know(facts, exponent)
        total = self.mean * self.size
        self.weights = ObservedLines(facts, self.long)
        observed = float(np.broadcast_to(self.weights.of_columns, self.n_short).sum())
        self.mean = total / (observed or 1.0)
        share = observed / self.size
        self.stride = share if share < _FEW else 1.0
        self.n_missing = sum(fact.n_missing for fact in facts)

    def sweep_(
        self, F: Factor, shorts: np.ndarray, n_sweeps: int, l1: float, l2: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sweep over a long factor, in one pass that also gives what is needed next.

        Returns ‖new − old‖² and ‖new + old‖² of each component, and Σ m (x − y)² of each start.
        """
        HHt = (shorts @ shorts.swapaxes(1, 2)).astype(self.dtype, copy=False)
        given = [S.copy() for S in shorts]  # the same arrays everywhere, so that each is sent once
        new = [
            Rows(self, len(S), ObservedSwept(S, G, n_sweeps, *rows.beginning, l1=l1, l2=l2))
            for rows, S, G in zip(F, given, HHt, strict=True)
        ]
        next_ = F.after(new)
        wanted = list(zip(new, given, strict=True))
        wanted += [(ahead, S) for ahead, S in zip(next_, given, strict=True) if ahead not in new]
        begun = [rows.begins for rows in F if not rows.begins.is_made]
        notes = self._know_residuals(wanted, Notes(tuple(rows.number for rows in new)), begun + new)
        for rows, ahead in zip(new, next_, strict=True):
            step = ahead.expression
            if isinstance(step, Extrapolated):
                known = step.previous, step.weight, ahead.gram(), None, 0.0, ahead.residual
                rows.foreseen = PrefetchedProducts(*known)
        F.take_up(new)
        r = shorts.shape[1]
        return notes[:, :r], notes[:, r:], self._squares(new)

    def residual_crosses(self, shorts: np.ndarray, F: Factor) -> tuple[np.ndarray, np.ndarray]:
        """WᵀE of each start, E = M∘(X − WH), and Σ m (x − y)²; a pass where they are not known."""
        wanted = [
            (rows, S.copy())
            for rows, S in zip(F, shorts, strict=True)
            if rows.residual is None or not np.array_equal(rows.residual.H, S)
        ]
        if wanted:
            self._know_residuals(wanted)
        return np.stack([rows.residual.product for rows in F]), self._squares(F)

    def _know_residuals(
        self, wanted: Sequence[tuple[Rows, np.ndarray]], notes: Notes | None = None,
        made: Sequence[Rows] = (),
    ) -> Any:  # fmt: skip
        """Let rows know their products with E for these short factors, and their Grams."""
        numbers = tuple(rows.number for rows, _ in wanted)
        shorts = [S for _, S in wanted]
        crosses, *found = self.evaluate(
            made,
            ElementwiseCrosses(numbers, shorts, RESIDUAL),
            *(Products((number, number), True) for number in numbers),
            *([] if notes is None else [notes]),
            through=[rows for rows, _ in wanted],
        )
        for (rows, S), row, gram in zip(wanted, crosses, found, strict=False):  # and then notes
            rows.know(gram, None)
            rows.residual = ResidualCross(S, row[:-1].reshape(S.shape).astype(S.dtype), row[-1])
        return found[-1]

    def _squares(self, F: Iterable[Rows]) -> np.ndarray:
        return np.array([rows.residual.squares for rows in F if rows.residual is not None])

    def completed(self, Wt: Any, H: Any) -> "CompletedDask":
        """M∘X + (1 − M)∘WH of one start; blocks are completed when they are read."""
        rows, short = (Wt, H) if self.long == "W" else (H, Wt)
        return CompletedDask(self, rows, short.copy())

    def margins(self) -> tuple[Any, Any]:
        """Factors of rank 1 whose weighted row and column sums are those of X; see `WeightedData`.

        Each round is a pass over X.
        """
        h = np.ones((1, self.n_short), self.dtype)
        for _ in range(_MARGIN_ROUNDS):
            w, before = self._rows(1, MarginRows(h)), h
            top, bottom = self.evaluate((), MarginSums((w.number,)), through=[w])[0]
            h = ratio(top[None], bottom[None]).astype(self.dtype)
            if np.abs(h - before).max() <= _MARGIN_TOLERANCE * h.max():
                break
        largest = self.evaluate([w], Extremes((w.number,)))[0][0, 0]
        size = np.sqrt(h.max() / (largest or 1)) or h.dtype.type(1)
        w, h = w.mixed(np.array([[size]])), h / size
        return (w, h) if self.long == "W" else (h, w)

    def half(self, axis: int, first: int) -> DataMatrix:
        """Every other row (axis 0) or column (axis 1) of X, with their weights."""
        from nmfmerge.matrices.dask.opening import open_dask

        every = slice(first, None, 2)
        parts = every if axis == 0 else (slice(None), every)
        M = self.entry_weights
        return open_dask(self.X[parts], M if M is None else M[parts], self.weight_unit)

    def _solved(self, short: np.ndarray) -> Rows:
        return self._rows(len(short), ObservedSolved(short, l1=self._l1, l2=self._l2))

    def _lazy_weights(self, short: np.ndarray, solve: Solve) -> Any:
        if self.entry_weights is None:
            return super()._lazy_weights(short, solve)
        both = side_by_side(self.X, self.entry_weights, self.long == "H")
        return lazy_weights(both, short, self.dtype, False, self._lengths, solve, weighted=True)

    def _compute_svd(self, r: int, check: Check | None) -> TruncatedSVD:
        return self.completed(*self.margins())._compute_svd(r, check)


class CompletedDask(DaskData):
    """X completed by WH where it is missing: each block where it is read."""

    def __init__(self, data: WeightedDask, rows: Rows, short: np.ndarray) -> None:
        self.__dict__.update(data.__dict__)  # whose shards they are
        self._begin_without_svd()
        self.weights = None
        self._data, self._rows_of_W = data, rows
        self._completion = Completion(rows.number, short)

    def evaluate(
        self, rows: Iterable[Rows], *reductions: Reduction, through: Iterable[Rows] = ()
    ) -> list[Any]:
        """Ask reductions about rows, with what completes X at hand."""
        return self._data.evaluate(rows, *reductions, through=[*through, self._rows_of_W])

    def cross(self, side: Side, F: Any, out: Any = None) -> Any:
        """The cross product that an update of ``side`` needs."""
        if side == self.long:
            return super().cross(side, F)
        return self._crosses(list(F)).reshape(len(F), -1, self.n_short)

    def _crossed(self, short: np.ndarray) -> Rows:
        expression = CompletedCrossed(short, self._completion)
        return Rows(self, len(short), expression, [self._rows_of_W])

    def _crosses(self, rows: Sequence[Rows]) -> np.ndarray:
        numbers = tuple(one.number for one in rows)
        reduction = CompletedCrosses(numbers, completion=self._completion)
        product: np.ndarray = self.evaluate((), reduction, through=rows)[0]
        return product

    def _column_gram(self) -> np.ndarray:
        gram: np.ndarray = self.evaluate((), CompletedGram(completion=self._completion))[0]
        return gram
