"""Solvers: one loop for all, one small file per algorithm, found by name in `SOLVERS`.

`loop` iterates, stops, records and calls back; an algorithm only says what one pass does.
"""

from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.inputs.check import check_needs
from nmfmerge.losses import FROBENIUS, Loss
from nmfmerge.matrices import DataMatrix
from nmfmerge.solvers.accelerated import AcceleratedHALS
from nmfmerge.solvers.alspgrad import ALSPGrad
from nmfmerge.solvers.base import GramSolver, Solver
from nmfmerge.solvers.batch import Batch
from nmfmerge.solvers.gcd import GCD
from nmfmerge.solvers.hals import HALS
from nmfmerge.solvers.limits import Limits, Stopped
from nmfmerge.solvers.loop import Loop, LoopState, Outcome, Progress
from nmfmerge.solvers.mu import MU
from nmfmerge.solvers.sweeps import AcceleratedSweeps, Multiplicative, Sweeps

ALL: list[type[Solver]] = [
    AcceleratedHALS,
    HALS,
    GCD,
    ALSPGrad,
    MU,
    AcceleratedSweeps,
    Multiplicative,
]


def solvers_of(loss: Loss) -> dict[str, type[Solver]]:
    """The solvers that can minimise a loss, by their names."""
    return {solver.name: solver for solver in ALL if solver.requires in loss.forms}


SOLVERS = solvers_of(FROBENIUS)


def solver_of(name: str, loss: Loss) -> type[Solver]:
    """The solver of this name for a loss."""
    known = solvers_of(loss)
    if name not in known:
        raise ArgumentError(
            "solver",
            f"does not minimise the loss {loss.name!r}{loss.where}",
            value=name,
            expected="one of " + ", ".join(map(repr, known)),
        )
    return known[name]


def check_solver_fits(solver: type[Solver], loss: Loss, data: DataMatrix) -> None:
    """Check that the solver can work where X is."""
    others = [name for name, one in solvers_of(loss).items() if one.needs <= data.offers]
    check_needs("solver", solver.name, solver.needs, data, others)


__all__ = [
    "ALL",
    "GCD",
    "HALS",
    "MU",
    "SOLVERS",
    "ALSPGrad",
    "AcceleratedHALS",
    "AcceleratedSweeps",
    "Batch",
    "GramSolver",
    "Limits",
    "Loop",
    "LoopState",
    "Multiplicative",
    "Outcome",
    "Progress",
    "Solver",
    "Stopped",
    "Sweeps",
    "check_solver_fits",
    "solver_of",
    "solvers_of",
]
