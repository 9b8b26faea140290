"""Accelerated HALS: several sweeps per cross product, and extrapolation with restarts.

After Ang & Gillis 2019 (extrapolated HALS) and Gillis & Glineur 2012 (several sweeps). What is new
here: a step whose objective rises is taken back to the last point that was accepted, from where a
plain step cannot rise, so the objective of accepted points never does; and the step rule's
``tol`` is calibrated to mean what it means for HALS.
"""

import numpy as np

from nmfmerge.kernels import extrapolate_
from nmfmerge.solvers.hals import HALS
from nmfmerge.solvers.point import Point, Side

_SWITCH = 1e-2  # plain HALS until components move no more than this: it chooses the basin
_SWEEPS = 4
_BETA = 0.5  # first extrapolation weight
_GROWTH = 1.05  # of the weight, after a step that was accepted
_BOUND_GROWTH = 1.01  # of its bound
_SHRINK = 1.5  # of the weight, after a step that was taken back
_STEP_SCALE = 2.0  # the displacement of the first sweep, over this, compares with HALS's step


class AcceleratedHALS(HALS):
    """Plain HALS at first, then extrapolated HALS with several sweeps per cross product."""

    def __init__(self) -> None:
        super().__init__()
        self._momentum: _Momentum | None = None

    def iterate(self, point: Point) -> float:
        """Update both factors; return the displacement to compare with HALS's."""
        if self._momentum is None:
            step = super().iterate(point)
            if step <= _SWITCH:
                self.n_sweeps = _SWEEPS
                self._momentum = _Momentum(point)
            return step
        return self._iterate_extrapolated(point, self._momentum)

    def settle(self, point: Point) -> None:
        """Go back to the last accepted point if what was cut off is worse."""
        if self._momentum is not None:
            self._momentum.keep_better(point)

    def state(self) -> dict[str, np.ndarray]:
        """The momentum, once there is one."""
        return self._momentum.state() if self._momentum is not None else {}

    def restore(self, point: Point, state: dict[str, np.ndarray]) -> None:
        """Take up the momentum again."""
        if state:
            self.n_sweeps = _SWEEPS
            self._momentum = _Momentum(point)
            self._momentum.restore(state)

    def _iterate_extrapolated(self, point: Point, momentum: "_Momentum") -> float:
        self.clear_steps(point)
        first, second = momentum.sides
        momentum.push(point, second)
        self.update(point, first)
        momentum.push(point, first)
        self.update(point, second)
        if momentum.accepts(point):
            return self.largest_step(point) / _STEP_SCALE
        momentum.restart(point)
        return self._iterate_extrapolated(point, momentum)


class _Momentum:
    """The last accepted point, the last swept factors, and the weight of their difference.

    The first side to be updated is extrapolated before the other is; it needs one more copy than
    the other, so it is the smaller one.
    """

    def __init__(self, point: Point) -> None:
        m, n = point.data.shape
        self.sides: tuple[Side, Side] = ("W", "H") if m <= n else ("H", "W")
        self.swept = {side: point.factor(side).copy() for side in self.sides}
        self.accepted = point.factor(self.sides[0]).copy()
        self.objective = np.inf
        self.weight, self.bound, self.last_weight = _BETA, 1.0, _BETA
        self.resting = True  # the next step is a plain one

    def state(self) -> dict[str, np.ndarray]:
        """Everything, as arrays."""
        scalars = [self.objective, self.weight, self.bound, self.last_weight, self.resting]
        swept = {f"swept {side}": F for side, F in self.swept.items()}
        return {"accepted": self.accepted, "scalars": np.array(scalars, dtype=np.float64), **swept}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Undo `state`; refuse arrays of other names, shapes or types."""
        if _layout(state) != _layout(self.state()):
            raise ValueError(
                "the state of the solver in the checkpoint does not fit the data; delete the "
                "checkpoint to begin anew"
            )
        self.swept = {side: state[f"swept {side}"] for side in self.sides}
        self.accepted = state["accepted"]
        scalars = state["scalars"].tolist()
        self.objective, self.weight, self.bound, self.last_weight = scalars[:4]
        self.resting = bool(scalars[4])

    def push(self, point: Point, side: Side) -> None:
        """Extrapolate one factor along what it moved since it was swept last."""
        F = point.factor(side)
        extrapolate_(F, self.swept[side], F.dtype.type(0 if self.resting else self.weight))
        point.changed(side)

    def accepts(self, point: Point) -> bool:
        """Whether the objective did not rise; if so, this point is the one to go back to."""
        objective = point.objective()
        if objective > self.objective and not self.resting:
            return False
        self.accepted[:] = point.factor(self.sides[0])
        self.objective = objective
        # Near an exact fit the objective is rounding noise and cannot tell a rise: rest.
        self.resting = objective < 1e3 * point.eps * point.data.norm2
        self.last_weight = self.weight
        self.weight = min(self.bound, _GROWTH * self.weight)
        self.bound = min(1.0, _BOUND_GROWTH * self.bound)
        return True

    def restart(self, point: Point) -> None:
        """Go back to the accepted point; the next step from there is plain."""
        self._restore(point)
        self.swept[self.sides[0]][:] = self.accepted
        self.bound = self.last_weight
        self.weight /= _SHRINK
        self.resting = True

    def keep_better(self, point: Point) -> None:
        """Go back to the accepted point if it is better than the present one."""
        present = point.Wt.copy(), point.H.copy(), point.objective()
        self._restore(point)
        if present[2] < point.objective():
            point.Wt[:], point.H[:] = present[:2]
            point.changed("W")
            point.changed("H")

    def _restore(self, point: Point) -> None:
        first, second = self.sides
        point.factor(first)[:] = self.accepted
        point.factor(second)[:] = self.swept[second]
        point.changed(first)
        point.changed(second)


def _layout(state: dict[str, np.ndarray]) -> dict[str, str]:
    return {name: f"{array.dtype}{array.shape}" for name, array in state.items()}
