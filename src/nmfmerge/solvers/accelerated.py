"""Accelerated HALS: several sweeps per cross product, and extrapolation with restarts.

After Ang & Gillis 2019 (extrapolated HALS) and Gillis & Glineur 2012 (several sweeps). What is new
here: if the objective rises, the step is undone and a plain step, which cannot raise it, is taken
from the last accepted point, so the objective of accepted points never rises; near an exact fit,
where the objective is a small difference of large numbers, the rise is summed from its parts; and
the step rule is calibrated so that ``tol`` means what it means for HALS.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from nmfmerge.data import Array
from nmfmerge.kernels import RULE
from nmfmerge.solvers.base import Norms, Solver
from nmfmerge.solvers.hals import HALS
from nmfmerge.solvers.point import Point, Side, other

_SWEEPS = 4
_WEIGHT = 0.5  # of the first extrapolation
_CANCELS = 1e5  # times eps·‖X‖²: a smaller objective is too inexact to compare with another


class AcceleratedHALS(Solver):
    """Extrapolated HALS with several sweeps per cross product, after plain HALS at first.

    Plain HALS decides which optimum is reached. Then every pass is a trial: both factors are
    extrapolated along their last move and swept. A start whose objective rose goes back to where it
    was, and its next pass, without extrapolation, completes the iteration.
    """

    name = "accelerated"
    on_shards = True
    can_wait = True
    warm_up = HALS
    warm_up_tol = 1e-2

    def __init__(self, point: Point) -> None:
        super().__init__(point)
        # The first side to be updated needs one more copy than the other, so it is the smaller one.
        first = point.data.smaller_side
        self.sides: tuple[Side, Side] = (first, other(first))
        self._momentum = _Momentum.at(point, self.sides)
        self._to_host = point.kernels.to_host
        self._untried = True  # the first pass is plain: there is no last move yet
        self._sums_rise = False
        self._decrease: Array = 0.0
        self._fit: Array | None = None

    def update_(self, point: Point, F: Array, G: Array, C: Array) -> Norms:
        """Sweep several times over the components."""
        sweep = point.kernels.hals_sweep_(F, G, C, _SWEEPS, point.active)
        moved, total, self._decrease = sweep[:3]
        self._fit = point.kernels.fit_noted(sweep)
        return moved, total

    def graph_key(self) -> object:
        """The first pass, and those near an exact fit, are not like the others."""
        return self._untried, self._sums_rise

    def look(self, point: Point) -> None:
        """See whether some start is so near an exact fit that the rise must be summed."""
        objective = point.kernels.to_host(self._momentum.objective)
        self._sums_rise = bool((objective < self._limit(point)).any())

    def iterate(self, point: Point) -> Array:
        """Try a step from every start; return the displacement to compare with HALS's."""
        k, momentum = point.kernels, self._momentum
        first, second = self.sides
        weight = momentum.next_weight()
        if point.active is not None:
            weight *= point.active
        self.clear_steps(point)
        # The products of a long factor come with its sweep, for what it is extrapolated to next.
        if point.data.defers(first):
            k.foresee_(point.factor(first), weight, self._sums_rise)
        if point.data.defers(second):
            k.foresee_(point.factor(second), momentum.weight_if_accepted(), self._sums_rise)
        rise = self._push(point, second, weight)
        rise = self._sweep(point, first, rise)
        rise = self._push(point, first, weight, rise)
        rise = self._sweep(point, second, rise)
        self._untried = False
        step = k.judge_(
            momentum, point.fit(second, self._fit), point.gram("W"), point.gram("H"), self._ratio,
            point.data.norm2, rise, self._limit(point), point.negligible, point.active,
        )  # fmt: skip
        k.settle_(
            point.factor(first), point.factor(second), momentum.accepted,
            momentum.swept[second], momentum.taken_back,
        )  # fmt: skip
        return step

    def passes(self, point: Point, tol: float, n: int) -> np.ndarray:
        """Iterate ``n`` times, and note where products are not those of the point any more."""
        steps = super().passes(point, tol, n)
        if np.isnan(steps[-1]).any():  # factors were put back
            point.changed("W")
            point.changed("H")
        if any(point.data.defers(side) for side in self.sides):
            point.know_objective(self._momentum.objective)  # else it would cost a pass
        return steps

    def _limit(self, point: Point) -> float:
        return _CANCELS * point.eps * point.data.norm2

    def _sweep(self, point: Point, side: Side, rise: Array | None) -> Array | None:
        """Sweep over one factor; return ``rise`` less what the objective fell by."""
        self._decrease, self._fit = 0.0, None
        self.update(point, side)
        return None if rise is None else rise - self._decrease

    def _push(
        self, point: Point, side: Side, weight: Array, rise: Array | None = None
    ) -> Array | None:
        """Extrapolate one factor along its last move; add what the objective rises by."""
        F, swept = point.factor(side), self._momentum.swept[side]
        if self._untried:
            swept[:] = F
            return None
        point.kernels.extrapolate_(F, swept, weight)
        if self._sums_rise:
            more = point.kernels.rise(*point.subproblem(side), point.free(side, swept))
            rise = more if rise is None else rise + more
        point.changed(side)
        return rise

    def tidy_(self, point: Point) -> None:
        """Go back to the last accepted point where the present one is worse."""
        to_host, momentum = point.kernels.to_host, self._momentum
        cut_off = [point.kernels.copy(point.factor(side)) for side in self.sides]
        objectives = to_host(point.objective())
        accepted = (momentum.accepted, momentum.swept[self.sides[1]])
        for side, F in zip(self.sides, accepted, strict=True):
            point.factor(side)[:] = F
            point.changed(side)
        better = np.flatnonzero(objectives < to_host(point.objective())).tolist()
        for side, F in zip(self.sides, cut_off, strict=True):
            point.factor(side)[better] = F[better]
            point.changed(side)

    def select(self, point: Point, rows: Sequence[int]) -> None:
        """Keep the momentum of some starts only."""
        super().select(point, rows)
        self._momentum = self._momentum.select(point, rows)

    def state(self) -> dict[str, np.ndarray]:
        """The momentum, on the host."""
        return {name: self._to_host(A) for name, A in self._momentum.as_arrays().items()}

    def continue_from(self, point: Point, state: dict[str, np.ndarray]) -> None:
        """Take up the momentum of another solver."""
        placed = {name: point.kernels.from_host(A, point.H) for name, A in state.items()}
        self._momentum = _Momentum.from_arrays(placed)
        for side in self.sides:
            if point.data.defers(side):  # it was found again, at rest
                self._momentum.swept[side] = point.kernels.copy(point.factor(side))
                if side == self.sides[0]:
                    self._momentum.accepted = point.kernels.copy(point.factor(side))
        self._untried = False


@dataclass
class _Momentum:
    """The last accepted point, the last swept factors, and the weight of their difference.

    Of the accepted point, the factor that is updated first is kept in ``accepted``, the other in
    ``swept``. Everything else is a number for each start.
    """

    swept: dict[Side, Array]
    accepted: Array
    objective: Array
    weight: Array
    bound: Array
    last_weight: Array
    rest: Array  # whether the next step is not extrapolated
    taken_back: Array  # whether the last step was

    @classmethod
    def at(cls, point: Point, sides: tuple[Side, Side]) -> "_Momentum":
        """The momentum of a point at rest."""
        starts = (np.inf, _WEIGHT, 1.0, _WEIGHT, True, False)
        return cls(
            {side: point.kernels.copy(point.factor(side)) for side in sides},
            point.kernels.copy(point.factor(sides[0])),
            *(point.kernels.numbers(point.n_starts, value, point.H) for value in starts),
        )

    def next_weight(self) -> Array:
        """The weight of the next extrapolation, zero where the point rests."""
        return self.weight * ~self.rest

    def weight_if_accepted(self) -> np.ndarray:
        """The weight of the extrapolation after the next, as `kernels.judge_` would have it."""
        return np.minimum(self.bound, RULE.growth * self.weight)

    def select(self, point: Point, rows: Sequence[int]) -> "_Momentum":
        """The momentum of some starts."""
        take = point.kernels.take
        swept = {side: take(F, rows) for side, F in self.swept.items()}
        return _Momentum(swept, *(take(getattr(self, name), rows) for name in _ARRAYS))

    def as_arrays(self) -> dict[str, Array]:
        """Everything, as arrays."""
        own = {name.replace("_", " "): getattr(self, name) for name in _ARRAYS}
        return own | {f"swept {side}": F for side, F in self.swept.items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array]) -> "_Momentum":
        """Undo `as_arrays`."""
        swept: dict[Side, Any] = {side: arrays[f"swept {side}"] for side in ("W", "H")}
        return cls(swept, *(arrays[name.replace("_", " ")] for name in _ARRAYS))


_ARRAYS = [field.name for field in fields(_Momentum) if field.name != "swept"]
