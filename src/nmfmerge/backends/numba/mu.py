"""Multiplicative update (Lee & Seung 2001) for the Frobenius norm."""

import numpy as np

from nmfmerge.backends.numba.blocks import BLOCK, kernel
from nmfmerge.backends.numba.shares import add_blocks, over_blocks, start_of


@kernel
def mean_sizes(C):
    """Mean of |C| of each start."""
    means = np.zeros(C.shape[0])
    for i in range(C.shape[0]):
        for t in range(C.shape[1]):
            row = 0.0
            for value in C[i, t]:
                row += abs(value)
            means[i] += row
    return means / (C.shape[1] * C.shape[2])


def mu_step_(F, G, C, offset, tiny):
    """Update ``F ← F ∘ C / (G F + offset)`` in place; zeros stay zero.

    Where C is negative, as held components can make it, its size counts in the denominator. Values
    below ``tiny`` become zero, for denormal numbers are slow. All arrays have a first axis of
    starts. Returns ``‖new − old‖²`` and ``‖new + old‖²`` of each component.
    """
    n_starts, r, _ = F.shape
    offset, tiny = offset.astype(F.dtype), F.dtype.type(tiny)
    notes = over_blocks(_step_blocks_, F, 2 * r, 2.0 * F.size * r, G, C, offset, tiny)
    sums = add_blocks(notes, n_starts)
    return sums[:, :r], sums[:, r:]


@kernel
def _step_blocks_(F_all, G_all, C_all, offset, tiny, notes, first, last):
    _, r, p = F_all.shape
    zero = F_all.dtype.type(0)
    S = np.empty((r, BLOCK), F_all.dtype)
    D = np.empty((r, BLOCK), F_all.dtype)
    for block in range(first, last):
        i, start = start_of(block, p, BLOCK)
        F, G, C = F_all[i], G_all[i], C_all[i]
        width = min(BLOCK, p - start)
        for t in range(r):
            source = F[t, start : start + width]
            row = S[t]
            for b in range(width):
                row[b] = source[b]
        for t in range(r):
            denominator = D[t]
            denominator[:width] = offset[i]
            for s in range(r):
                g = G[t, s]
                row = S[s]
                for b in range(width):
                    denominator[b] += g * row[b]
        for t in range(r):
            target = F[t, start : start + width]
            numerator = C[t, start : start + width]
            old_row = S[t]
            denominator = D[t]
            difference = zero
            size = zero
            for b in range(width):
                old = old_row[b]
                up = numerator[b] if numerator[b] > zero else zero
                down = denominator[b] + (up - numerator[b])
                new = old * (up / down)
                new = new if new > tiny else zero
                difference += (new - old) * (new - old)
                size += (new + old) * (new + old)
                target[b] = new
            notes[block, t] = difference
            notes[block, r + t] = size
