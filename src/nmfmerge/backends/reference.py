"""A plain NumPy twin of every operation, written for clarity; tests compare the fast ones with it.

Batches as in `nmfmerge.backends.interface`: the first axis of all arrays is that of the starts.
Kernels that only NumPy arrays have (`gcd_sweep_`, `projected_step_`, `nnls_columns`) follow.
"""

import numpy as np
from scipy.linalg import cholesky
from scipy.optimize import nnls

from nmfmerge.backends.interface import Capability
from nmfmerge.backends.numba.alspgrad import SEARCH
from nmfmerge.backends.numba.blocks import least_curvature
from nmfmerge.backends.numba.momentum import RULE
from nmfmerge.backends.reference_kl import component_sums as component_sums
from nmfmerge.backends.reference_kl import judge_values_ as judge_values_
from nmfmerge.backends.reference_kl import kl_divergences as kl_divergences
from nmfmerge.backends.reference_kl import kl_explained as kl_explained
from nmfmerge.backends.reference_kl import kl_line_sums as kl_line_sums
from nmfmerge.backends.reference_kl import kl_merge_rises as kl_merge_rises
from nmfmerge.backends.reference_kl import kl_mu_step_ as kl_mu_step_
from nmfmerge.backends.reference_kl import kl_ratios as kl_ratios
from nmfmerge.backends.reference_kl import kl_sweep_ as kl_sweep_
from nmfmerge.backends.reference_kl import kl_x_log_y as kl_x_log_y
from nmfmerge.backends.reference_kl import largest_ratio as largest_ratio
from nmfmerge.backends.reference_kl import missing_cross_ as missing_cross_
from nmfmerge.backends.reference_kl import weighted_sweep_ as weighted_sweep_

capabilities = frozenset(
    {
        Capability.HOST,
        Capability.MULTIPLICATIVE,
        Capability.SUBPROBLEMS,
        Capability.SPREAD,
        Capability.ENTRYWISE,
    }
)


# Arrays of a batch


def numbers(shape, value, like):
    """An array full of a number or truth value."""
    return np.full(shape, value, dtype=bool if isinstance(value, bool) else np.float64)


def empty(shape, like):
    """Zeros, to be overwritten."""
    return np.zeros(shape, like.dtype)


def indices(array, like):
    """The array."""
    return array


def copy(A):
    """A copy."""
    return np.array(A)


def take(A, rows):
    """Some starts."""
    return np.stack([A[i] for i in rows])


def stack(factors):
    """Single starts, one after the other."""
    return np.stack(factors)


def contiguous(F):
    """A copy."""
    return np.array(F, order="C")


def to_host(A):
    """The array."""
    return A


def from_host(A, like):
    """The array."""
    return A


# Small products


def gram64(F):
    """F Fᵀ in float64."""
    return products(F.astype(np.float64), F.astype(np.float64))


def products(F, others):
    """F Oᵀ."""
    return np.einsum("stj,suj->stu", *_as_many(F, others))


def row_products(F, G):
    """⟨f_t, g_t⟩."""
    return np.einsum("stj,stj->st", F, G, dtype=np.float64)


def inner_products(A, B):
    """⟨A, B⟩."""
    return row_products(A, B).sum(axis=1)


def part_norms(F):
    """Norms of the positive and the negative part."""
    parts = [np.maximum(sign * F.astype(np.float64), 0) for sign in (1, -1)]
    return np.stack([np.linalg.norm(part, axis=2) for part in parts], axis=2)


# Small matrices times factors


def mix(A, F):
    """A F."""
    return np.einsum("skt,stj->skj", *_as_many(A.astype(F.dtype), F))


def scaled(F, scales):
    """Components times their scales."""
    return F * scales[:, :, None].astype(F.dtype)


def scaled_positive(F, scales):
    """Components times their scales, zero where that is negative."""
    return np.maximum(scaled(F, scales), 0)


def joined(F, more):
    """The components of both."""
    return np.concatenate([F, more], axis=1)


def with_zero_components(F, count):
    """More components, all zero."""
    return joined(F, np.zeros((len(F), count, F.shape[2]), F.dtype))


def spread(A, F):
    """Standard deviation over the starts of ``A F``."""
    return mix(A, F).std(axis=0)


# An iteration of a solver


def hals_sweep_(F, G, C, n_sweeps=1, active=None):
    """Component by component; returns what the sweeps moved, and by how much they decreased."""
    moved = total = decrease = 0
    active = np.full(len(F), True) if active is None else active
    for sweep in range(n_sweeps):
        old = F.copy()
        for s in np.flatnonzero(active):
            for t in range(F.shape[1]):
                if G[s, t, t] > least_curvature(G.dtype):
                    residual = C[s, t] - G[s, t] @ F[s]
                    F[s, t] = np.maximum(0, F[s, t] + residual / G[s, t, t])
        decrease -= rise(F, G, C, old)
        if sweep == 0:
            moved, total = (active[:, None] * norms for norms in _norms(F, old))
    return moved, total, decrease


def fit_noted(sweep):
    """Nothing was noted."""


def extrapolate_(F, previous, beta):
    """Move on along the last move, cut off at zero."""
    swept = F.copy()
    F[:] = np.maximum(0, F + beta[:, None, None].astype(F.dtype) * (F - previous))
    previous[:] = swept


def rise(F, G, C, old):
    """The gradient in the middle, along the step: exact, as the objective is quadratic."""
    gradient = np.einsum("stu,suj->stj", G, (F + old) / 2) - C
    return inner_products(gradient, F - old)


def note_steps_(ratio, moved, total):
    """Raise to how far components moved."""
    counts = total > 0
    ratio[counts] = np.maximum(ratio[counts], np.sqrt(moved[counts] / total[counts]))


def largest_step(ratio, WtW, HHt, negligible):
    """Largest ratio of a component that counts."""
    products = WtW.astype(np.float64) * HHt
    whole = products.sum(axis=(1, 2))
    counts = np.einsum("itt->it", products) > negligible**2 * whole[:, None]
    return np.where(counts, ratio, 0).max(axis=1)


def judge_(state, fit, WtW, HHt, ratio, constant, rise, limit, negligible, active=None):
    """Accept or take back, and weight the next extrapolation."""
    active = np.full(len(fit), True) if active is None else active
    model = (WtW.astype(np.float64) * HHt).sum(axis=(1, 2))
    now = np.maximum(0, 0.5 * constant - fit + 0.5 * model)
    rose = np.where(state.objective < limit, 0 if rise is None else rise, now - state.objective)
    back = (rose > 0) & ~state.rest & active
    grown = np.minimum(state.bound, RULE.growth * state.weight)
    new = {
        "objective": np.where(back, state.objective, now),
        "bound": np.where(back, state.last_weight, np.minimum(1, RULE.bound_growth * state.bound)),
        "last_weight": np.where(back, state.last_weight, state.weight),
        "weight": np.where(back, state.weight / RULE.shrink, grown),
        "rest": back,
    }
    for name, values in new.items():
        getattr(state, name)[active] = values[active]
    state.taken_back[:] = back
    step = largest_step(ratio, WtW, HHt, negligible) / RULE.step_scale
    return np.where(back | ~active, np.nan, step)


def settle_(first, second, accepted_first, accepted_second, taken_back):
    """Go back, or accept."""
    back = taken_back[:, None, None]
    first[:] = np.where(back, accepted_first, first)
    second[:] = np.where(back, accepted_second, second)
    accepted_first[:] = first


def sums(F):
    """Sum of all entries."""
    return F.sum(axis=(1, 2), dtype=np.float64)


def diagonals(G):
    """The diagonals, by a view."""
    return np.einsum("stt->st", G)


def mean_sizes(C):
    """Mean of |C|."""
    return np.abs(C).mean(axis=(1, 2), dtype=np.float64)


def mu_step_(F, G, C, offset, tiny):
    """Multiply by a ratio of nonnegative parts of the gradient."""
    old, up = F.copy(), np.maximum(C, 0)
    F *= up / (np.einsum("stu,suj->stj", G, F) + offset[:, None, None] + (up - C))
    F[tiny >= F] = 0
    return _norms(F, old)


def gcd_sweep_(F, G, C, tolerance, active=None):
    """The best coordinate of each column first."""
    begin = F.copy()
    for s in range(len(F)) if active is None else np.flatnonzero(active):
        decrease = _single_steps(F[s], G[s], G[s] @ F[s] - C[s])[1]
        threshold = tolerance * max(0.0, decrease.max())
        for j in range(F.shape[2]):
            column = F[s, :, j : j + 1]
            gradient = G[s] @ column - C[s, :, j : j + 1]
            for _ in range(F.shape[1] ** 2):
                step, decrease = _single_steps(column, G[s], gradient)
                q = int(np.argmax(decrease))
                if decrease[q, 0] <= threshold:
                    break
                column[q] += step[q]
                gradient += G[s][:, q : q + 1] * step[q]
    return _norms(F, begin)


def descend_(F, G, C, room, active=None):
    """Lin's projected gradient, on components scaled to a unit curvature."""
    begin = F.copy()
    for s in range(len(F)) if active is None else np.flatnonzero(active):
        curvature = np.diag(G[s]).astype(np.float64)
        counts = curvature > np.finfo(np.float64).tiny
        D = np.sqrt(curvature[counts])[:, None]
        scaled = G[s][np.ix_(counts, counts)] / (D * D.T), C[s][counts] / D
        F[s, counts] = _descended(F[s, counts] * D, *scaled, np.finfo(F.dtype).eps) / D
    return _norms(F, begin)


def _descended(F, G, C, eps):
    """The subproblem's F at a tenth of the norm of its projected gradient."""

    def norm(F):
        gradient = G @ F - C
        return np.linalg.norm(gradient[(gradient < 0) | (F > 0)])

    def trial(alpha):
        gradient = G @ F - C
        step = np.maximum(0, F - alpha * gradient) - F
        falls = (1 - SEARCH.sigma) * np.vdot(gradient, step) + np.vdot(step, G @ step) / 2 < 0
        return F + step, falls

    at_zero = np.linalg.norm(C)
    least = max(SEARCH.reduction * min(norm(F), at_zero), eps * at_zero)
    alpha, n_steps = 1.0, 0
    while norm(F) > least and n_steps < SEARCH.iterations:
        new, falls = trial(alpha)
        lengths = range(SEARCH.trials - 1)
        if falls:
            for _ in lengths:
                longer, falls = trial(alpha / SEARCH.beta)
                if not falls or np.array_equal(longer, new):
                    break
                alpha, new = alpha / SEARCH.beta, longer
        else:
            for _ in lengths:
                alpha *= SEARCH.beta
                new, falls = trial(alpha)
                if falls:
                    break
            else:
                return F
        F, n_steps = new, n_steps + 1
    return F


def elementwise_cross(side, X, Wt, H, rule):
    """Twin of `DataMatrix.elementwise_cross` for a dense X, with NaN where it is missing."""
    E, terms = rule.of(np.broadcast_to(X, (len(H), *X.shape)), Wt.swapaxes(1, 2) @ H, np)
    product = H @ E.swapaxes(1, 2) if side == "W" else Wt @ E
    return product, terms.sum(axis=(1, 2), dtype=np.float64)


# For NumPy arrays only


def projected_step_(F, gradient, lengths, new, step):
    """Twin of `nmfmerge.backends.numba.alspgrad.projected_step_`, of one start."""
    new[:] = np.maximum(0, F - lengths[:, None] * gradient)
    step[:] = new - F
    return np.vdot(gradient, step)


def projected_norm(F, gradient, weights):
    """Twin of `nmfmerge.backends.numba.alspgrad.projected_norm`, of one start."""
    free = np.where((gradient < 0) | (F > 0), gradient, 0)
    return np.sqrt(weights @ np.sum(free**2, axis=1))


def nnls_columns(G, C):
    """Twin of `nmfmerge.backends.numba.nnls.nnls_columns` for a positive definite G."""
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
    """‖new − old‖² and ‖new + old‖² of each component."""
    return tuple((part.astype(np.float64) ** 2).sum(axis=2) for part in (F - old, F + old))


def _as_many(A, B):
    """Both with the starts of the one that has more."""
    n = max(len(A), len(B))
    return tuple(np.broadcast_to(C, (n, *C.shape[1:])) for C in (A, B))
