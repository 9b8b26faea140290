"""HALS sweep (Cichocki & Phan 2009): every component of F to its minimum, one after another."""

import numpy as np

from nmfmerge.kernels.blocks import BLOCK, kernel


@kernel
def hals_sweep_(F, G, C, moved, total, first, last):
    """Sweep once over the components of F, in place.

    For component t, with the components before it already updated:
    ``f_t ← max(0, f_t + (c_t − G_t F) / G_tt)``; t is skipped where ``G_tt = 0``.

    Parameters
    ----------
    F : array (r, p)
        Factor, updated in place.
    G : array (r, r)
        Gram of the other factor.
    C : array (r, p)
        Cross product of the other factor with the data.
    moved, total : float64 arrays (n_blocks, r)
        Receive, per block and component, ``‖new − old‖²`` and ``‖new + old‖²``.
    first, last : int
        The blocks to work on.
    """
    r, p = F.shape
    zero = F.dtype.type(0)
    S = np.zeros((r, BLOCK), F.dtype)  # the block of F, contiguous, padded with zeros
    a0 = np.zeros(BLOCK, F.dtype)
    a1 = np.zeros(BLOCK, F.dtype)
    for block in range(first, last):
        start = block * BLOCK
        width = min(BLOCK, p - start)
        if width < BLOCK:
            S[:] = zero
        for t in range(r):
            source = F[t, start : start + width]
            row = S[t]
            for b in range(width):
                row[b] = source[b]

        # Two components at a time share the loads of S. The second sees the first's old value
        # in the sum and is corrected by G[t+1, t] times what the first moved.
        for t in range(0, r - 1, 2):
            _residuals(a0, a1, C[t], C[t + 1], G[t], G[t + 1], S, start, width)
            _move(S[t], a0, G[t, t], moved, total, block, t, a1, G[t + 1, t])
            _move(S[t + 1], a1, G[t + 1, t + 1], moved, total, block, t + 1, a0, zero)
        if r % 2:
            t = r - 1
            _residual(a0, C[t], G[t], S, start, width)
            _move(S[t], a0, G[t, t], moved, total, block, t, a1, zero)

        for t in range(r):
            target = F[t, start : start + width]
            row = S[t]
            for b in range(width):
                target[b] = row[b]


@kernel
def _residuals(a0, a1, c0, c1, g0, g1, S, start, width):
    """Put ``c_t − G_t S`` of two components into a0 and a1."""
    r = S.shape[0]
    c0 = c0[start : start + width]
    c1 = c1[start : start + width]
    if width < BLOCK:
        a0[:] = 0
        a1[:] = 0
    for b in range(width):
        a0[b] = c0[b]
        a1[b] = c1[b]
    for s in range(0, r - 3, 4):
        x0, x1, x2, x3 = S[s], S[s + 1], S[s + 2], S[s + 3]
        p0, p1, p2, p3 = g0[s], g0[s + 1], g0[s + 2], g0[s + 3]
        q0, q1, q2, q3 = g1[s], g1[s + 1], g1[s + 2], g1[s + 3]
        for b in range(BLOCK):
            y0, y1, y2, y3 = x0[b], x1[b], x2[b], x3[b]
            a0[b] -= p0 * y0 + p1 * y1 + p2 * y2 + p3 * y3
            a1[b] -= q0 * y0 + q1 * y1 + q2 * y2 + q3 * y3
    for s in range(r - r % 4, r):
        x = S[s]
        p, q = g0[s], g1[s]
        for b in range(BLOCK):
            a0[b] -= p * x[b]
            a1[b] -= q * x[b]


@kernel
def _residual(a0, c0, g0, S, start, width):
    """Put ``c_t − G_t S`` of one component into a0."""
    c0 = c0[start : start + width]
    if width < BLOCK:
        a0[:] = 0
    for b in range(width):
        a0[b] = c0[b]
    for s in range(S.shape[0]):
        x = S[s]
        p = g0[s]
        for b in range(BLOCK):
            a0[b] -= p * x[b]


@kernel
def _move(row, residual, curvature, moved, total, block, t, neighbour, coupling):
    """Move one component to its minimum, note how far, and correct the neighbour's residual."""
    zero = row.dtype.type(0)
    difference = zero
    size = zero
    if curvature > zero:
        inverse = row.dtype.type(1) / curvature
        for b in range(BLOCK):
            old = row[b]
            new = old + residual[b] * inverse
            new = new if new > zero else zero
            step = new - old
            difference += step * step
            size += (new + old) * (new + old)
            row[b] = new
            neighbour[b] -= coupling * step
    else:
        for b in range(BLOCK):
            size += 4 * row[b] * row[b]
    moved[block, t] = difference
    total[block, t] = size
