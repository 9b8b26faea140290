"""Extrapolation along the last move, with restarts: the base of the accelerated solvers.

After Ang & Gillis 2019. A step that raised the objective is undone, and the next one, without
extrapolation, cannot raise it.
"""

from dataclasses import dataclass

import numpy as np

from nmfmerge.backends.numba import RULE
from nmfmerge.matrices import Array
from nmfmerge.solvers.base import Solver
from nmfmerge.solvers.batch import Batch, Side, other
from nmfmerge.solvers.state import SolverState

_WEIGHT = 0.5  # of the first extrapolation


@dataclass
class Momentum(SolverState):
    """The last accepted point, the last swept factors, and the weight of their difference.

    Of the accepted point, the factor that is updated first is kept in ``accepted``, the other in
    ``swept_W`` or ``swept_H``. Everything else is a number for each start.
    """

    swept_W: Array
    swept_H: Array
    accepted: Array
    objective: Array
    weight: Array
    bound: Array
    last_weight: Array
    rest: Array  # whether the next step is not extrapolated
    taken_back: Array  # whether the last step was

    @classmethod
    def at(cls, batch: Batch, first: Side) -> "Momentum":
        """The momentum of a point at rest; ``first`` is the side that is updated first."""
        starts = (np.inf, _WEIGHT, 1.0, _WEIGHT, True, False)
        return cls(
            *(batch.kernels.copy(batch.factor(side)) for side in ("W", "H", first)),
            *(batch.kernels.numbers(batch.n_starts, value, batch.H) for value in starts),
        )

    def swept(self, side: Side) -> Array:
        """The last swept factor of a side."""
        return self.swept_W if side == "W" else self.swept_H

    def next_weight(self) -> Array:
        """The weight of the next extrapolation, zero where the point rests."""
        return self.weight * ~self.rest

    def weight_if_accepted(self) -> np.ndarray:
        """The weight of the extrapolation after the next one, if this step is accepted."""
        return np.minimum(self.bound, RULE.growth * self.weight)


class Extrapolated(Solver):
    """A solver that extrapolates both factors; every pass of it is a trial.

    Where the objective rose, a start goes back to where it was, and its next pass, without
    extrapolation, completes the iteration.
    """

    state: Momentum
    sides: tuple[Side, Side]  # in the order of their updates

    def initial_state(self, batch: Batch) -> Momentum:
        """At rest. The side updated first needs one more copy, so it is the smaller one."""
        first = batch.data.smaller_side
        self.sides = (first, other(first))
        return Momentum.at(batch, first)

    def push(self, batch: Batch, side: Side, weight: Array) -> None:
        """Extrapolate one factor along its last move."""
        batch.kernels.extrapolate_(batch.factor(side), self.state.swept(side), weight)
        batch.changed(side)

    def tidy_(self, batch: Batch) -> None:
        """Go back to the last accepted point where the present one is worse."""
        to_host, momentum = batch.kernels.to_host, self.state
        cut_off = [batch.kernels.copy(batch.factor(side)) for side in self.sides]
        objectives = to_host(batch.value())
        accepted = (momentum.accepted, momentum.swept(self.sides[1]))
        for side, F in zip(self.sides, accepted, strict=True):
            batch.factor(side)[:] = F
            batch.changed(side)
        better = np.flatnonzero(objectives < to_host(batch.value())).tolist()
        for side, F in zip(self.sides, cut_off, strict=True):
            batch.factor(side)[better] = F[better]
            batch.changed(side)

    def continue_from(self, batch: Batch, arrays: dict[str, np.ndarray]) -> None:
        """Continue with the momentum of another solver; factors in shards restart at rest."""
        super().continue_from(batch, arrays)
        for side in self.sides:
            if batch.data.is_sharded(side):
                found = batch.kernels.copy(batch.factor(side))
                setattr(self.state, f"swept_{side}", found)
                if side == self.sides[0]:
                    self.state.accepted = batch.kernels.copy(found)
