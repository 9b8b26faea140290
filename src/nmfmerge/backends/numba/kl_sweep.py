"""Safeguarded coordinate descent for the Kullback–Leibler divergence.

For one coordinate v beside the row f of the fixed factor let S = Σ f, ψ = Σ f x/y and
η = Σ f² x/y², sums over stored entries; ψ(v) = S at the minimum. 1/ψ is concave, increasing and
nearly linear in v, so Newton's method is applied to it.
"""

import numpy as np

from nmfmerge.backends.numba.blocks import BLOCK, dividing_kernel, inlined
from nmfmerge.backends.numba.kl_lines import (
    SPARSE,
    fit_line_,
    load_block_,
    load_line_,
    x_log_y,
)
from nmfmerge.backends.numba.shares import add_blocks, over_blocks, start_of


def kl_sweep_(
    F, fixed, lines, floor, n_sweeps=1, value=False, free=None, l1=0.0, l2=0.0, active=None,
    sums=None,
):  # fmt: skip
    """Sweep over the coordinates of F, in place; no step raises the objective.

    Parameters
    ----------
    F : array (n_starts, r, p)
        Factor of each start, updated in place.
    fixed : array (n_starts, r, q)
        The other factor.
    lines : Lines
        The p lines of X that belong to F, each of length q.
    floor : float
        The least WH to divide by.
    n_sweeps : int
        How often; a line stays in cache for all of them.
    value : bool
        Whether Σ x log y is asked for.
    free : bool array (r,), optional
        Components that are updated; the others are held.
    l1, l2 : float
        Penalty ``l1·Σv + ½·l2·Σv²`` on F.
    active : None
        All starts are swept over, for on a CPU none waits.
    sums : float64 array (n_starts, r, p), optional
        S = Σ m f of each line, where entries have weights m; ``lines`` are then of m x.

    Returns
    -------
    moved, total : float64 arrays (n_starts, r)
        ``‖new − old‖²`` and ``‖new + old‖²`` of each component, over all sweeps.
    x_log_y : float64 array (n_starts,)
        Σ x log y over stored entries, at the new F; zeros unless asked for.
    """
    n_starts, r, _ = F.shape
    free = np.ones(r, dtype=np.bool_) if free is None else free
    notes = over_blocks(
        _sweep_blocks_, F, 2 * r + 1, 8.0 * n_starts * r * lines.values.size * n_sweeps,
        fixed, row_major(fixed, lines), lines, by_line(fixed, sums) + l1,
        float(l2), F.dtype.type(floor), n_sweeps, value, free,
    )  # fmt: skip
    sums = add_blocks(notes, n_starts)
    return sums[:, :r], sums[:, r : 2 * r], sums[:, 2 * r]


def by_line(fixed, sums):
    """Σ m f line by line (n_starts × p × r); n_starts × 1 × r if all lines have the same."""
    if sums is None:
        return fixed.sum(axis=2, dtype=np.float64)[:, None]
    return np.ascontiguousarray(sums.swapaxes(1, 2))


def row_major(fixed, lines):
    """The fixed factor row by row, where lines are gathered."""
    if lines.gathers:
        return np.ascontiguousarray(fixed.swapaxes(1, 2))
    return np.empty((len(fixed), 0, fixed.shape[1]), fixed.dtype)


@dividing_kernel
def _sweep_blocks_(
    F_all, fixed, rows, lines, sums, l2, floor, n_sweeps, value, free, notes, first, last
):
    _, r, p = F_all.shape
    q = fixed.shape[2]
    dtype = F_all.dtype
    V = np.empty((BLOCK, r), dtype)
    tile = np.empty((BLOCK, q), lines.values.dtype)
    G = np.empty((r, lines.longest), dtype)
    x, y = np.empty(lines.longest, dtype), np.empty(lines.longest, dtype)
    t, inverse = np.empty(lines.longest, dtype), np.empty(lines.longest, dtype)
    z, k = np.empty(lines.longest), np.empty(lines.longest)
    for block in range(first, last):
        i, start = start_of(block, p, BLOCK)
        F = F_all[i]
        width = min(BLOCK, p - start)
        load_block_(tile, lines, start, width, q)
        note = notes[block]
        note[:] = 0
        for c in range(r):
            for b in range(width):
                V[b, c] = F[c, start + b]
        for b in range(width):
            v, S = V[b], sums[i, start + b if sums.shape[1] > 1 else 0]
            n = load_line_(x, G, lines, tile, start, b, q, rows[i])
            A = fixed[i] if n == q and lines.layout != SPARSE else G
            fit_line_(y, A, v, n)
            _sweep_line_(v, x, y, A, t, inverse, n, S, l2, floor, n_sweeps, free)
            if value:
                note[2 * r] += x_log_y(x, y, n, floor, z, k)
        for c in range(r):
            target = F[c, start : start + width]
            for b in range(width):
                old, new = target[b], V[b, c]
                note[c] += (new - old) * (new - old)
                note[r + c] += (new + old) * (new + old)
                target[b] = new


@inlined
def _sweep_line_(v, x, y, A, t, inverse, n, sums, l2, floor, n_sweeps, free):
    """Move all coordinates of a line to about their minima, one after another; y goes with them.

    A move is added to y on the way of the next coordinate's sums. ``t`` is x/y and ``inverse`` 1/y
    until y changes.
    """
    f = A[0]
    step = x.dtype.type(0)
    stale = True
    for _ in range(n_sweeps):
        for c in range(v.size):
            if not free[c] or sums[c] + l2 <= 0:
                continue
            g = A[c]
            old = v[c]
            if stale:
                psi, eta = _moved_sums(y, step, f, g, x, t, inverse, n, floor)
                stale = False
            else:
                psi, eta = _sums(g, t, inverse, n, old > 0)
            if old == 0 and psi <= sums[c]:
                continue
            if eta == 0:
                psi, eta = _sums(g, t, inverse, n, True)
            new = x.dtype.type(_moved(old, psi, eta, sums[c], l2, g, x, y, n, floor))
            if new != old:
                f, step, stale = g, new - old, True
                v[c] = new
    if stale:
        for e in range(n):
            y[e] += step * f[e]


@inlined
def _moved_sums(y, step, f, g, x, t, inverse, n, floor):
    """Add ``step·f`` to y; return ψ and η of the coordinate beside g."""
    zero = y.dtype.type(0)
    one = y.dtype.type(1)
    psi, eta = zero, zero
    for e in range(n):
        fit = y[e] + step * f[e]
        y[e] = fit
        down = one / (fit if fit > floor else floor)
        ratio = x[e] * down
        inverse[e] = down
        t[e] = ratio
        part = g[e] * ratio
        psi += part
        eta += part * (g[e] * down)
    return np.float64(psi), np.float64(eta)


@inlined
def _sums(g, t, inverse, n, both):
    """ψ and η of a coordinate while y is as it was; without η where a zero is likely to stay."""
    psi, eta = g.dtype.type(0), g.dtype.type(0)
    if both:
        for e in range(n):
            part = g[e] * t[e]
            psi += part
            eta += part * (g[e] * inverse[e])
    else:
        for e in range(n):
            psi += g[e] * t[e]
    return np.float64(psi), np.float64(eta)


@inlined
def _moved(old, psi, eta, S, l2, g, x, y, n, floor):
    """Where a coordinate moves.

    The tangent of 1/ψ never goes beyond the minimum from below. From above it may, by far, so it
    is followed down to v/(1 + q)² at most, q = (S − ψ)/(ηv): the objective at v is a bound of that
    between the two, because ψ(u) ≤ ψ − ηv + ηv²/u for u < v.
    """
    S_old = S + l2 * old
    up = psi * (psi - S_old)
    down = S_old * eta + l2 * psi
    if down <= 0:  # no value of X is beside this coordinate
        return 0.0
    new = old + 2 * up / (down + np.sqrt(down * down + 4 * l2 * eta * up))
    if up >= 0:
        return new
    if new <= 0:
        at_zero = x.dtype.type(0)
        v = y.dtype.type(old)
        for e in range(n):
            rest = y[e] - v * g[e]
            at_zero += g[e] * x[e] / (rest if rest > floor else floor)
        if at_zero <= S:
            return 0.0
    shrink = 1 + (S_old - psi) / ((eta + l2) * old)
    return max(new, old / (shrink * shrink))
