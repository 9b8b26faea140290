"""NumPy twins of the Kullback–Leibler passes, written for clarity; lines are a dense array.

And of the rest of `nmfmerge.backends.entrywise`.
"""

import numpy as np
from scipy.special import xlogy

from nmfmerge.backends.numba.momentum import RULE


def component_sums(F):
    """Sum of each component."""
    return F.sum(axis=2, dtype=np.float64)


def largest_ratio(ratio, sizes, negligible):
    """Largest ratio of a component that counts."""
    shares = sizes / np.maximum(sizes.sum(axis=1), np.finfo(float).tiny)[:, None]
    return np.array([max([0, *a[b > negligible]]) for a, b in zip(ratio, shares, strict=True)])


def judge_values_(state, now, step, noise, active=None):
    """Accept or take back, start by start."""
    result = np.full(len(now), np.nan)
    for i in range(len(now)):
        state.taken_back[i] = False
        if active is not None and not active[i]:
            continue
        last, rose = state.weight[i], now[i] > state.objective[i] and not state.rest[i]
        if rose:
            state.bound[i] = state.last_weight[i]
            state.weight[i] /= RULE.shrink
        else:
            state.weight[i] = min(state.bound[i], RULE.growth * last)
            state.bound[i] = min(1, RULE.bound_growth * state.bound[i])
        if rose and now[i] > state.objective[i] + noise:
            state.taken_back[i] = state.rest[i] = True
        else:
            state.rest[i], state.last_weight[i] = False, last
            state.objective[i] = min(state.objective[i], now[i])
            result[i] = step[i] / RULE.step_scale
    return result


def kl_line_sums(lines, n_lines, length):
    """Σ x and Σ x log x of each line."""
    lines = lines.astype(np.float64)
    return np.stack([lines.sum(axis=1), xlogy(lines, lines).sum(axis=1)], axis=1)


def kl_sweep_(
    F, fixed, lines, floor, n_sweeps=1, value=False, free=None, l1=0.0, l2=0.0, active=None,
    sums=None,
):  # fmt: skip
    """Sweep over the coordinates of every start."""
    n_starts, r, _ = F.shape
    moved, total = np.zeros((2, n_starts, r))
    for i in range(n_starts):
        if active is None or active[i]:
            old = F[i].copy()
            for _ in range(n_sweeps):
                sweep_(F[i], fixed[i], lines, l1, l2, floor, free, _of_start(sums, i))
            moved[i], total[i] = _norms(F[i], old)
    if not value:
        return moved, total, np.zeros(n_starts)
    return moved, total, kl_x_log_y(F, fixed, lines, floor)


def kl_mu_step_(F, fixed, lines, floor, tiny, l1=0.0, l2=0.0, sums=None):
    """Multiply every start."""
    old = F.copy()
    for i in range(len(F)):
        mu_step_(F[i], fixed[i], lines, l1, l2, floor, _of_start(sums, i))
    F[tiny > F] = 0
    norms = [_norms(*pair) for pair in zip(F, old, strict=True)]
    return tuple(np.stack(part) for part in zip(*norms, strict=True))


def kl_explained(F, fixed, lines, floor):
    """Σ x w_k h_k / y."""
    ratios = [lines / _fit(*pair, floor) for pair in zip(F, fixed, strict=True)]
    return np.einsum("skp,skq,spq->sk", F, fixed, ratios)


def kl_x_log_y(F, fixed, lines, floor):
    """Σ x log y."""
    fits = [_fit(*pair, floor) for pair in zip(F, fixed, strict=True)]
    return np.array([xlogy(lines, y).sum() for y in fits])


def kl_divergences(F, fixed, lines, floor):
    """D(X‖WH)."""
    lines, F, fixed = (A.astype(np.float64) for A in (lines, F, fixed))
    return np.array([divergence(lines, a.T @ b, floor) for a, b in zip(F, fixed, strict=True)])


def kl_ratios(Wt, H, lines, floor):
    """X/WH."""
    return lines / _fit(Wt, H, floor)


def kl_merge_rises(Wt, H, lines, floor, w_steps, h_steps):
    """−Σ x log of the ratio of WH after each merge to that before."""
    before = _fit(Wt, H, floor)
    after = (_fit(Wt, H, 0) - np.outer(w, h) for w, h in zip(w_steps, h_steps, strict=True))
    return np.array([-xlogy(lines, np.maximum(y, floor) / before).sum() for y in after])


def weighted_sweep_(
    F, fixed, C, G, lines, n_sweeps=1, value=False, free=None, l1=0.0, l2=0.0, multiply=False,
    active=None,
):  # fmt: skip
    """Sweep over the coordinates of every start, with the weights as ``lines``, or 1 − them."""
    M = lines if G is None else 1 - lines
    moved, total = np.zeros((2, *F.shape[:2]))
    fit = np.zeros(len(F))
    for i in range(len(F)):
        grams = np.einsum("pq,kq,lq->pkl", M, fixed[i], fixed[i], dtype=np.float64)
        if active is None or active[i]:
            old = F[i].copy()
            for _ in range(1 if multiply else n_sweeps):
                weighted_start_(F[i], C[i], grams, free, l1, l2, multiply)
            moved[i], total[i] = _norms(F[i], old)
        if value:
            fit[i] = np.vdot(F[i], C[i]) - 0.5 * np.einsum("kp,pkl,lp->", F[i], grams, F[i])
    return moved, total, fit


def missing_cross_(F, fixed, C, lines, add=True):
    """The cross product of the missing part of WH, and the sum of its squares."""
    y = F.swapaxes(1, 2) @ fixed
    if add:
        C += fixed @ (lines * y).swapaxes(1, 2)
    return (lines * y.astype(np.float64) ** 2).sum(axis=(1, 2))


def _of_start(sums, i):
    return None if sums is None else sums[i]


def _fit(F, fixed, floor):
    return np.maximum(F.astype(np.float64).T @ fixed, floor)


def _norms(new, old):
    new, old = new.astype(np.float64), old.astype(np.float64)
    return ((new - old) ** 2).sum(axis=1), ((new + old) ** 2).sum(axis=1)


# One start


def divergence(X, Y, floor=0.0):
    """D(X‖Y)."""
    ratio = np.divide(X, np.maximum(Y, floor), out=np.ones_like(Y), where=X > 0)
    return float((xlogy(X, ratio) - X + Y).sum())


def weighted_start_(F, C, grams, free, l1, l2, multiply):
    """One weighted sweep over the coordinates of a start, or one multiplicative update."""
    for v, c, G in zip(F.T, C.T, grams, strict=True):
        before = v.copy()
        for k in range(len(v)):
            if free is not None and not free[k]:
                continue
            if multiply:
                down = G[k] @ before + l1 + l2 * before[k]
                v[k] = before[k] * c[k] / down if down > 0 else v[k]
            elif G[k, k] + l2 > 0:
                v[k] = max(0, v[k] + (c[k] - G[k] @ v - l1 - l2 * v[k]) / (G[k, k] + l2))
            elif l1 > 0:
                v[k] = 0


def sweep_(F, fixed, lines, l1=0.0, l2=0.0, floor=0.0, free=None, sums=None):
    """One sweep over the coordinates of a start."""
    old = F.copy()
    sums = np.tile(fixed.sum(axis=1)[:, None], len(lines)) if sums is None else sums
    for v, x, own in zip(F.T, lines, sums.T, strict=True):
        for k, f in enumerate(fixed):
            if own[k] + l1 + l2 > 0 and (free is None or free[k]):
                v[k] = _moved(v[k], v @ fixed - v[k] * f, f, own[k], x, l1, l2, floor)
    return _norms(F, old)


def _moved(v, rest, f, f_sum, x, l1, l2, floor):
    """Where a coordinate goes, beside what the others make of the line."""
    x, f, rest = x[x > 0], f[x > 0], rest[x > 0]
    y = np.maximum(rest + v * f, floor)
    psi, eta = (f * x / y).sum(), (f * f * x / y**2).sum()
    S = f_sum + l1 + l2 * v
    if psi <= S and v == 0:
        return 0.0
    if eta == 0:
        return 0.0
    # Newton on 1/psi = 1/(S + l2 step), whose left side is taken as linear in the step
    b = S * eta + l2 * psi
    step = 2 * psi * (psi - S) / (b + np.sqrt(b * b + 4 * l2 * eta * psi * (psi - S)))
    if psi >= S:
        return v + step
    with np.errstate(divide="ignore"):
        if v + step <= 0 and np.divide(f * x, np.maximum(rest, floor)).sum() <= f_sum + l1:
            return 0.0
    return max(v + step, v / (1 + (S - psi) / ((eta + l2) * v)) ** 2)


def mu_step_(F, fixed, lines, l1=0.0, l2=0.0, floor=0.0, sums=None):
    """One multiplicative update of a start."""
    ratio = lines / _fit(F, fixed, floor)
    sums = fixed.sum(axis=1)[:, None] if sums is None else sums
    F *= (fixed @ ratio.T) / (sums + l1 + l2 * F)


def information(w_p, h_p, w_q, h_q):
    """N·I of two components: D of their sum from the product of its marginals."""
    both = np.outer(w_p, h_p) + np.outer(w_q, h_q)
    rows, columns = both.sum(axis=1), both.sum(axis=0)
    return divergence(both, np.outer(rows, columns) / both.sum())
