"""Accelerated HALS: several sweeps per cross product, and extrapolation with restarts.

After Ang & Gillis 2019 (extrapolated HALS) and Gillis & Glineur 2012 (several sweeps). New
here: if the objective rises, the step is undone and a plain step, which cannot raise it, is taken
from the last accepted point, so the objective of accepted points never rises; near an exact fit,
where the objective is a small difference of large numbers, the rise is summed from its parts; and
the step rule is calibrated so that ``tol`` means what it means for HALS.
"""

import numpy as np

from nmfmerge.losses import FROBENIUS
from nmfmerge.matrices import Array
from nmfmerge.solvers.base import Norms, Solver
from nmfmerge.solvers.batch import Batch, Side
from nmfmerge.solvers.compiled import CANCELS, compiled_passes
from nmfmerge.solvers.hals import HALS
from nmfmerge.solvers.momentum import Extrapolated


class AcceleratedHALS(Extrapolated, HALS):
    """Extrapolated HALS with several sweeps per cross product, after plain HALS at first.

    Plain HALS decides which optimum is reached.
    """

    name = "accelerated"
    needs = frozenset()  # factors may be in shards
    n_sweeps = 4
    warm_up: type[Solver] | None = HALS
    warm_up_tol = 1e-2

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        self._untried = True  # the first pass is plain: there is no last move yet
        self._sums_rise = False
        self._decrease: Array = 0.0
        self._fit: Array | None = None

    def update_(self, batch: Batch, side: Side, F: Array, G: Array, C: Array) -> Norms:
        """Sweep several times over the components."""
        sweep = batch.kernels.hals_sweep_(F, G, C, self.n_sweeps, batch.active)
        moved, total, self._decrease = sweep[:3]
        self._fit = batch.kernels.fit_noted(sweep)
        return moved, total

    def graph_key(self) -> object:
        """The first pass, and passes near an exact fit, consist of other operations."""
        return self._untried, self._sums_rise

    def before_pass(self, batch: Batch) -> None:
        """Check if some start is so near an exact fit that the rise must be summed."""
        objective = batch.kernels.to_host(self.state.objective)
        self._sums_rise = bool((objective < self._limit(batch)).any())

    def iterate(self, batch: Batch) -> Array:
        """Try a step from every start; return the displacement to compare with HALS's."""
        k, momentum = batch.kernels, self.state
        first, second = self.sides
        weight = momentum.next_weight()
        if batch.active is not None:
            weight *= batch.active
        self.clear_steps(batch)
        # The products of a long factor come with its sweep, for what it is extrapolated to next.
        if batch.data.is_sharded(first):
            k.foresee_(batch.factor(first), weight, self._sums_rise)
        if batch.data.is_sharded(second):
            k.foresee_(batch.factor(second), momentum.weight_if_accepted(), self._sums_rise)
        rise = self._push(batch, second, weight)
        rise = self._sweep(batch, first, rise)
        rise = self._push(batch, first, weight, rise)
        rise = self._sweep(batch, second, rise)
        self._untried = False
        step = k.judge_(
            momentum, batch.fit(second, self._fit), batch.gram("W"), batch.gram("H"), self._ratio,
            FROBENIUS.constant(batch), rise, self._limit(batch), batch.negligible, batch.active,
        )  # fmt: skip
        k.settle_(
            batch.factor(first), batch.factor(second), momentum.accepted,
            momentum.swept(second), momentum.taken_back,
        )  # fmt: skip
        return step

    def passes(self, batch: Batch, tol: float, n: int) -> np.ndarray:
        """Iterate up to ``n`` times, and note where factors were put back."""
        steps = compiled_passes(batch, self.sides[0], self.n_sweeps, self.state, tol, n)
        if steps is not None:
            self._untried = False
            return steps
        steps = Solver.passes(self, batch, tol, n)
        if np.isnan(steps[-1]).any():  # factors were put back
            batch.changed("W")
            batch.changed("H")
        if any(batch.data.is_sharded(side) for side in self.sides):
            batch.know_value(self.state.objective)  # else it would cost a pass
        return steps

    def _limit(self, batch: Batch) -> float:
        return CANCELS * batch.eps * 2 * FROBENIUS.size(batch.data)

    def _sweep(self, batch: Batch, side: Side, rise: Array | None) -> Array | None:
        """Sweep over one factor; return ``rise`` minus the decrease of the objective."""
        self._decrease, self._fit = 0.0, None
        self.update(batch, side)
        return None if rise is None else rise - self._decrease

    def _push(
        self, batch: Batch, side: Side, weight: Array, rise: Array | None = None
    ) -> Array | None:
        """Extrapolate one factor along its last move; add the rise of the objective."""
        F, swept = batch.factor(side), self.state.swept(side)
        if self._untried:
            swept[:] = F
            return None
        batch.kernels.extrapolate_(F, swept, weight)
        if self._sums_rise:
            more = batch.kernels.rise(*batch.subproblem(side), batch.free(side, swept))
            rise = more if rise is None else rise + more
        batch.changed(side)
        return rise

    def continue_from(self, batch: Batch, arrays: dict[str, np.ndarray]) -> None:
        """Continue with the momentum of another solver."""
        super().continue_from(batch, arrays)
        self._untried = False
