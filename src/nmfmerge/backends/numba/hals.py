"""HALS sweep (Cichocki & Phan 2009): every component of F to its minimum, one after another."""

import numpy as np

from nmfmerge.backends.numba.blocks import BLOCK, inlined, kernel, least_curvature, part
from nmfmerge.backends.numba.shares import add_blocks, over_blocks, start_of


def hals_sweep_(F, G, C, n_sweeps=1, active=None):
    """Sweep ``n_sweeps`` times over the components of F, in place.

    For component t, with the components before it already updated:
    ``f_t ← max(0, f_t + (c_t − G_t F) / G_tt)``; t is skipped where ``G_tt`` is zero or next to it.

    Parameters
    ----------
    F : array (n_starts, r, p)
        Factor of each start, updated in place.
    G : array (n_starts, r, r)
        Gram of the other factor.
    C : array (n_starts, r, p)
        Cross product of the other factor with the data.
    n_sweeps : int
        How often; a block of columns stays in cache for all of them.
    active : None
        For starts that wait, which there are on a device only.

    Returns
    -------
    moved, total : float64 arrays (n_starts, r)
        ``‖new − old‖²`` and ``‖new + old‖²`` of each component in the first sweep.
    decrease : float64 array (n_starts,)
        By how much the objective ``½⟨F, G F⟩ − ⟨C, F⟩`` fell: a sum of decreases, none of them
        negative, so that it is exact where the objective itself cancels.
    """
    n_starts, r, _ = F.shape
    flops = 2.0 * F.size * r * n_sweeps
    least = least_curvature(F.dtype)
    G = np.ascontiguousarray(G)  # for each layout it would be compiled again
    notes = over_blocks(_sweep_blocks_, F, 2 * r + 1, flops, G, C, n_sweeps, least)
    sums = add_blocks(notes, n_starts)
    return sums[:, :r], sums[:, r : 2 * r], sums[:, 2 * r]


@kernel
def _sweep_blocks_(F_all, G_all, C_all, n_sweeps, least, notes, first, last):
    _, r, p = F_all.shape
    S, A = np.empty((r, BLOCK), F_all.dtype), np.empty((4, BLOCK), F_all.dtype)
    inverse, rest = np.empty(r, F_all.dtype), np.empty(2 * r, notes.dtype)
    for block in range(first, last):
        i, start = start_of(block, p, BLOCK)
        inverses_(inverse, G_all[i], least)
        sweep_block_(
            F_all[i], G_all[i], C_all[i], inverse, n_sweeps, start, S, A, notes[block], rest
        )


@part
def inverses_(inverse, G, least):
    """1/G_tt of each component, or 0, which leaves a component where it is."""
    one = inverse.dtype.type(1)
    for t in range(inverse.size):
        inverse[t] = one / G[t, t] if G[t, t] > least else one - one


@part
def sweep_block_(F, G, C, inverse, n_sweeps, start, S, A, notes, rest):
    """Sweep over a block of columns; S (r × BLOCK), A (4 × BLOCK) and rest (2 r) are scratch.

    S is the block of F, contiguous, padded with zeros. ``notes`` gets ‖new − old‖² and
    ‖new + old‖² of each component in the first sweep, and the decrease of the objective.
    """
    r, p = F.shape
    width = min(BLOCK, p - start)
    if width < BLOCK:
        S[:] = 0
    for t in range(r):
        source = F[t, start : start + width]
        row = S[t]
        for b in range(width):
            row[b] = source[b]
    decrease = 0.0
    for sweep in range(n_sweeps):
        norms = notes if sweep == 0 else rest
        # Four components at a time share the loads of S. Each of them sees the old values of
        # the four in its residual, and is corrected for what those before it moved.
        for t in range(0, r - 3, 4):
            _residuals(A[0], A[1], A[2], A[3], C, G, S, t, start, width)
            decrease += _move_four(S, A[0], A[1], A[2], A[3], G, inverse, norms, t)
        for t in range(r - r % 4, r):
            _residual(A[0], C[t], G[t], S, start, width)
            decrease += _move_one(S, A[0], G, inverse, norms, t)
    notes[2 * r] = decrease
    for t in range(r):
        target = F[t, start : start + width]
        row = S[t]
        for b in range(width):
            target[b] = row[b]


@inlined
def _residuals(a0, a1, a2, a3, C, G, S, t, start, width):
    """Put ``c − G S`` of components t … t + 3 into a0 … a3.

    Assigned in pairs: of four values the compiler would first make a tuple, which takes it longer.
    """
    r = S.shape[0]
    c0, c1 = C[t, start : start + width], C[t + 1, start : start + width]
    c2, c3 = C[t + 2, start : start + width], C[t + 3, start : start + width]
    for b in range(width):
        a0[b], a1[b] = c0[b], c1[b]
        a2[b], a3[b] = c2[b], c3[b]
    for b in range(width, BLOCK):
        a0[b], a1[b] = 0, 0
        a2[b], a3[b] = 0, 0
    g0, g1 = G[t], G[t + 1]
    g2, g3 = G[t + 2], G[t + 3]
    for s in range(0, r - 3, 4):
        x0, x1 = S[s], S[s + 1]
        x2, x3 = S[s + 2], S[s + 3]
        g00, g01 = g0[s], g0[s + 1]
        g02, g03 = g0[s + 2], g0[s + 3]
        g10, g11 = g1[s], g1[s + 1]
        g12, g13 = g1[s + 2], g1[s + 3]
        g20, g21 = g2[s], g2[s + 1]
        g22, g23 = g2[s + 2], g2[s + 3]
        g30, g31 = g3[s], g3[s + 1]
        g32, g33 = g3[s + 2], g3[s + 3]
        for b in range(BLOCK):
            y0, y1 = x0[b], x1[b]
            y2, y3 = x2[b], x3[b]
            a0[b] -= g00 * y0 + g01 * y1 + g02 * y2 + g03 * y3
            a1[b] -= g10 * y0 + g11 * y1 + g12 * y2 + g13 * y3
            a2[b] -= g20 * y0 + g21 * y1 + g22 * y2 + g23 * y3
            a3[b] -= g30 * y0 + g31 * y1 + g32 * y2 + g33 * y3
    for s in range(r - r % 4, r):
        x = S[s]
        h0, h1 = g0[s], g1[s]
        h2, h3 = g2[s], g3[s]
        for b in range(BLOCK):
            y = x[b]
            a0[b] -= h0 * y
            a1[b] -= h1 * y
            a2[b] -= h2 * y
            a3[b] -= h3 * y


@inlined
def _residual(a, c, g, S, start, width):
    """Put ``c − g S`` of one component into a."""
    c = c[start : start + width]
    for b in range(width):
        a[b] = c[b]
    for b in range(width, BLOCK):
        a[b] = 0
    for s in range(S.shape[0]):
        x = S[s]
        h = g[s]
        for b in range(BLOCK):
            a[b] -= h * x[b]


@inlined
def _move_four(S, a0, a1, a2, a3, G, inverse, norms, t):
    """Move components t … t + 3 to their minima, one after another; return the decrease.

    A component that moves by d against the residual a, with curvature g, lowers the objective by
    ``d (a − g d / 2)``.
    """
    r = S.shape[0]
    s0, s1 = S[t], S[t + 1]
    s2, s3 = S[t + 2], S[t + 3]
    g00, g11 = G[t, t], G[t + 1, t + 1]
    g22, g33 = G[t + 2, t + 2], G[t + 3, t + 3]
    i0, i1 = inverse[t], inverse[t + 1]
    i2, i3 = inverse[t + 2], inverse[t + 3]
    g10, g20, g30 = G[t + 1, t], G[t + 2, t], G[t + 3, t]
    g21, g31, g32 = G[t + 2, t + 1], G[t + 3, t + 1], G[t + 3, t + 2]
    half = S.dtype.type(0.5)
    zero = S.dtype.type(0)
    moved0, moved1 = zero, zero
    moved2, moved3 = zero, zero
    total0, total1 = zero, zero
    total2, total3 = zero, zero
    slope0, slope1 = zero, zero
    slope2, slope3 = zero, zero
    for b in range(BLOCK):
        x0, x1 = s0[b], s1[b]
        x2, x3 = s2[b], s3[b]
        e0 = a0[b]
        y0 = x0 + e0 * i0
        y0 = y0 if y0 > zero else zero
        d0 = y0 - x0
        e1 = a1[b] - g10 * d0
        y1 = x1 + e1 * i1
        y1 = y1 if y1 > zero else zero
        d1 = y1 - x1
        e2 = a2[b] - g20 * d0 - g21 * d1
        y2 = x2 + e2 * i2
        y2 = y2 if y2 > zero else zero
        d2 = y2 - x2
        e3 = a3[b] - g30 * d0 - g31 * d1 - g32 * d2
        y3 = x3 + e3 * i3
        y3 = y3 if y3 > zero else zero
        d3 = y3 - x3
        s0[b], s1[b] = y0, y1
        s2[b], s3[b] = y2, y3
        moved0 += d0 * d0
        moved1 += d1 * d1
        moved2 += d2 * d2
        moved3 += d3 * d3
        total0 += (x0 + y0) * (x0 + y0)
        total1 += (x1 + y1) * (x1 + y1)
        total2 += (x2 + y2) * (x2 + y2)
        total3 += (x3 + y3) * (x3 + y3)
        slope0 += d0 * e0
        slope1 += d1 * e1
        slope2 += d2 * e2
        slope3 += d3 * e3
    norms[t], norms[t + 1] = moved0, moved1
    norms[t + 2], norms[t + 3] = moved2, moved3
    norms[r + t], norms[r + t + 1], norms[r + t + 2], norms[r + t + 3] = (
        total0, total1, total2, total3
    )  # fmt: skip
    return (
        (slope0 - half * g00 * moved0)
        + (slope1 - half * g11 * moved1)
        + (slope2 - half * g22 * moved2)
        + (slope3 - half * g33 * moved3)
    )


@inlined
def _move_one(S, residual, G, inverse, norms, t):
    """Move one component to its minimum; return the decrease."""
    row = S[t]
    curvature = G[t, t]
    zero = S.dtype.type(0)
    moved, total, slope = zero, zero, zero
    for b in range(BLOCK):
        old = row[b]
        new = old + residual[b] * inverse[t]
        new = new if new > zero else zero
        step = new - old
        moved += step * step
        total += (new + old) * (new + old)
        slope += step * residual[b]
        row[b] = new
    norms[t], norms[S.shape[0] + t] = moved, total
    return slope - S.dtype.type(0.5) * curvature * moved
