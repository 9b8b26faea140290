"""L1 and L2 penalties on the factors, scaled as scikit-learn scales them.

The penalty is l1_W·ΣW + l1_H·ΣH + ½·l2_W·‖W‖² + ½·l2_H·‖H‖². In the subproblem of one factor F,
``min ½⟨F, G F⟩ − ⟨C, F⟩``, L2 adds to the diagonal of G and L1 is taken off C, so solvers need not
know of either.
"""

from dataclasses import dataclass, replace
from typing import Any

from nmfmerge.matrices import Array, Side


@dataclass(frozen=True)
class Penalty:
    """Weights of the penalties on W and H; false if all are zero."""

    l1_W: float = 0.0
    l2_W: float = 0.0
    l1_H: float = 0.0
    l2_H: float = 0.0

    @classmethod
    def of(
        cls, alpha_W: float, alpha_H: float | str, l1_ratio: float, shape: tuple[int, int]
    ) -> "Penalty":
        """Penalties from the parameters of scikit-learn's ``NMF`` for an X of this shape.

        W is penalised by ``alpha_W`` times the columns of X, H by ``alpha_H`` times its rows, so
        that the penalty keeps its weight beside the loss, whatever the size of X.
        """
        m, n = shape
        on_W = alpha_W * n
        on_H = (alpha_W if alpha_H == "same" else float(alpha_H)) * m
        return cls(l1_ratio * on_W, (1 - l1_ratio) * on_W, l1_ratio * on_H, (1 - l1_ratio) * on_H)

    def __bool__(self) -> bool:
        return any((self.l1_W, self.l2_W, self.l1_H, self.l2_H))

    def l1(self, side: Side) -> float:
        """Weight of the sum of one factor."""
        return self.l1_W if side == "W" else self.l1_H

    def l2(self, side: Side) -> float:
        """Weight of half the squared norm of one factor."""
        return self.l2_W if side == "W" else self.l2_H

    def scaled(self, unit: float, degree: int, weight_unit: float = 1.0) -> "Penalty":
        """The same penalty for factors that were divided by ``unit``, of X / unit².

        The weights of the loss may have been divided by ``weight_unit``.
        """
        if weight_unit != 1:
            own = (self.l1_W, self.l2_W, self.l1_H, self.l2_H)
            self = Penalty(*(weight / weight_unit for weight in own))
        for _ in range(2 * degree - 2):  # one at a time: a power may leave the range of numbers
            self = replace(self, l2_W=self.l2_W / unit, l2_H=self.l2_H / unit)
        for _ in range(2 * degree - 1):
            self = replace(self, l1_W=self.l1_W / unit, l1_H=self.l1_H / unit)
        return self

    def value(self, Wt: Array, H: Array, kernels: Any) -> Array:
        """The penalty of each start, small."""
        total = kernels.numbers(len(H), 0.0, H)
        factors: dict[Side, Array] = {"W": Wt, "H": H}
        for side, F in factors.items():
            if self.l1(side):
                total = total + self.l1(side) * kernels.sums(F)
            if self.l2(side):
                squares = kernels.diagonals(kernels.gram64(F)).sum(axis=1)
                total = total + 0.5 * self.l2(side) * squares
        return total


NO_PENALTY = Penalty()
