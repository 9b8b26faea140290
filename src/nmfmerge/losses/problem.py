"""The problem of a fit: a matrix, a loss, a penalty, held components.

Values and percentages are computed here and nowhere else, of X / unit² until `Problem.in_full` puts
the scale of X back.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nmfmerge.inputs.hold import Held
from nmfmerge.losses.base import BatchView, Entrywise, Factors, Loss, Recovered
from nmfmerge.losses.merging import MergePlan
from nmfmerge.losses.penalties import NO_PENALTY, Penalty
from nmfmerge.matrices import SIDES, Array, Check, DataMatrix

_FILLED = 0.01  # in place of zeros, relative to the mean of a component


@dataclass(frozen=True, eq=False)
class Problem:
    """The problem of a fit: minimise ``loss(X, WH) + penalty(W, H)`` over W, H ≥ 0, some held."""

    matrix: DataMatrix
    loss: Loss
    penalty: Penalty = NO_PENALTY  # of factors of X / unit²
    held: Held | None = None  # of the first components
    keeps_zeros: bool = False  # whether the solver leaves zeros zero, so that none may be made

    def __post_init__(self) -> None:
        object.__setattr__(self, "loss", self.loss.of(self.matrix))
        for side in SIDES:
            if self.matrix.is_sharded(side):
                self.matrix.penalise_solved(self.penalty.l1(side), self.penalty.l2(side))

    @property
    def kernels(self) -> Any:
        """The operations on factors of this matrix."""
        return self.matrix.kernels

    def with_held(self, r: int) -> "Problem":
        """The same for r components, of which those after the held ones are free."""
        return self if self.held is None else replace(self, held=self.held.extended(r))

    def value(self, batch: BatchView) -> Array:
        """The objective of each start, from the available products."""
        return self.loss.value(batch)

    def fitting_errors(self, batch: BatchView) -> np.ndarray:
        """Fitting error of each start in percent, from the products at hand."""
        values = self.kernels.to_host(self.value(batch))
        if self.penalty:
            values = np.maximum(0, values - self.penalties(batch.Wt, batch.H))
        return np.array([self.percent(value) for value in values.tolist()])

    def exact_losses(self, Wt: Array, H: Array) -> np.ndarray:
        """The loss of the results of each start, without the penalty, without cancellation."""
        return self.loss.exact_values(self.matrix, Wt, H)

    @property
    def entrywise(self) -> Entrywise:
        """The passes over X of a loss that looks at its entries."""
        return self.loss.entrywise(self.matrix)

    @property
    def size(self) -> float:
        """The value that counts as 100 percent."""
        return self.loss.size(self.matrix)

    def shares(self, Wt: Array, H: Array) -> np.ndarray:
        """How much each component of each start contributes, up to a factor."""
        return self.loss.shares(self.matrix, Wt, H)

    def merge_plans(self, Wt: Array, H: Array, n_components: int) -> Sequence[MergePlan]:
        """How to merge each start down to ``n_components``; held components are not merged."""
        held = self.with_held(H.shape[1]).held
        either = None if held is None else held.either
        return self.loss.merge_plans(self.matrix, Wt, H, n_components, either)

    def merge_percent(self, penalty: float) -> float:
        """A merge penalty in percent."""
        return self.loss.merge_percent(penalty, self.matrix)

    def recoverable(self, r: int, check: Check) -> int:
        """How many components one round of `recover` can add to r."""
        return self.loss.recoverable(self.matrix, r, check)

    def recover(self, Wt: Array, H: Array, k: int, check: Check) -> Recovered:
        """Add up to ``k`` components that X has and WH lacks; held ones are not rescaled.

        Where the solver leaves zeros zero, new components have none.
        """
        r = H.shape[1]
        held = self.with_held(r).held
        fixed = np.zeros(r, dtype=bool) if held is None else held.W
        found = self.loss.recover(self.matrix, Wt, H, k, check, fixed)
        if self.keeps_zeros:
            for F in (found.Wt[:, r:], found.H[:, r:]):
                F += (F == 0) * (_FILLED * F.mean(axis=2, keepdims=True))
        return found

    def weights(self, H: np.ndarray) -> Array:
        """The W ≥ 0 (m × r) of X itself that is best for an H of X itself, with its penalty."""
        return self.loss.weights(self.matrix, H, self.penalty)

    def as_returned(self, Wt: Array, H: Array) -> Factors:
        """The factors of each start as a result has them, where the penalty depends on that."""
        return self.matrix.as_returned(Wt, H) if self.penalty else (Wt, H)

    def penalties(self, Wt: Array, H: Array) -> np.ndarray:
        """The penalty of each start, on the host."""
        host: np.ndarray = self.kernels.to_host(self.penalty.value(Wt, H, self.kernels))
        return host

    def percent(self, value: float) -> float:
        """A loss as a fitting error in percent."""
        return self.loss.percent(value, self.matrix)

    def in_full(self, value: Any) -> Any:
        """A value in the scale of X and of its weights."""
        return self.in_scale(value) * self.matrix.weight_unit

    def in_scale(self, value: Any) -> Any:
        """A value in the scale of X; infinite or zero where that leaves the range of numbers."""
        with np.errstate(over="ignore", under="ignore"):
            for _ in range(self.loss.degree):
                value = value * (self.matrix.unit * self.matrix.unit)
        return value
