"""Solvers for losses that look at the entries of X: coordinate descent, extrapolated, and MU.

The loss gives the passes over X, of which no sweep raises the objective; see `Entrywise`.
Extrapolation and its restarts are those of `AcceleratedHALS`; the objective comes with the second
sweep.
"""

import numpy as np

from nmfmerge.losses import Form
from nmfmerge.matrices import Array
from nmfmerge.solvers.base import Solver
from nmfmerge.solvers.batch import Batch, Side, other
from nmfmerge.solvers.compiled_sweeps import compiled_sweeps
from nmfmerge.solvers.momentum import Extrapolated

_NOISE = 8  # times the rounding of a value: a difference of objectives that may be rounding


class EntrywiseSolver(Solver):
    """Base of the solvers for such losses: which components count, and how far they moved."""

    requires = Form.ENTRIES

    def note(self, batch: Batch, moved: Array, total: Array) -> None:
        """Note how far the components of a factor moved; those that are held do not."""
        batch.kernels.note_steps_(self._ratio, moved, total)

    def largest_step(self, batch: Batch) -> Array:
        """Largest displacement of a component that has more than a negligible part of the fit."""
        sizes = batch.problem.entrywise.sizes(batch.Wt, batch.H)
        return batch.kernels.largest_ratio(self._ratio, sizes, batch.negligible)


class Sweeps(EntrywiseSolver):
    """Coordinate descent, W first."""

    name = "sweeps"
    needs = frozenset()  # factors may be in shards
    supports_inactive_starts = True

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        held = batch.problem.held
        self._free: dict[Side, Array] = {"W": None, "H": None}
        if held is not None:
            self._free["W"] = batch.kernels.from_host(~held.W, batch.H)
            self._free["H"] = batch.kernels.from_host(~held.H, batch.H)

    def update(self, batch: Batch, side: Side) -> None:
        """Sweep once over all coordinates of a side."""
        self.sweep(batch, side)

    def passes(self, batch: Batch, tol: float, n: int) -> np.ndarray:
        """Iterate up to ``n`` times, in compiled code if X is small."""
        steps = compiled_sweeps(batch, self.order, self._free, 1, None, 0.0, tol, n)
        return super().passes(batch, tol, n) if steps is None else steps

    def sweep(self, batch: Batch, side: Side, value: bool = False, n_sweeps: int = 1) -> Array:
        """Sweep over a side; return what the value of each start needs, if it is asked for."""
        penalty = batch.problem.penalty
        moved, total, seen = batch.problem.entrywise.sweep_(
            side, batch.factor(side), batch.factor(other(side)), n_sweeps=n_sweeps, value=value,
            free=self._free[side], l1=penalty.l1(side), l2=penalty.l2(side), active=batch.active,
        )  # fmt: skip
        self.note(batch, moved, total)
        batch.changed(side)
        return seen


class Multiplicative(EntrywiseSolver):
    """Multiplicative updates, step for step those of scikit-learn; zeros stay zero."""

    name = "mu"

    def update(self, batch: Batch, side: Side) -> None:
        """Update one side."""
        penalty, held = batch.problem.penalty, batch.problem.held
        F = batch.factor(side)
        kept = batch.kernels.copy(F) if held is not None else F
        moved, total = batch.problem.entrywise.mu_step_(
            side, F, batch.factor(other(side)), l1=penalty.l1(side), l2=penalty.l2(side)
        )
        if held is not None:
            fixed = held.W if side == "W" else held.H
            F[:, fixed] = kept[:, fixed]
            moved[:, fixed] = 0
        self.note(batch, moved, total)
        batch.changed(side)


class AcceleratedSweeps(Extrapolated, Sweeps):
    """Extrapolated coordinate descent with restarts, after plain sweeps at first."""

    name = "accelerated"
    warm_up = Sweeps
    warm_up_tol = 1e-2

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        self._n_sweeps = batch.problem.entrywise.n_sweeps(batch.n_components)
        self._noise = _NOISE * batch.eps * batch.problem.entrywise.total

    def iterate(self, batch: Batch) -> Array:
        """Try a step from every start; return the displacement to compare with plain sweeps."""
        k, momentum = batch.kernels, self.state
        first, second = self.sides
        weight = momentum.next_weight()
        if batch.active is not None:
            weight *= batch.active
        self.clear_steps(batch)
        # The products of a long factor come with its sweep, for what it is extrapolated to next.
        if batch.data.is_sharded(first):
            k.foresee_(batch.factor(first), weight, False)
        if batch.data.is_sharded(second):
            k.foresee_(batch.factor(second), momentum.weight_if_accepted(), False)
        self.push(batch, second, weight)
        self.sweep(batch, first, n_sweeps=self._n_sweeps)
        self.push(batch, first, weight)
        seen = self.sweep(batch, second, True, self._n_sweeps)
        entrywise = batch.problem.entrywise
        now = entrywise.value(batch.Wt, batch.H, seen).clip(min=0.0)
        now = now + batch.problem.penalty.value(batch.Wt, batch.H, k)
        step = k.judge_values_(momentum, now, self.largest_step(batch), self._noise, batch.active)
        k.settle_(
            batch.factor(first), batch.factor(second), momentum.accepted,
            momentum.swept(second), momentum.taken_back,
        )  # fmt: skip
        return step

    def passes(self, batch: Batch, tol: float, n: int) -> np.ndarray:
        """Iterate up to ``n`` times; the objective comes with them."""
        steps = compiled_sweeps(
            batch, self.sides, self._free, self._n_sweeps, self.state, self._noise, tol, n
        )
        if steps is None:
            steps = Solver.passes(self, batch, tol, n)
        batch.know_value(self.state.objective)
        return steps
