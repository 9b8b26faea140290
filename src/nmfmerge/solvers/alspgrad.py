"""ALSPGrad: alternating least squares by projected gradients (Lin 2007)."""

from collections.abc import Sequence
from typing import Any

from nmfmerge.matrices import Array
from nmfmerge.solvers.base import GramSolver, Norms
from nmfmerge.solvers.batch import Batch, Side


class ALSPGrad(GramSolver):
    """Each factor by projected gradient with Lin's step search, H first.

    A subproblem is solved to a tenth of the projected-gradient norm it begins with, or of the norm
    at zero if that is less: otherwise a start that is far too large would end at zero, where
    nothing moves. Unlike an absolute tolerance this does not depend on the scale of X, and every
    iteration makes progress until there is nothing to gain.

    Each subproblem is solved as if G had a unit diagonal: with D = diag(G)^½, the steps and norms
    are those of Lin on F' = D F, G' = D⁻¹ G D⁻¹, C' = D⁻¹ C. The result then does not depend on how
    the size of a component is shared between W and H. Nothing is copied for this: a step of length
    α on F' is one of length α/G_tt on row t of F, and slope and curve are the same for both.
    """

    name = "alspgrad"
    order = ("H", "W")
    supports_inactive_starts = True
    can_be_recorded = False

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        self._room: dict[Any, Any] = {}

    def update_(self, batch: Batch, side: Side, F: Array, G: Array, C: Array) -> Norms:
        """Solve the nonnegative least-squares subproblems to the tolerance of this solver."""
        return batch.kernels.descend_(F, G, C, self._room, batch.active)

    def select(self, batch: Batch, rows: Sequence[int]) -> None:
        """Keep some of the starts only."""
        super().select(batch, rows)
        self._room = {}
