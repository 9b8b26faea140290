"""Expressions and reductions for blocks whose entries may be missing, or have weights M.

The long factor is swept for X completed by WH, M∘X + (1 − M)∘WH, whose squared distance bounds the
weighted one and agrees with it at WH. Its product with a factor is that of E = M∘(X − WH), plus
a Gram times the other factor.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nmfmerge.backends.numba import extrapolated_, hals_sweep_
from nmfmerge.matrices.base import DataMatrix
from nmfmerge.matrices.dask.expressions import FactorExpression
from nmfmerge.matrices.dask.reductions import ColumnGram, Crosses, Reduction, Residuals
from nmfmerge.matrices.dask.weighted_block import weighted_data
from nmfmerge.matrices.rules import Residual
from nmfmerge.matrices.weighted import ratio
from nmfmerge.matrices.weights import weighted_solution

if TYPE_CHECKING:
    from nmfmerge.matrices.dask.part import Part

RESIDUAL = Residual()


@dataclass(frozen=True, eq=False)
class ObservedSolved(FactorExpression):
    """The best nonnegative part for H, exactly: each row of X has a Gram of its own."""

    reads: ClassVar[bool] = True
    H: np.ndarray
    l1: float = field(default=0.0, kw_only=True)  # penalties, as of `Solved`
    l2: float = field(default=0.0, kw_only=True)

    def make(self, part: "Part", cross: Any) -> np.ndarray:
        """Solve nonnegative least squares for each row of X."""
        return weighted_solution(weighted_data(part.matrix), self.H, self.l1, self.l2)


@dataclass(frozen=True, eq=False)
class ObservedSwept(ObservedSolved):
    """HALS sweeps for H and for X completed by WH, from an earlier part, extrapolated."""

    HHt: np.ndarray
    n_sweeps: int
    base: int
    previous: int
    weight: float  # of the extrapolation; 0: it begins at base

    def make(self, part: "Part", cross: Any) -> np.ndarray:
        """Sweep; where the parts that it begins from were lost, solve for H instead."""
        r = len(self.H)
        notes = np.zeros(2 * r)
        base, previous = part.found(self.base), part.found(self.previous)
        if base is None or (self.weight != 0 and previous is None):
            F = super().make(part, cross)
            part.put(self.base, F)
        else:
            F = part.room(r)
            if self.weight == 0:
                F[:] = base
            else:
                extrapolated_(F, base, previous, self.weight)
            G = self.HHt + self.l2 * np.eye(r, dtype=F.dtype)
            C = part.matrix.elementwise_cross("W", F[None], self.H[None], RESIDUAL)[0]
            C[0] += self.HHt @ F
            if self.l1:  # nothing is left where the partner is zero
                C -= self.l1
                F[np.diagonal(G) == 0] = 0
            moved, total, _ = hals_sweep_(F[None], G[None], C, self.n_sweeps)
            notes[:r], notes[r:] = moved[0], total[0]
        part.note(notes)
        return F


@dataclass(frozen=True, eq=False)
class ObservedResiduals(Residuals):
    """Σ m (x − y)² for each of several parts and its H, in float64."""

    def of(self, part: "Part") -> np.ndarray:
        """One number for each part."""
        found = []
        for one, H in zip(self.parts, self.H, strict=True):
            Wt, S = (F[None].astype(np.float64) for F in (part.value(one), H))
            found.append(float(part.matrix.elementwise_cross("H", Wt, S, RESIDUAL)[1][0]))
        return np.array(found)


@dataclass(frozen=True, eq=False)
class Completion:
    """The WH that completes X: a part of the long factor, by its number, and the short one."""

    number: int
    H: np.ndarray

    def of(self, part: "Part") -> DataMatrix:
        """A block of X, completed."""
        return weighted_data(part.matrix).completed(part.value(self.number), self.H)


@dataclass(frozen=True, eq=False)
class CompletedCrossed(FactorExpression):
    """The cross product (X̃ Sᵀ)ᵀ of a completed X with a short factor."""

    reads: ClassVar[bool] = True
    S: np.ndarray
    completion: Completion

    @property
    def parents(self) -> tuple[int, ...]:
        """The part that completes X."""
        return (self.completion.number,)

    def make(self, part: "Part", cross: Any) -> np.ndarray:
        """Multiply."""
        out = np.empty((len(self.S), part.n_rows), self.S.dtype)
        return self.completion.of(part).HXt(self.S, out)


@dataclass(frozen=True, eq=False)
class CompletedCrosses(Crosses):
    """The cross product of several parts with a completed X, one after the other."""

    completion: Completion = field(kw_only=True)

    def of(self, part: "Part") -> np.ndarray:
        """Wᵀ X̃ of one block."""
        F = np.concatenate([part.value(one) for one in self.parts])
        out = np.empty((len(F), self.completion.H.shape[1]), F.dtype)
        return self.completion.of(part).WtX(F, out)


@dataclass(frozen=True, eq=False)
class CompletedGram(ColumnGram):
    """X̃ᵀX̃ of a completed X, in float64."""

    completion: Completion = field(kw_only=True)

    def of(self, part: "Part") -> np.ndarray:
        """Of one block."""
        return self.gram(self.completion.of(part))


@dataclass(frozen=True, eq=False)
class MarginRows(FactorExpression):
    """One component whose weighted row sums, times h, are those of X."""

    reads: ClassVar[bool] = True
    h: np.ndarray  # 1 × the short side

    def make(self, part: "Part", cross: Any) -> np.ndarray:
        """Divide row sums."""
        data = weighted_data(part.matrix)
        sums = data.HXt(np.ones_like(self.h), np.empty((1, part.n_rows), self.h.dtype))
        return ratio(sums, data.weights.cross("W", self.h[None])[0])


@dataclass(frozen=True, eq=False)
class MarginSums(Reduction):
    """Of each column Σ m x and Σ m w, w a part of one component."""

    reads: ClassVar[bool] = True

    def of(self, part: "Part") -> np.ndarray:
        """Both, 2 × the short side."""
        data, w = weighted_data(part.matrix), part.value(*self.parts)
        sums = data.WtX(np.ones_like(w), np.empty((1, data.shape[1]), w.dtype))
        both = np.concatenate([sums, data.weights.cross("H", w[None])[0]])
        return both.astype(np.float64)
