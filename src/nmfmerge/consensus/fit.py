"""One fit of a consensus, or a batch of them on a device.

Input: a data matrix, a rank and a seed for each fit. Output: the components on one side as unit
vectors, with the error of each fit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from nmfmerge.inputs import check
from nmfmerge.losses import Loss, Problem
from nmfmerge.matrices import DataMatrix, Side
from nmfmerge.matrices.sketch import Sketch
from nmfmerge.method.course import Course
from nmfmerge.method.init import Factors
from nmfmerge.method.prepare import usual_extra
from nmfmerge.method.starts import StartMaker, StartPlan
from nmfmerge.solvers import SOLVERS, Limits, Multiplicative, Solver
from nmfmerge.solvers.hals import HALS
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

    @property
    def is_of_products(self) -> bool:
        """True if fits only multiply X with factors, and take products that are negative."""
        return issubclass(self.solver, HALS) and not self.merge

    def problem(self, data: DataMatrix) -> Problem:
        """The problem of a fit."""
        return Problem(data, self.loss, keeps_zeros=self.solver is Multiplicative)

    def fits(
        self,
        data: DataMatrix,
        rank: int,
        seeds: Sequence[int],
        limits: Limits,
        sketch: Sketch | None = None,
    ) -> list[Fit]:
        """Fits from random starts as one batch; none if they were stopped.

        With a sketch of the data they converge on that first, and then on the data.
        """
        maker = self._maker(data, rank)
        plans = [maker.plans(["random"], seed, self.merge, self.merge)[0] for seed in seeds]
        stages, before = self._stages, [0] * len(plans)
        if sketch is not None:
            course = self._course(sketch, rank, plans, stages, limits)
            if course.stopped is not None:
                return []
            plans = [_given(start) for start in zip(course.batch.Wt, course.batch.H, strict=True)]
            stages, before = partial(_finish, tol=self.tol), _iterations(course)
        course = self._course(data, rank, plans, stages, limits)
        if course.stopped is not None:
            return []
        F = data.kernels.to_host(course.batch.Wt if self.side == "W" else course.batch.H)
        n_iter = _iterations(course)
        return [
            Fit(
                unit_rows(F[i]), start.stages[-1].fitting_error, before[i] + n_iter[i],
                course.status(i),
            )
            for i, start in enumerate(course.starts)
        ]  # fmt: skip

    def polished(self, data: DataMatrix, W: np.ndarray, H: np.ndarray, tol: float) -> Factors:
        """Factors of X / unit², component-major, that a fit reaches from given ones."""
        plan = _given(check.check_fit(W, H, data, len(H)))
        course = self._course(data, len(H), [plan], partial(_finish, tol=tol), Limits())
        if course.stopped is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return course.batch.Wt[0], course.batch.H[0]

    def _course(
        self,
        data: DataMatrix,
        rank: int,
        plans: Sequence[StartPlan],
        stages: Callable[[Course], object],
        limits: Limits,
    ) -> Course:
        """Starts that went through stages, unless they were stopped."""
        course = Course(self.problem(data), rank, self.solver, plans)
        course.limits = limits
        course.go(stages)
        return course

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


def _finish(course: Course, tol: float) -> None:
    course.initialize()
    course.solve(StageName.FINAL, tol)


def _given(start: Factors) -> StartPlan:
    """A start from factors of X / unit²."""
    return StartPlan("given", None, lambda check: start, lambda: start, False)


def _iterations(course: Course) -> list[int]:
    """Iterations of each start, in all stages."""
    return [sum(stage.n_iter for stage in start.stages) for start in course.starts]


def unit_rows(F: np.ndarray) -> np.ndarray:
    """Components divided by their norms; those that are zero stay zero."""
    F = F / np.maximum(F.max(axis=1, keepdims=True, initial=0), np.finfo(F.dtype).tiny)
    norms = np.linalg.norm(F, axis=1, keepdims=True)
    return F / np.where(norms > 0, norms, 1).astype(F.dtype)
