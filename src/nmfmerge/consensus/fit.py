"""One fit of a consensus, or a batch of them on a device.

Input: a data matrix, a rank and a seed for each fit. Output: the components on one side as unit
vectors, with the error of each fit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nmfmerge.inputs import check
from nmfmerge.losses import Loss, Problem
from nmfmerge.matrices import DataMatrix, Side
from nmfmerge.method.course import Course
from nmfmerge.method.init import Factors
from nmfmerge.method.prepare import usual_extra
from nmfmerge.method.starts import StartMaker, StartPlan
from nmfmerge.solvers import SOLVERS, Limits, Multiplicative, Solver
from nmfmerge.solvers.history import StageName, Status


@dataclass(frozen=True, eq=False)
class Fit:
    """The part of one fit that is kept."""

    components: np.ndarray  # r × p, of unit norm or zero
    error: float  # percent, of the data that were fitted
    n_iter: int
    status: Status  # converged, or max_iter


@dataclass(frozen=True, eq=False)
class Method:
    """How each fit is made: plain NMF, or NMF-Merge."""

    loss: Loss
    solver: type[Solver]
    tol: float
    loose: float  # tolerance of the stages before the last
    merge: bool
    side: Side

    def problem(self, data: DataMatrix) -> Problem:
        """The problem of a fit."""
        return Problem(data, self.loss, keeps_zeros=self.solver is Multiplicative)

    def fits(self, data: DataMatrix, rank: int, seeds: Sequence[int], limits: Limits) -> list[Fit]:
        """Fits from random starts as one batch; none if they were stopped."""
        maker = self._maker(data, rank)
        plans = [maker.plans(["random"], seed, self.merge, self.merge)[0] for seed in seeds]
        course = Course(self.problem(data), rank, self.solver, plans)
        course.limits = limits
        course.go(self._stages)
        if course.stopped is not None:
            return []
        kernels = data.kernels
        F = kernels.to_host(course.batch.Wt if self.side == "W" else course.batch.H)
        return [
            Fit(
                unit_rows(F[i]),
                start.stages[-1].fitting_error,
                sum(stage.n_iter for stage in start.stages),
                course.status(i),
            )
            for i, start in enumerate(course.starts)
        ]

    def polished(self, data: DataMatrix, W: np.ndarray, H: np.ndarray, tol: float) -> Factors:
        """Factors of X / unit², component-major, that a fit reaches from given ones."""
        start = check.check_fit(W, H, data, len(H))
        plan = StartPlan("given", None, lambda check: start, lambda: start, False)
        course = Course(self.problem(data), len(H), self.solver, [plan])

        def stages(course: Course) -> None:
            course.initialize()
            course.solve(StageName.FINAL, tol)

        course.go(stages)
        if course.stopped is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return course.batch.Wt[0], course.batch.H[0]

    def _maker(self, data: DataMatrix, rank: int) -> StartMaker:
        return StartMaker(
            data, rank, np.random.default_rng(0), check.INIT_NAMES, None,
            self.solver is not SOLVERS["mu"], "random", self.solver is Multiplicative,
        )  # fmt: skip

    def _stages(self, course: Course) -> None:
        course.initialize()
        k = usual_extra(course.n_components, course.data.shape) if self.merge else 0
        if k > 0:
            course.solve(StageName.INITIAL, self.loose)
            course.recover(k, self.loose)
            course.solve(StageName.OVERCOMPLETE, self.loose)
            course.merge()
        course.solve(StageName.FINAL, self.tol)


def unit_rows(F: np.ndarray) -> np.ndarray:
    """Components divided by their norms; those that are zero stay zero."""
    F = F / np.maximum(F.max(axis=1, keepdims=True, initial=0), np.finfo(F.dtype).tiny)
    norms = np.linalg.norm(F, axis=1, keepdims=True)
    return F / np.where(norms > 0, norms, 1).astype(F.dtype)
