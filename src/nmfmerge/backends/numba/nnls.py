"""Nonnegative least squares to the exact solution: coordinate descent, then an active set.

A few sweeps of coordinate descent find nearly all of the support; Lawson & Hanson's active-set
iteration, begun from there and working on the Gram alone, ends at the solution itself.
"""

import numpy as np

from nmfmerge.backends.numba.blocks import BLOCK, inlined, kernel, part
from nmfmerge.backends.numba.shares import over_blocks

_SWEEPS = 20
_DEPENDENT = 1e-13  # a squared pivot below this (unit diagonal) marks a dependent column


def nnls_columns(G, C):
    """Solve ``min ½ fᵀG f − cᵀf, f ≥ 0`` for each column c of C.

    Parameters
    ----------
    G : float64 array (r, r)
        Gram of the known factor; it may be singular.
    C : array (r, p)
        Cross product of the known factor with the data.

    Returns
    -------
    F : array (r, p)
        The solutions, of the kind of C.
    """
    F = np.empty_like(C)
    flops = 1.0 * _SWEEPS * F.size * len(F)
    over_blocks(_solve_blocks_, F[None], 0, flops, G, C)
    return F


def nnls_vector(G: np.ndarray, c: np.ndarray) -> np.ndarray:
    """`nnls_columns` for a single column, begun from the solution without f ≥ 0.

    One column is too little work to compile for.
    """
    diagonal = np.diag(G)
    scale = np.sqrt(np.divide(1, diagonal, out=np.zeros(len(c)), where=diagonal > 0))
    G, c = G * scale[:, None] * scale, c * scale
    tolerance = 10 * len(c) * np.finfo(np.float64).eps * np.abs(c).max(initial=0)
    x = np.maximum(_solved(G, c, scale > 0), 0)
    passive = x > 0
    for _ in range(10 * len(c)):
        target = _solved(G, c, passive)
        blocked = np.flatnonzero(passive & (target <= 0))
        if blocked.size:  # go towards the target until the first component becomes zero
            reach = x[blocked] / (x[blocked] - target[blocked])
            x = np.maximum(x + reach.min() * (target - x), 0)
            x[blocked[reach.argmin()]] = 0
            passive &= x > 0
            continue
        x = target
        slope = np.where(passive, 0, c - G @ x)
        if slope.max(initial=0) <= tolerance:
            break
        passive[slope.argmax()] = True
    return x * scale


def _solved(G: np.ndarray, c: np.ndarray, passive: np.ndarray) -> np.ndarray:
    """The solution on the passive set, zero elsewhere; of several, the shortest."""
    x = np.zeros(len(c))
    rows = G[passive][:, passive]
    x[passive] = np.linalg.lstsq(rows, c[passive], rcond=_DEPENDENT)[0]
    return x


@kernel
def _solve_blocks_(F_all, G, C, notes, first, last):
    F = F_all[0]
    r, p = F.shape
    scale = np.empty(r, G.dtype)
    for t in range(r):
        scale[t] = 1 / np.sqrt(G[t, t]) if G[t, t] > 0 else 0.0
    unit = np.empty((r, r), G.dtype)
    for t in range(r):
        for s in range(r):
            unit[t, s] = G[t, s] * scale[t] * scale[s]
    c, x, target = np.empty(r, G.dtype), np.empty(r, G.dtype), np.empty(r, G.dtype)
    L = np.empty((r, r), G.dtype)
    passive = np.empty(r, np.bool_)
    index = np.empty(r, np.int64)
    for j in range(first * BLOCK, min(last * BLOCK, p)):
        for t in range(r):
            c[t] = C[t, j] * scale[t]
        _descend(x, unit, c)
        for t in range(r):
            passive[t] = x[t] > 0
        _active_set(x, unit, c, passive, target, L, index)
        for t in range(r):
            F[t, j] = x[t] * scale[t]


@inlined
def _descend(x, G, c):
    """Start from zero and sweep over the coordinates; G has a unit diagonal (or zero rows)."""
    x[:] = 0
    for _ in range(_SWEEPS):
        for t in range(x.size):
            if G[t, t] > 0:
                value = x[t] + c[t]
                row = G[t]
                for s in range(x.size):
                    value -= row[s] * x[s]
                x[t] = value if value > 0 else 0.0


@inlined
def _active_set(x, G, c, passive, target, L, index):
    """Lawson & Hanson's iteration from the feasible x whose support is ``passive``."""
    r = x.size
    largest = 0.0
    for t in range(r):
        largest = max(largest, abs(c[t]))
    tolerance = 10 * r * np.finfo(np.float64).eps * largest
    added = 0
    while added < 3 * r + 10:
        if not _solve_passive(target, G, c, passive, L, index):
            continue  # a dependent component has left the passive set
        if not _step_to(x, target, passive):
            continue  # a component has become zero and left it
        best = -1
        slope = tolerance
        for t in range(r):
            if not passive[t] and G[t, t] > 0:
                value = c[t]
                row = G[t]
                for s in range(r):
                    value -= row[s] * x[s]
                if value > slope:
                    best, slope = t, value
        if best < 0:
            return
        passive[best] = True
        added += 1


@part
def _solve_passive(target, G, c, passive, L, index):
    """Solve on the passive set by Cholesky; drop a dependent column and return False."""
    k = 0
    for t in range(passive.size):
        target[t] = 0
        if passive[t]:
            index[k] = t
            k += 1
    for i in range(k):
        for j in range(i + 1):
            value = G[index[i], index[j]]
            for s in range(j):
                value -= L[i, s] * L[j, s]
            if i > j:
                L[i, j] = value / L[j, j]
            elif value > _DEPENDENT:
                L[i, i] = np.sqrt(value)
            else:
                passive[index[i]] = False
                return False
        value = c[index[i]]
        for s in range(i):
            value -= L[i, s] * target[index[s]]
        target[index[i]] = value / L[i, i]
    for i in range(k - 1, -1, -1):
        value = target[index[i]]
        for s in range(i + 1, k):
            value -= L[s, i] * target[index[s]]
        target[index[i]] = value / L[i, i]
    return True


@part
def _step_to(x, target, passive):
    """Move x towards target as far as it stays nonnegative; True when it arrived."""
    reach = 1.0
    for t in range(x.size):
        if passive[t] and target[t] <= 0:
            reach = min(reach, x[t] / (x[t] - target[t]) if x[t] > target[t] else 0.0)
    arrived = True
    for t in range(x.size):
        if not passive[t]:
            x[t] = 0
            continue
        blocked = target[t] <= 0 and x[t] * (1 - reach) + reach * target[t] <= 1e-15 * x[t]
        x[t] += reach * (target[t] - x[t])
        if blocked or x[t] <= 0:
            x[t] = 0
            passive[t] = False
            arrived = False
    return arrived
