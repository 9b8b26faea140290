"""Multiplicative update (Lee & Seung 2001) for the Frobenius norm."""

import numpy as np

from nmfmerge.kernels.blocks import BLOCK, kernel
from nmfmerge.kernels.parallel import add_blocks, over_blocks


def mu_step_(F, G, C, offset, tiny):
    """Update ``F ← F ∘ C / (G F + offset)`` in place; zeros stay zero.

    Where C is negative, as held components can make it, its size counts in the denominator. Values
    below ``tiny`` become zero, for denormal numbers are slow. Returns ``‖new − old‖²`` and
    ``‖new + old‖²`` of each component.
    """
    r = len(F)
    kind = F.dtype.type
    sums = add_blocks(
        over_blocks(_step_blocks_, F, 2 * r, 2.0 * F.size * r, G, C, kind(offset), kind(tiny))
    )
    return sums[:r], sums[r:]


@kernel
def _step_blocks_(F, G, C, offset, tiny, notes, first, last):
    r, p = F.shape
    zero = F.dtype.type(0)
    S = np.empty((r, BLOCK), F.dtype)
    D = np.empty((r, BLOCK), F.dtype)
    for block in range(first, last):
        start = block * BLOCK
        width = min(BLOCK, p - start)
        for t in range(r):
            source = F[t, start : start + width]
            row = S[t]
            for b in range(width):
                row[b] = source[b]
        for t in range(r):
            denominator = D[t]
            denominator[:width] = offset
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
