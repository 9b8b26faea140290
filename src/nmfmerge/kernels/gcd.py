"""Greedy coordinate descent (Hsieh & Dhillon 2011): in each column of F the best step first."""

import numpy as np

from nmfmerge.kernels.blocks import BLOCK, kernel


@kernel
def gcd_largest_decrease_(F, G, C, largest, first, last):
    """Put into largest[block] what one step of one coordinate can bring at the most."""
    r, p = F.shape
    gradient = np.empty(r, F.dtype)
    column = np.empty(r, F.dtype)
    for block in range(first, last):
        largest[block] = 0
        for j in range(block * BLOCK, min((block + 1) * BLOCK, p)):
            _load(column, gradient, F, G, C, j)
            _, _, decrease = _best_step(column, gradient, G)
            largest[block] = max(largest[block], decrease)


@kernel
def gcd_sweep_(F, G, C, threshold, moved, total, first, last):
    """Take greedy steps in each column of F, in place, while one brings more than ``threshold``.

    ``moved`` and ``total`` are as in `hals_sweep_`. At most r² steps a column.
    """
    r, p = F.shape
    gradient = np.empty(r, F.dtype)
    column = np.empty(r, F.dtype)
    for block in range(first, last):
        moved[block] = 0
        total[block] = 0
        for j in range(block * BLOCK, min((block + 1) * BLOCK, p)):
            _load(column, gradient, F, G, C, j)
            for _ in range(r * r):
                q, step, decrease = _best_step(column, gradient, G)
                if decrease <= threshold:
                    break
                column[q] += step
                row = G[q]
                for t in range(r):
                    gradient[t] += step * row[t]
            for t in range(r):
                old = F[t, j]
                new = column[t]
                moved[block, t] += (new - old) * (new - old)
                total[block, t] += (new + old) * (new + old)
                F[t, j] = new


@kernel
def _load(column, gradient, F, G, C, j):
    """Copy column j of F and compute its gradient ``G f − c``."""
    r = F.shape[0]
    for t in range(r):
        column[t] = F[t, j]
        gradient[t] = -C[t, j]
    for s in range(r):
        value = column[s]
        if value != 0:
            row = G[s]
            for t in range(r):
                gradient[t] += value * row[t]


@kernel
def _best_step(column, gradient, G):
    """Coordinate, step and decrease of the best single step; coordinates with G_qq = 0 rest."""
    zero = column.dtype.type(0)
    half = column.dtype.type(0.5)
    best = 0
    best_step = zero
    best_decrease = zero
    for q in range(column.size):
        curvature = G[q, q]
        if curvature > zero:
            new = column[q] - gradient[q] / curvature
            step = (new if new > zero else zero) - column[q]
            decrease = -gradient[q] * step - half * curvature * step * step
            if decrease > best_decrease:
                best, best_step, best_decrease = q, step, decrease
    return best, best_step, best_decrease
