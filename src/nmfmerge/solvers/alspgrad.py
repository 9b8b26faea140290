"""ALSPGrad: alternating least squares by projected gradients (Lin 2007)."""

import numpy as np

from nmfmerge.data import Array
from nmfmerge.kernels import inner_product, projected_norm, projected_step_
from nmfmerge.solvers.base import Norms, Solver
from nmfmerge.solvers.point import Point

_BETA = 0.2
_SIGMA = 0.01
_TRIALS = 20
_INNER_ITERATIONS = 200
_REDUCTION = 0.1
_PARTS = 16  # the columns of a trial step are tried in this many parts,
_LEAST_PART = 256  # each of at least this many columns


class ALSPGrad(Solver):
    """Each factor by projected gradient with Lin's step search, H first.

    A subproblem is solved to a tenth of the projected-gradient norm it begins with, or of the norm
    at zero if that is less: otherwise a start that is far too large would end at zero, where
    nothing moves. Unlike an absolute tolerance this does not depend on the scale of X, and every
    iteration makes progress until there is nothing to gain.

    Each subproblem is solved as if G had a unit diagonal: with D = diag(G)^½, the steps and norms
    are those of Lin on F' = D F, G' = D⁻¹ G D⁻¹, C' = D⁻¹ C. The result then does not depend on how
    the size of a component is shared between W and H. Nothing is copied for this: a step of length
    α on F' is one of length α/G_tt on row t of F, and slope and curve are the same for both.
    """

    name = "alspgrad"
    on_devices = False
    order = ("H", "W")

    def __init__(self, point: Point) -> None:
        super().__init__(point)
        self._trials: dict[tuple[int, ...], list[_Trial]] = {}

    def update_(self, point: Point, F: Array, G: Array, C: Array) -> Norms:
        """Solve the nonnegative least-squares subproblems to the tolerance of this solver."""
        norms = [self._solve_(*subproblem) for subproblem in zip(F, G, C, strict=True)]
        moved, total = zip(*norms, strict=True)
        return np.stack(moved), np.stack(total)

    def _solve_(self, F: np.ndarray, G: np.ndarray, C: np.ndarray) -> Norms:
        """Solve the subproblem of one start."""
        if F.shape not in self._trials:
            self._trials[F.shape] = [_Trial(F), _Trial(F)]
        old = F.copy()
        gradient = G @ F
        gradient -= C
        weights = _weights(G)
        at_zero = _weighted_norm(C, weights)
        begin = min(projected_norm(F, gradient, weights), at_zero)
        tolerance = max(_REDUCTION * begin, float(np.finfo(F.dtype).eps) * at_zero)
        _descend_(F, G, gradient, weights, tolerance, self._trials[F.shape])
        moved = np.square(F - old, dtype=np.float64).sum(axis=1)
        total = np.square(F + old, dtype=np.float64).sum(axis=1)
        return moved, total


def _weights(G: np.ndarray) -> np.ndarray:
    """1/G_tt in float64, or 0 for a component that the objective does not depend on."""
    curvature = np.diag(G).astype(np.float64)
    counts = curvature > np.finfo(np.float64).tiny
    return np.divide(1, curvature, out=np.zeros_like(curvature), where=counts)


def _weighted_norm(C: np.ndarray, weights: np.ndarray) -> float:
    squares = np.einsum("tj,tj->t", C, C, dtype=np.float64)
    return float(np.sqrt(weights @ squares))


class _Trial:
    """Where a step of a given length leads: the new F, and G times the step to it."""

    def __init__(self, F: np.ndarray) -> None:
        self.alpha = 0.0
        self.F, self._step, self.G_step = (np.empty_like(F) for _ in range(3))
        p = F.shape[1]
        width = max(_LEAST_PART, -(-p // _PARTS))
        self._parts = [(start, min(start + width, p)) for start in range(0, p, width)]

    def make(
        self,
        F: np.ndarray,
        G: np.ndarray,
        gradient: np.ndarray,
        weights: np.ndarray,
        alpha: float,
    ) -> bool:
        """Try a step of length alpha·weights; return whether the objective falls enough.

        The curve ⟨step, G step⟩ only grows from one part of the columns to the next, so a step that
        is too long, as half of all are, is given up as soon as the parts done so far say so.
        """
        self.alpha = alpha
        step, G_step = self._step, self.G_step
        with np.errstate(over="ignore"):
            lengths = np.minimum(alpha * weights, np.finfo(F.dtype).max).astype(F.dtype)
        slope = projected_step_(F, gradient, lengths, self.F, step)
        curve = 0.0
        for start, stop in self._parts:
            np.matmul(G, step[:, start:stop], out=G_step[:, start:stop])
            curve += inner_product(step, G_step, start, stop)
            if not (1 - _SIGMA) * slope + 0.5 * curve < 0:  # also where both overflow
                return False
        return True


def _descend_(
    F: np.ndarray,
    G: np.ndarray,
    gradient: np.ndarray,
    weights: np.ndarray,
    tolerance: float,
    trials: list[_Trial],
) -> None:
    """Projected-gradient steps on F, with its gradient kept up to date."""
    alpha = 1.0
    for _ in range(_INNER_ITERATIONS):
        if projected_norm(F, gradient, weights) <= tolerance:
            return
        found = _search(F, G, gradient, weights, alpha, trials)
        if found is None:
            return
        alpha = found.alpha
        F[:] = found.F
        gradient += found.G_step


def _search(
    F: np.ndarray,
    G: np.ndarray,
    gradient: np.ndarray,
    weights: np.ndarray,
    alpha: float,
    trials: list[_Trial],
) -> _Trial | None:
    """Lin's step search: the largest α = α₀·βᵗ with a sufficient decrease, from the last α₀.

    None if 20 trials found no step. ``trials`` are two, to hold the last good step and a next.
    """
    trial, spare = trials
    if not trial.make(F, G, gradient, weights, alpha):
        for _ in range(_TRIALS - 1):
            alpha *= _BETA
            if trial.make(F, G, gradient, weights, alpha):
                return trial
        return None
    for _ in range(_TRIALS - 1):
        alpha /= _BETA
        if not spare.make(F, G, gradient, weights, alpha) or np.array_equal(spare.F, trial.F):
            break
        trial, spare = spare, trial
    return trial
