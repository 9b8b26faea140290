"""Greedy coordinate descent (Hsieh & Dhillon 2011): in each column of F the best step first."""

import numpy as np

from nmfmerge.backends.numba.blocks import BLOCK, inlined, kernel, least_curvature
from nmfmerge.backends.numba.shares import add_blocks, over_blocks, start_of

_STEPS = 3  # rough number of steps taken in a column, to guess the work


def gcd_sweep_(F, G, C, tolerance, active=None):
    """Take greedy steps in each column of F, in place, while one brings enough.

    Enough is more than ``tolerance`` times what one step can bring at the most in any column of the
    same start. At most r² steps a column. All arrays have a first axis of starts; on a CPU all of
    them are active. Returns ``‖new − old‖²`` and ``‖new + old‖²`` of each component.
    """
    n_starts, r, _ = F.shape
    flops, least = 2.0 * F.size * r, least_curvature(F.dtype)
    G = np.ascontiguousarray(G)  # for each layout it would be compiled again
    decreases = over_blocks(_decrease_blocks_, F, 1, flops, G, C, least)
    threshold = tolerance * decreases.reshape(n_starts, -1).max(axis=1)
    threshold = threshold.astype(F.dtype)
    notes = over_blocks(_sweep_blocks_, F, 2 * r, _STEPS * flops, G, C, least, threshold)
    sums = add_blocks(notes, n_starts)
    return sums[:, :r], sums[:, r:]


@kernel
def _decrease_blocks_(F_all, G_all, C_all, least, notes, first, last):
    _, r, p = F_all.shape
    columns, gradients = np.empty((BLOCK, r), F_all.dtype), np.empty((BLOCK, r), F_all.dtype)
    decrease = np.empty(r, F_all.dtype)
    for block in range(first, last):
        i, start = start_of(block, p, BLOCK)
        F, G, C = F_all[i], G_all[i], C_all[i]
        curvature, inverse = _curvatures(G, least)
        width = min(BLOCK, p - start)
        _load_(columns, gradients, F, G, C, start, width)
        largest = 0.0
        for b in range(width):
            _note_decreases_(decrease, columns[b], gradients[b], curvature, inverse)
            largest = max(largest, decrease[_largest(decrease)])
        notes[block, 0] = largest


@kernel
def _sweep_blocks_(F_all, G_all, C_all, least, threshold, notes, first, last):
    _, r, p = F_all.shape
    zero = F_all.dtype.type(0)
    columns, gradients = np.empty((BLOCK, r), F_all.dtype), np.empty((BLOCK, r), F_all.dtype)
    decrease = np.empty(r, F_all.dtype)
    for block in range(first, last):
        i, start = start_of(block, p, BLOCK)
        F, G, C = F_all[i], G_all[i], C_all[i]
        curvature, inverse = _curvatures(G, least)
        width = min(BLOCK, p - start)
        _load_(columns, gradients, F, G, C, start, width)
        for b in range(width):
            column, gradient = columns[b], gradients[b]
            for _ in range(r * r):
                _note_decreases_(decrease, column, gradient, curvature, inverse)
                q = _largest(decrease)
                if decrease[q] <= threshold[i]:
                    break
                new = column[q] - gradient[q] * inverse[q]
                new = new if new > zero else zero
                step = new - column[q]
                column[q] = new
                row = G[q]
                for t in range(r):
                    gradient[t] += step * row[t]
        for t in range(r):
            target = F[t, start : start + width]
            difference, size = zero, zero
            for b in range(width):
                old, new = target[b], columns[b, t]
                difference += (new - old) * (new - old)
                size += (new + old) * (new + old)
                target[b] = new
            notes[block, t] = difference
            notes[block, r + t] = size


@inlined
def _curvatures(G, least):
    """Diagonal of G and its inverse, 0 where it is next to 0: such coordinates rest."""
    r = G.shape[0]
    curvature, inverse = np.empty(r, G.dtype), np.zeros(r, G.dtype)
    for t in range(r):
        curvature[t] = G[t, t]
        if curvature[t] > least:
            inverse[t] = 1 / curvature[t]
    return curvature, inverse


@inlined
def _load_(columns, gradients, F, G, C, start, width):
    """Copy columns of F, each in one piece, and compute their gradients ``G f − c``."""
    r = F.shape[0]
    for t in range(r):
        source, cross = F[t, start : start + width], C[t, start : start + width]
        for b in range(width):
            columns[b, t] = source[b]
            gradients[b, t] = -cross[b]
    for b in range(width):
        gradient = gradients[b]
        for s in range(r):
            value = columns[b, s]
            if value != 0:
                row = G[s]
                for t in range(r):
                    gradient[t] += value * row[t]


@inlined
def _note_decreases_(decrease, column, gradient, curvature, inverse):
    """The decrease by the best step of each coordinate alone."""
    zero = column.dtype.type(0)
    half = column.dtype.type(0.5)
    for t in range(column.size):
        new = column[t] - gradient[t] * inverse[t]
        new = new if new > zero else zero
        step = new - column[t]
        decrease[t] = -step * (gradient[t] + half * curvature[t] * step)


@inlined
def _largest(values):
    """Index of the first of the largest values."""
    best, most = 0, values[0]
    for t in range(1, values.size):
        if values[t] > most:
            best, most = t, values[t]
    return best
