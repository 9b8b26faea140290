"""Solvers: one loop for all (`loop`), one small file per algorithm, found by name in SOLVERS."""

from nmfmerge.solvers.accelerated import AcceleratedHALS
from nmfmerge.solvers.alspgrad import ALSPGrad
from nmfmerge.solvers.base import Solver
from nmfmerge.solvers.gcd import GCD
from nmfmerge.solvers.hals import HALS
from nmfmerge.solvers.loop import Limits, Loop, LoopState, Outcome, OutOfTime, Progress
from nmfmerge.solvers.mu import MU
from nmfmerge.solvers.point import Point

SOLVERS: dict[str, type[Solver]] = {
    "accelerated": AcceleratedHALS,
    "hals": HALS,
    "gcd": GCD,
    "alspgrad": ALSPGrad,
    "mu": MU,
}

__all__ = [
    "GCD",
    "HALS",
    "MU",
    "SOLVERS",
    "ALSPGrad",
    "AcceleratedHALS",
    "Limits",
    "Loop",
    "LoopState",
    "OutOfTime",
    "Outcome",
    "Point",
    "Progress",
    "Solver",
]
