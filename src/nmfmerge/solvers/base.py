"""Base class of solvers: the order of the two updates, the update of one factor, the step rule."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nmfmerge.backends.interface import Capability
from nmfmerge.losses import Form
from nmfmerge.matrices import Array
from nmfmerge.matrices.offers import Need
from nmfmerge.solvers.batch import Batch, Side
from nmfmerge.solvers.state import SolverState

Norms = tuple[Array, Array]


class Solver(ABC):
    """An algorithm that improves the starts of a `Batch`, one factor after the other.

    A solver is made for one stage of a run. What it keeps between its iterations is in ``state``.
    Every operation is done for all starts of the batch, and no start depends on another.
    """

    order: tuple[Side, Side] = ("W", "H")
    warm_up: "type[Solver] | None" = None  # the solver that runs first
    warm_up_tol = 0.0  # its tolerance
    name = ""  # in arguments
    requires: ClassVar[Form]  # of the loss
    needs: ClassVar[frozenset[Need]] = frozenset({Need.FACTORS})  # of X
    supports_inactive_starts = False  # whether it skips starts outside `Batch.active`
    can_be_recorded = True  # whether a GPU can record and replay a pass: it reads no values
    graph: Any = None  # of a pass that a device has recorded

    def __init__(self, batch: Batch) -> None:
        self._ratio = _no_steps(batch)
        self.state = self.initial_state(batch)

    def initial_state(self, batch: Batch) -> SolverState:
        """The state at the beginning; by default there is nothing to keep."""
        return SolverState()

    def iterate(self, batch: Batch) -> Array:
        """Update both factors; return the largest relative displacement of a component.

        One number for each start, NaN where an iteration was undone and must be repeated.
        """
        self.clear_steps(batch)
        for side in self.order:
            self.update(batch, side)
        return self.largest_step(batch)

    def passes(self, batch: Batch, tol: float, n: int) -> np.ndarray:
        """Iterate up to ``n`` times, at least once; return the steps (passes × n_starts).

        They are NaN where there was no iteration. A start whose step is at most ``tol`` does not
        change any more.
        """
        self.before_pass(batch)
        queues = Capability.QUEUE in batch.kernels.capabilities
        if n == 1 or not (queues and self.supports_inactive_starts):
            return batch.kernels.to_host(self.iterate(batch))[None]
        return batch.kernels.several_passes(self, batch, tol, n)

    def graph_key(self) -> object:
        """The settings that determine the operations of a pass."""
        return None

    def before_pass(self, batch: Batch) -> None:  # noqa: B027
        """Called between passes, when values may be read; by default nothing is done."""

    @abstractmethod
    def update(self, batch: Batch, side: Side) -> None:
        """Update one factor and note how far its components moved."""

    def clear_steps(self, batch: Batch) -> None:
        """Forget how far components moved."""
        self._ratio[:] = 0

    def note_steps(self, batch: Batch, side: Side, moved: Array, total: Array) -> None:
        """Note how far the components of a subproblem moved."""
        moved, total = batch.of_all(side, moved), batch.of_all(side, total)
        batch.kernels.note_steps_(self._ratio, moved, total)

    def largest_step(self, batch: Batch) -> Array:
        """Largest relative displacement noted, of a component that counts."""
        WtW, HHt = batch.gram("W"), batch.gram("H")
        return batch.kernels.largest_step(self._ratio, WtW, HHt, batch.negligible)

    def select(self, batch: Batch, rows: Sequence[int]) -> None:
        """Keep some of the starts only: those of ``batch``."""
        self.graph = None
        self._ratio = _no_steps(batch)
        self.state = self.state.select(rows, batch.kernels)

    def tidy_(self, batch: Batch) -> None:  # noqa: B027
        """Mend ``batch`` after an iteration was cut off; by default nothing is broken."""

    def continue_from(self, batch: Batch, arrays: dict[str, np.ndarray]) -> None:
        """Continue from the state of a solver that stopped at ``batch``."""
        self.state = self.state.taken_up(arrays, batch.kernels, batch.H)


class GramSolver(Solver):
    """A solver for the squared error, which knows X by Grams and cross products alone."""

    requires = Form.GRAMS

    def update(self, batch: Batch, side: Side) -> None:
        """Update one factor and note how far its components moved."""
        F, G, C = batch.subproblem(side)
        if F.shape[1] > 0:  # else all are held
            if batch.problem.penalty.l1(side):  # nothing is left where the partner is zero
                F *= (batch.kernels.diagonals(G) > 0)[:, :, None]
            moved, total = self.update_(batch, side, F, G, C)
            self.note_steps(batch, side, moved, total)
            batch.put(side, F)

    @abstractmethod
    def update_(self, batch: Batch, side: Side, F: Array, G: Array, C: Array) -> Norms:
        """Improve F in place for ``min ½⟨F, G F⟩ − ⟨C, F⟩, F ≥ 0``, in every start.

        Returns ‖new − old‖² and ‖new + old‖² of each component (n_starts × r), in float64.
        """


def _no_steps(batch: Batch) -> Array:
    return batch.kernels.numbers((batch.n_starts, batch.n_components), 0.0, batch.H)
