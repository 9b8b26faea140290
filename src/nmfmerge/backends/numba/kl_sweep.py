"""Safeguarded coordinate descent for the Kullback–Leibler divergence.

For one coordinate v beside the row f of the fixed factor let S = Σ f, ψ = Σ f x/y and
η = Σ f² x/y², sums over stored entries; ψ(v) = S at the minimum (`kl_step`). Lines are swept
over one at a time, short dense ones side by side (`kl_panel`).
"""

import numpy as np

from nmfmerge.backends.numba.blocks import BLOCK, inlined, kernel
from nmfmerge.backends.numba.kl_lines import (
    SPARSE,
    fit_line_,
    load_block_,
    load_line_,
    x_log_y,
)
from nmfmerge.backends.numba.kl_panel import is_short, load_panel_, panel_x_log_y, sweep_panel_
from nmfmerge.backends.numba.kl_step import pull_at_zero, tangent_step
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
        sweep_blocks_, F, 2 * r + 1, 8.0 * n_starts * r * lines.values.size * n_sweeps,
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


@kernel
def sweep_blocks_(
    F_all, fixed, rows, lines, sums, l2, floor, n_sweeps, value, free, notes, first, last
):
    """Sweep over some blocks of columns of all starts; notes get the sums of `kl_sweep_`."""
    _, r, p = F_all.shape
    q, longest, dtype = fixed.shape[2], lines.longest, F_all.dtype
    short = is_short(lines, q)
    old = np.empty((r, BLOCK), dtype)
    v = np.empty(r, dtype)
    tile = np.empty((0 if short else BLOCK, q), lines.values.dtype)
    panel = np.empty((q if short else 0, BLOCK), dtype)
    fit = np.empty_like(panel)
    G = np.empty((r, 0 if short else longest), dtype)
    x, y = np.empty(longest, dtype), np.empty(longest, dtype)
    t, inverse = np.empty(longest, dtype), np.empty(longest, dtype)
    z, k = np.empty(max(longest, BLOCK)), np.empty(max(longest, BLOCK))
    for block in range(first, last):
        i, start = start_of(block, p, BLOCK)
        F, S = F_all[i], sums[i]
        width = min(BLOCK, p - start)
        note = notes[block]
        note[:] = 0
        for c in range(r):
            for b in range(width):
                old[c, b] = F[c, start + b]
        if short:
            load_panel_(panel, lines, start, width, q)
            sweep_panel_(F, start, width, fixed[i], panel, fit, S, l2, floor, n_sweeps, free)
            if value:
                note[2 * r] += panel_x_log_y(panel, fit, width, q, floor, z, k)
        else:
            load_block_(tile, lines, start, width, q)
        for b in range(0 if short else width):
            for c in range(r):
                v[c] = F[c, start + b]
            n = load_line_(x, G, lines, tile, start, b, q, rows[i])
            A = fixed[i] if n == q and lines.layout != SPARSE else G
            fit_line_(y, A, v, n)
            of_line = S[start + b if len(S) > 1 else 0]
            _sweep_line_(v, x, y, A, t, inverse, n, of_line, l2, floor, n_sweeps, free)
            if value:
                note[2 * r] += x_log_y(x, y, n, floor, z, k)
            for c in range(r):
                F[c, start + b] = v[c]
        for c in range(r):
            new = F[c, start : start + width]
            for b in range(width):
                before = old[c, b]
                note[c] += (new[b] - before) * (new[b] - before)
                note[r + c] += (new[b] + before) * (new[b] + before)


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
            new, least = tangent_step(old, psi, eta, sums[c], l2)
            if least > 0 >= new and pull_at_zero(old, g, x, y, n, floor) <= sums[c]:
                least = 0.0
            new = x.dtype.type(max(new, least))
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
