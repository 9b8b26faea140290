r"""The weighted squared error, for missing values and for entries of unequal certainty.

.. math:: \tfrac12 \sum_{ij} m_{ij} (x_{ij} - (WH)_{ij})^2, \qquad 0 \le m_{ij}

The rows of a factor no longer share one Gram. Where little is missing, solvers sweep as HALS does,
on X completed by the present WH, whose distance bounds the loss and agrees with it at WH; else line
by line (see `nmfmerge.backends.numba.weighted_sweep`). Recovery completes X by the present WH, too:
what is missing then has no residual. The merge needs WH alone, and is that of the squared error.
"""

from functools import cached_property
from typing import Any

import numpy as np

from nmfmerge.losses.base import BatchView, Entrywise, Form, Recovered
from nmfmerge.losses.frobenius import Frobenius
from nmfmerge.losses.frobenius_recovery import recover_round
from nmfmerge.losses.previews import Previews
from nmfmerge.losses.weighted_previews import WeightedMoments
from nmfmerge.matrices import SIDES, Array, Check, DataMatrix, Side

_SWEEPS = 6  # of completed data, per product


class WeightedPasses:
    """The passes over X that solvers for losses on entries need."""

    def __init__(self, matrix: Any) -> None:
        self.matrix, self.weights, self.kernels = matrix, matrix.weights, matrix.kernels

    @cached_property
    def total(self) -> float:
        """½ Σ m x²."""
        return 0.5 * float(self.matrix.norm2)

    def _grams(self, fixed: Array) -> Array | None:
        """The Grams of a factor, if most weights are one."""
        return self.kernels.gram64(fixed) if self.weights.complement else None

    def n_sweeps(self, r: int) -> int:
        """Sweeps per pass: where X is completed, they cost little beside the products."""
        return _SWEEPS if self.weights.few_missing else 1

    def sweep_(
        self, side: Side, F: Array, fixed: Array, **options: Any
    ) -> tuple[Array, Array, Array]:
        """Update one side by coordinate descent, on X completed by WH where few are missing."""
        if self.weights.few_missing:
            return self._completed_sweep_(side, F, fixed, **options)
        return self._line_sweep_(side, F, fixed, **options)

    def _line_sweep_(
        self, side: Side, F: Array, fixed: Array, **options: Any
    ) -> tuple[Array, Array, Array]:
        """Sweep line by line; see `weighted_sweep_`."""
        C, G = self.matrix.cross(side, fixed), self._grams(fixed)
        sweep_: Any = self.kernels.weighted_sweep_
        moved, total, seen = sweep_(F, fixed, C, G, self.weights.lines(side), **options)
        return moved, total, seen

    def _completed_sweep_(
        self, side: Side, F: Array, fixed: Array, *, n_sweeps: int = 1, value: bool = False,
        free: Any = None, l1: float = 0.0, l2: float = 0.0, active: Any = None,
    ) -> tuple[Array, Array, Array]:  # fmt: skip
        """Sweeps of HALS for X completed by WH: its squared distance bounds the loss."""
        k: Any = self.kernels
        lines, C = self.weights.lines(side), self.matrix.cross(side, fixed)
        observed = k.copy(C) if value else C
        k.missing_cross_(F, fixed, C, lines)
        G = self.matrix.gram(fixed, k.empty((*fixed.shape[:2], fixed.shape[1]), fixed))
        moved, total = self._hals_(F, G, C, n_sweeps, free, l1, l2, active)
        if not value:
            return moved, total, k.numbers(len(F), 0.0, F)
        squares = k.missing_cross_(F, fixed, C, lines, add=False)
        whole = k.inner_products(k.gram64(F), k.gram64(fixed))
        return moved, total, k.inner_products(F, observed) - 0.5 * (whole - squares)

    def _hals_(
        self, F: Array, G: Array, C: Array, n_sweeps: int, free: Any, l1: float, l2: float,
        active: Any,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Sweep over F for a Gram and a cross product, which are changed, with a penalty."""
        k: Any = self.kernels
        if l1:
            C -= l1
        if l2:
            k.diagonals(G)[:] += l2
        curvature = k.diagonals(G)
        if l1:  # nothing is left where the partner is zero
            keeps = curvature > 0
            F *= (keeps if free is None else keeps | ~free)[:, :, None]
        if free is not None:
            curvature *= free  # a component without curvature rests
        moved, total = k.hals_sweep_(F, G, C, n_sweeps, active)[:2]
        return moved, total

    def mu_step_(self, side: Side, F: Array, fixed: Array, **options: Any) -> tuple[Array, Array]:
        """Update one side by multiplication."""
        return self._line_sweep_(side, F, fixed, multiply=True, **options)[:2]

    def for_passes(self, r: int) -> None:
        """Grams differ from line to line, so passes are single operations."""

    def sizes(self, Wt: Array, H: Array) -> Array:
        """⟨w_k h_k, WH⟩ of each component (n_starts × r), over all entries."""
        return (self.kernels.gram64(Wt) * self.kernels.gram64(H)).sum(axis=2)

    def value(self, Wt: Array, H: Array, seen: Array | None = None) -> Array:
        """The loss of each start; ``seen`` is what a sweep has noted; cancels near an exact fit."""
        if seen is None:
            held = self.kernels.numbers(Wt.shape[1], False, Wt)
            seen = self._line_sweep_("W", Wt, H, value=True, free=held)[2]
        return self.total - seen


class PassesInShards(WeightedPasses):
    """The same where one factor lies in shards: X is always completed."""

    def sweep_(  # type: ignore[override]
        self, side: Side, F: Array, fixed: Array, *, n_sweeps: int = 1, value: bool = False,
        free: Any = None, l1: float = 0.0, l2: float = 0.0, active: Any = None,
    ) -> tuple[Array, Array, Array]:  # fmt: skip
        """Sweep over one side for X completed by WH."""
        if self.matrix.is_sharded(side):  # of which no component is held
            moved, total, squares = self.matrix.sweep_(F, fixed, n_sweeps, l1, l2)
        else:
            C, squares = self.matrix.residual_crosses(F, fixed)
            G = self.kernels.gram64(fixed).astype(F.dtype)
            C += G @ F
            moved, total = self._hals_(F, G, C, n_sweeps, free, l1, l2, active)
            squares = self.matrix.residual_crosses(F, fixed)[1] if value else squares
        return moved / self.matrix.stride**2, total, self.total - 0.5 * squares

    def value(self, Wt: Array, H: Array, seen: Array | None = None) -> Array:
        """The loss of each start; ``seen`` is what a sweep has noted."""
        if seen is None:
            return 0.5 * np.array(self.matrix.residual_norms2(Wt, H))
        return self.total - seen


class WeightedSquares(Frobenius):
    """The squared error where entries have weights; it takes the place of `Frobenius` there."""

    forms = frozenset({Form.ENTRIES})
    where = " where X has missing values (NaN) or weights"

    def entrywise(self, matrix: DataMatrix) -> Entrywise:
        """The passes over X, as solvers ask for them."""
        in_shards = any(matrix.is_sharded(side) for side in SIDES)
        return PassesInShards(matrix) if in_shards else WeightedPasses(matrix)

    def value(self, batch: BatchView) -> Array:
        """The loss of each start, with the penalty, in one pass over the entries with a u."""
        value = batch.problem.entrywise.value(batch.Wt, batch.H).clip(min=0.0)
        return value + batch.problem.penalty.value(batch.Wt, batch.H, batch.problem.kernels)

    def previews(self, matrix: DataMatrix, Wt: np.ndarray, H: np.ndarray) -> Previews:
        """Merges and removals are known from r × r numbers."""
        return WeightedMoments.of(matrix, Wt, H)

    def recover(
        self, matrix: DataMatrix, Wt: Array, H: Array, k: int, check: Check, held: np.ndarray
    ) -> Recovered:
        """Recover by the generalized SVD of WH and of X completed by it, of each start."""
        found = []
        for start in range(len(H)):
            check()
            pair = Wt[start : start + 1], H[start : start + 1]
            completed = matrix.completed(Wt[start], H[start])
            found.append(recover_round(completed, *pair, k, check, held))
        stack = matrix.kernels.stack
        return Recovered(
            stack([one.Wt[0] for one in found]),
            stack([one.H[0] for one in found]),
            np.concatenate([one.strengths for one in found]),
            np.concatenate([one.gain for one in found]),
        )

    def kkt_residual(self, batch: BatchView) -> np.ndarray:
        """How far each start is from a stationary point, relative to X; see `metrics`."""
        to_host = batch.problem.kernels.to_host
        matrix: Any = batch.problem.matrix.on_host()
        total = np.zeros(len(batch.H))
        for i, (Wt, H) in enumerate(zip(to_host(batch.Wt), to_host(batch.H), strict=True)):
            residual = matrix.completed(Wt, H)
            sides: tuple[tuple[Side, Any, Any, Any], ...] = (
                ("W", Wt, H, residual.HXt), ("H", H, Wt, residual.WtX),
            )  # fmt: skip
            for side, F, fixed, product in sides:
                gradient = (fixed @ fixed.T) @ F - product(fixed, np.empty_like(F))
                curvature = matrix.weights.cross(side, np.square(fixed)[None])[0]
                safe = np.where(curvature > 0, curvature, 1)
                step = F - np.maximum(0, F - gradient / safe)
                total[i] += float(np.vdot(curvature, np.square(step, dtype=np.float64)))
        return np.sqrt(total / (matrix.norm2 or 1.0))


WEIGHTED_SQUARES = WeightedSquares()
