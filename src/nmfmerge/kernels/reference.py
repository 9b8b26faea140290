"""NumPy twins of the kernels, written for clarity; tests compare the fast ones with them."""

import numpy as np
from scipy.linalg import cholesky
from scipy.optimize import nnls

from nmfmerge.kernels.blocks import least_curvature
from nmfmerge.kernels.momentum import RULE


def hals_sweep_(F, G, C):
    """Twin of one sweep of `nmfmerge.kernels.hals.hals_sweep_`."""
    old = F.copy()
    for t in range(len(F)):
        if G[t, t] > least_curvature(G.dtype):
            F[t] = np.maximum(0, F[t] + (C[t] - G[t] @ F) / G[t, t])
    gradient = G @ (F + old) / 2 - C  # in the middle: the objective is quadratic
    return *_norms(F, old), np.vdot(gradient, old - F)


def gcd_largest_decrease(F, G, C):
    """Twin of `nmfmerge.kernels.gcd.gcd_largest_decrease`."""
    _, decrease = _single_steps(F, G, G @ F - C)
    return max(0.0, decrease.max())


def gcd_sweep_(F, G, C, threshold):
    """Twin of `nmfmerge.kernels.gcd.gcd_sweep_`; returns ``‖new − old‖², ‖new + old‖²``."""
    old = F.copy()
    for j in range(F.shape[1]):
        gradient = G @ F[:, j] - C[:, j]
        for _ in range(len(F) ** 2):
            step, decrease = _single_steps(F[:, j : j + 1], G, gradient[:, None])
            q = int(np.argmax(decrease))
            if decrease[q, 0] <= threshold:
                break
            F[q, j] += step[q, 0]
            gradient += step[q, 0] * G[q]
    return _norms(F, old)


def mu_step_(F, G, C, offset, tiny):
    """Twin of `nmfmerge.kernels.mu.mu_step_`; returns ``‖new − old‖², ‖new + old‖²``."""
    old = F.copy()
    up = np.maximum(C, 0)
    F *= up / (G @ F + offset + (up - C))
    F[tiny >= F] = 0
    return _norms(F, old)


def projected_step_(F, gradient, lengths, new, step):
    """Twin of `nmfmerge.kernels.alspgrad.projected_step_`."""
    new[:] = np.maximum(0, F - lengths[:, None] * gradient)
    step[:] = new - F
    return np.vdot(gradient, step)


def projected_norm(F, gradient, weights):
    """Twin of `nmfmerge.kernels.alspgrad.projected_norm`."""
    free = np.where((gradient < 0) | (F > 0), gradient, 0)
    return np.sqrt(weights @ np.sum(free**2, axis=1))


def extrapolate_(F, previous, beta):
    """Twin of `nmfmerge.kernels.extrapolate.extrapolate_`."""
    swept = F.copy()
    F[:] = np.maximum(0, F + beta * (F - previous))
    previous[:] = swept


def judge_(state, fit, WtW, HHt, ratio, norm2, rise, limit, negligible):
    """Twin of `nmfmerge.kernels.momentum.judge_`."""
    products = WtW.astype(np.float64) * HHt
    whole = products.sum(axis=(1, 2))
    now = np.maximum(0, 0.5 * norm2 - fit + 0.5 * whole)
    rose = np.where(state.objective < limit, 0 if rise is None else rise, now - state.objective)
    back = (rose > 0) & ~state.rest
    grown = np.minimum(state.bound, RULE.growth * state.weight)
    new = {
        "objective": np.where(back, state.objective, now),
        "bound": np.where(back, state.last_weight, np.minimum(1, RULE.bound_growth * state.bound)),
        "last_weight": np.where(back, state.last_weight, state.weight),
        "weight": np.where(back, state.weight / RULE.shrink, grown),
        "rest": back,
        "taken_back": back,
    }
    for name, values in new.items():
        getattr(state, name)[:] = values
    counts = np.einsum("itt->it", products) > negligible**2 * whole[:, None]
    return np.where(back, np.nan, np.where(counts, ratio, 0).max(axis=1) / RULE.step_scale)


def settle_(first, second, accepted_first, accepted_second, taken_back):
    """Twin of `nmfmerge.kernels.momentum.settle_`."""
    back = taken_back[:, None, None]
    first[:] = np.where(back, accepted_first, first)
    second[:] = np.where(back, accepted_second, second)
    accepted_first[:] = first


def nnls_columns(G, C):
    """Twin of `nmfmerge.kernels.nnls.nnls_columns` for a positive definite G."""
    R = cholesky(G)
    return np.stack([nnls(R, y)[0] for y in np.linalg.solve(R.T, C).T], axis=1)


def _single_steps(F, G, gradient):
    """Step and decrease of the objective for every coordinate moved alone."""
    curvature = np.diag(G)[:, None]
    counts = curvature > least_curvature(G.dtype)
    safe = np.where(counts, curvature, 1)
    step = np.maximum(0, F - gradient / safe) - F
    decrease = -gradient * step - 0.5 * curvature * step**2
    return step, np.where(counts, decrease, 0)


def _norms(F, old):
    return ((F - old) ** 2).sum(axis=1), ((F + old) ** 2).sum(axis=1)
