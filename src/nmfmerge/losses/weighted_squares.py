r"""The weighted squared error, for missing values and for entries of unequal certainty.

.. math:: \tfrac12 \sum_{ij} m_{ij} (x_{ij} - (WH)_{ij})^2, \qquad 0 \le m_{ij}

The rows of a factor no longer share one Gram, so solvers sweep line by line (see
`nmfmerge.backends.numba.weighted_sweep`). Recovery completes X by the present WH: what is missing
then has no residual. The merge needs WH alone, and is that of the squared error.
"""

from functools import cached_property
from typing import Any

import numpy as np

from nmfmerge.backends.numba import gram64
from nmfmerge.backends.numba.weighted_nnls import weighted_nnls
from nmfmerge.backends.numba.weighted_sweep import weighted_sweep_
from nmfmerge.losses.base import BatchView, Entrywise, Form, Recovered
from nmfmerge.losses.frobenius import Frobenius
from nmfmerge.losses.frobenius_recovery import recover_round
from nmfmerge.losses.penalties import Penalty
from nmfmerge.matrices import Array, Check, DataMatrix, Side


class WeightedPasses:
    """The passes over X that solvers for losses on entries need."""

    def __init__(self, matrix: Any) -> None:
        self.matrix, self.weights = matrix, matrix.weights

    @cached_property
    def total(self) -> float:
        """½ Σ m x²."""
        return 0.5 * float(self.matrix.norm2)

    def _grams(self, fixed: np.ndarray) -> np.ndarray | None:
        """The Grams of a factor, if most weights are one."""
        return gram64(fixed) if self.weights.complement else None

    def sweep_(
        self, side: Side, F: np.ndarray, fixed: np.ndarray, **options: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Update one side by coordinate descent; see `weighted_sweep_`."""
        C, G = self.matrix.cross(side, fixed), self._grams(fixed)
        return weighted_sweep_(F, fixed, C, G, self.weights.lines(side), **options)

    def mu_step_(
        self, side: Side, F: np.ndarray, fixed: np.ndarray, **options: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Update one side by multiplication."""
        return self.sweep_(side, F, fixed, multiply=True, **options)[:2]

    def for_passes(self, r: int) -> None:
        """Sums differ from line to line, so passes are single operations."""

    def sizes(self, Wt: np.ndarray, H: np.ndarray) -> np.ndarray:
        """⟨w_k h_k, WH⟩ of each component (n_starts × r), over all entries."""
        return np.asarray((gram64(Wt) * gram64(H)).sum(axis=2))

    def value(self, Wt: np.ndarray, H: np.ndarray, seen: np.ndarray | None = None) -> np.ndarray:
        """The loss of each start; ``seen`` is what a sweep has noted; cancels near an exact fit."""
        if seen is None:
            held = np.zeros(Wt.shape[1], dtype=bool)
            seen = self.sweep_("W", Wt, H, value=True, free=held)[2]
        return self.total - seen


class WeightedSquares(Frobenius):
    """The squared error where entries have weights; it takes the place of `Frobenius` there."""

    forms = frozenset({Form.ENTRIES})
    where = " where X has missing values (NaN) or weights"

    def entrywise(self, matrix: DataMatrix) -> Entrywise:
        """The passes over X, as solvers ask for them."""
        return WeightedPasses(matrix)

    def value(self, batch: BatchView) -> Array:
        """The loss of each start, with the penalty, in one pass over the entries with a u."""
        value = WeightedPasses(batch.problem.matrix).value(batch.Wt, batch.H).clip(min=0.0)
        return value + batch.problem.penalties(batch.Wt, batch.H)

    def recover(
        self, matrix: DataMatrix, Wt: Array, H: Array, k: int, check: Check, held: np.ndarray
    ) -> Recovered:
        """Recover by the generalized SVD of WH and of X completed by it, of each start."""
        found = []
        for start in range(len(H)):
            check()
            pair = Wt[start : start + 1], H[start : start + 1]
            completed = matrix.completed(Wt[start], H[start])  # type: ignore[attr-defined]
            found.append(recover_round(completed, *pair, k, check, held))
        return Recovered(
            np.concatenate([one.Wt for one in found]),
            np.concatenate([one.H for one in found]),
            np.concatenate([one.strengths for one in found]),
            np.concatenate([one.gain for one in found]),
        )

    def weights(self, matrix: DataMatrix, H: np.ndarray, penalty: Penalty) -> Array:
        """Nonnegative least squares, each row of X with its own Gram, by an active set."""
        weights: Any = matrix.weights
        H = np.ascontiguousarray(H / matrix.unit, dtype=matrix.dtype)
        HXt = matrix.cross("W", H[None])[0]
        G = gram64(H) if weights.complement else np.zeros((len(H), len(H)))
        sign = -1.0 if weights.complement else 1.0
        Wt = weighted_nnls(G, HXt, H, weights.lines("W"), sign, l1=penalty.l1_W, l2=penalty.l2_W)
        return matrix.returned(matrix.place(Wt, "W")).T

    def kkt_residual(self, batch: BatchView) -> np.ndarray:
        """How far each start is from a stationary point, relative to X; see `metrics`."""
        matrix: Any = batch.problem.matrix
        total = np.zeros(len(batch.H))
        for i, (Wt, H) in enumerate(zip(batch.Wt, batch.H, strict=True)):
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
