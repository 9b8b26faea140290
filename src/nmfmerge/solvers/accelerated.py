"""Accelerated HALS: several sweeps per cross product, and extrapolation with restarts.

After Ang & Gillis 2019 (extrapolated HALS) and Gillis & Glineur 2012 (several sweeps). What is new
here: if the objective rises, the step is undone and a plain step, which cannot raise it, is taken
from the last accepted point, so the objective of accepted points never rises; near an exact fit,
where the objective is a small difference of large numbers, the rise is summed from its parts; and
the step rule is calibrated so that ``tol`` means what it means for HALS.
"""

from dataclasses import dataclass

import numpy as np

from nmfmerge.kernels import extrapolate_, hals_sweep_, inner_product
from nmfmerge.solvers.hals import HALS
from nmfmerge.solvers.point import Point, Side

_SWITCH = 1e-2  # plain HALS until no component moves more: it decides which optimum is reached
_SWEEPS = 4
_WEIGHT = 0.5  # of the first extrapolation
_GROWTH = 1.05  # of the weight, after a step that was accepted
_BOUND_GROWTH = 1.01  # of its bound
_SHRINK = 1.5  # of the weight, after a step that was taken back
_STEP_SCALE = 2.0  # the displacement of the first sweep, over this, compares with HALS's step
_COLUMNS = 1024  # at a time, so that what is computed of them is small beside a factor
_CANCELS = 1e5  # times eps·‖X‖²: a smaller objective is too inexact to compare with another


class AcceleratedHALS(HALS):
    """Plain HALS at first, then extrapolated HALS with several sweeps per cross product."""

    def __init__(self) -> None:
        super().__init__()
        self._momentum: _Momentum | None = None

    def iterate(self, point: Point) -> float:
        """Update both factors; return the displacement to compare with HALS's."""
        if self._momentum is not None:
            self._extrapolated_step(point, self._momentum)
            return self.largest_step(point) / _STEP_SCALE
        step = super().iterate(point)
        if step <= _SWITCH:
            self._momentum = _Momentum.at(point)
        return step

    def tidy_(self, point: Point) -> None:
        """Go back to the last accepted point if the present one is worse."""
        if self._momentum is not None:
            cut_off = point.Wt.copy(), point.H.copy(), point.objective()
            self._momentum.go_back_(point)
            if cut_off[2] < point.objective():
                point.replace(*cut_off[:2])

    def state(self) -> dict[str, np.ndarray]:
        """The momentum, once there is one."""
        return self._momentum.as_arrays() if self._momentum is not None else {}

    def continue_from(self, point: Point, state: dict[str, np.ndarray]) -> None:
        """Take up the momentum of another solver."""
        self._momentum = _Momentum.from_arrays(point, state) if state else None

    def _extrapolated_step(self, point: Point, momentum: "_Momentum") -> None:
        """Extrapolate and sweep; if the objective rises, go back and sweep from there instead."""
        if momentum.rest:
            self._try(point, momentum, 0.0)
        elif self._try(point, momentum, momentum.weight) > 0:
            momentum.restart_(point)
            self._try(point, momentum, 0.0)
        momentum.accept_(point)

    def _try(self, point: Point, momentum: "_Momentum", weight: float) -> float:
        """One iteration over both factors; return by how much the objective rose."""
        cancels = momentum.objective < _CANCELS * point.eps * point.data.norm2
        first, second = momentum.sides
        self.clear_steps(point)
        rise = self._push(point, momentum, second, weight, cancels)
        rise -= self._sweep(point, first)
        rise += self._push(point, momentum, first, weight, cancels)
        rise -= self._sweep(point, second)
        return rise if cancels else point.objective() - momentum.objective

    def _sweep(self, point: Point, side: Side) -> float:
        """Sweep over one factor; return by how much the objective fell."""
        F, G, C = point.subproblem(side)
        if len(F) == 0:  # all are held
            return 0.0
        moved, total, decrease = hals_sweep_(F, G, C, _SWEEPS)
        self.note_steps(point, side, moved, total)
        point.put(side, F)
        return decrease

    def _push(
        self, point: Point, momentum: "_Momentum", side: Side, weight: float, cancels: bool
    ) -> float:
        """Extrapolate one factor along its last move; return the rise of the objective if asked."""
        F, swept = point.factor(side), momentum.swept[side]
        if weight == 0:
            swept[:] = F
            return 0.0
        extrapolate_(F, swept, F.dtype.type(weight))
        rise = _rise(*point.subproblem(side), point.free(side, swept)) if cancels else 0.0
        point.changed(side)
        return rise


def _rise(F: np.ndarray, G: np.ndarray, C: np.ndarray, old: np.ndarray) -> float:
    """½⟨F, G F⟩ − ⟨C, F⟩ less its value at ``old``: the gradient between the two, along the step.

    Rounding is relative to the step here, not to the objective.
    """
    rise = 0.0
    for start in range(0, F.shape[1], _COLUMNS):
        part = slice(start, start + _COLUMNS)
        new, before = F[:, part], old[:, part]
        gradient = G @ (F.dtype.type(0.5) * (new + before)) - C[:, part]
        rise += inner_product(gradient, new - before)
    return rise


@dataclass
class _Momentum:
    """The last accepted point, the last swept factors, and the weight of their difference.

    The first of the two sides to be updated is extrapolated before the other is. It needs one more
    copy than the other (``accepted``), so it is the smaller one.
    """

    sides: tuple[Side, Side]
    swept: dict[Side, np.ndarray]
    accepted: np.ndarray
    objective: float = np.inf
    weight: float = _WEIGHT
    bound: float = 1.0
    last_weight: float = _WEIGHT
    rest: bool = True  # the first step is plain: there is no last move yet

    @classmethod
    def at(cls, point: Point) -> "_Momentum":
        m, n = point.data.shape
        sides: tuple[Side, Side] = ("W", "H") if m <= n else ("H", "W")
        swept = {side: point.factor(side).copy() for side in sides}
        return cls(sides, swept, accepted=point.factor(sides[0]).copy())

    def accept_(self, point: Point) -> None:
        """Make the present point the one to go back to, and extrapolate further from it."""
        self.accepted[:] = point.factor(self.sides[0])
        self.objective = point.objective()
        self.rest = False
        self.last_weight = self.weight
        self.weight = min(self.bound, _GROWTH * self.weight)
        self.bound = min(1.0, _BOUND_GROWTH * self.bound)

    def restart_(self, point: Point) -> None:
        """Go back to the accepted point, and extrapolate less from there."""
        self.go_back_(point)
        self.bound = self.last_weight
        self.weight /= _SHRINK

    def go_back_(self, point: Point) -> None:
        """Put the accepted point in place."""
        first, second = self.sides
        accepted = {first: self.accepted, second: self.swept[second]}
        point.replace(accepted["W"], accepted["H"])

    def as_arrays(self) -> dict[str, np.ndarray]:
        """Everything, as arrays."""
        scalars = [self.objective, self.weight, self.bound, self.last_weight, self.rest]
        return {
            "scalars": np.array(scalars, dtype=np.float64),
            "accepted": self.accepted,
            **{f"swept {side}": F for side, F in self.swept.items()},
        }

    @classmethod
    def from_arrays(cls, point: Point, arrays: dict[str, np.ndarray]) -> "_Momentum":
        """Undo `as_arrays`; refuse arrays of other names, shapes or types."""
        momentum = cls.at(point)
        if _layout(arrays) != _layout(momentum.as_arrays()):
            raise ValueError(
                "the state of the solver in the checkpoint does not fit the data; delete the "
                "checkpoint to begin anew"
            )
        objective, weight, bound, last_weight, rest = arrays["scalars"].tolist()
        swept = {side: arrays[f"swept {side}"] for side in momentum.sides}
        return cls(
            momentum.sides, swept, arrays["accepted"],
            objective, weight, bound, last_weight, bool(rest),
        )  # fmt: skip


def _layout(arrays: dict[str, np.ndarray]) -> dict[str, str]:
    return {name: f"{array.dtype}{array.shape}" for name, array in arrays.items()}
