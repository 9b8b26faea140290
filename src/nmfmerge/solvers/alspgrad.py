"""ALSPGrad: alternating least squares by projected gradients (Lin 2007)."""

import numpy as np

from nmfmerge.solvers.base import Solver

_BETA = 0.2
_SIGMA = 0.01
_TRIALS = 20
_INNER_ITERATIONS = 200
_REDUCTION = 0.1


class ALSPGrad(Solver):
    """Each factor by projected gradient with Lin's step search, H first.

    A subproblem is solved to a tenth of the projected-gradient norm it begins with, or of the norm
    at zero if that is less: a start far too large would else end at zero, where nothing moves.
    Unlike an absolute tolerance this does the same on scaled data, and an iteration never stands
    still before there is nothing to gain. For the same reason the first trial step is 1/max(G_tt),
    where Lin takes 1.
    """

    order = ("H", "W")

    def update_(
        self, F: np.ndarray, G: np.ndarray, C: np.ndarray, moved: np.ndarray, total: np.ndarray
    ) -> None:
        """Solve one nonnegative least-squares subproblem to the tolerance of this solver."""
        old = F.copy()
        gradient = G @ F
        gradient -= C
        at_zero = float(np.linalg.norm(C))
        begin = min(_projected_norm(F, gradient), at_zero)
        _descend_(F, G, gradient, max(_REDUCTION * begin, float(np.finfo(F.dtype).eps) * at_zero))
        moved[0] = np.square(F - old, dtype=np.float64).sum(axis=1)
        total[0] = np.square(F + old, dtype=np.float64).sum(axis=1)


def _descend_(F: np.ndarray, G: np.ndarray, gradient: np.ndarray, tolerance: float) -> None:
    """Projected-gradient steps on F, with its gradient kept up to date."""
    curvature = float(np.diag(G).max())
    alpha = 1 / curvature if curvature > 0 else 1.0
    for _ in range(_INNER_ITERATIONS):
        if _projected_norm(F, gradient) <= tolerance:
            return
        found = _search(F, G, gradient, alpha)
        if found is None:
            return
        F_new, G_step, alpha = found
        F[:] = F_new
        gradient += G_step


def _search(
    F: np.ndarray, G: np.ndarray, gradient: np.ndarray, alpha: float
) -> tuple[np.ndarray, np.ndarray, float] | None:
    """Lin's step search: the largest α = α₀·βᵗ with a sufficient decrease, from the last α₀.

    Returns the new F, G times the step to it, and α; None if 20 trials found no step.
    """
    accepted: tuple[np.ndarray, np.ndarray, float] | None = None
    shrink = False
    for _ in range(_TRIALS):
        F_new = np.maximum(F - F.dtype.type(alpha) * gradient, 0)
        step = F_new - F
        G_step = G @ step
        slope, curve = float(np.vdot(gradient, step)), float(np.vdot(step, G_step))
        enough = (1 - _SIGMA) * slope + 0.5 * curve < 0
        if accepted is None and not enough:
            shrink = True
            alpha *= _BETA
        elif accepted is None and shrink:
            return F_new, G_step, alpha
        elif not enough or (accepted is not None and np.array_equal(F_new, accepted[0])):
            break
        else:
            accepted = F_new, G_step, alpha
            alpha /= _BETA
    return accepted


def _projected_norm(F: np.ndarray, gradient: np.ndarray) -> float:
    """Norm of the gradient where F may move against it: f > 0 or gradient < 0."""
    return float(np.linalg.norm(np.where((gradient < 0) | (F > 0), gradient, 0)))
