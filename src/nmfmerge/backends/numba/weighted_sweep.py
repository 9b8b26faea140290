"""Coordinate descent for the weighted squared error ½ Σ m (x − y)², y = WH, line by line.

With the fixed factor f, a line of X asks for ``min ½ vᵀG v − cᵀv, v ≥ 0`` with its own Gram
``G = Σ m f fᵀ`` and ``c = Σ m x f``. Most weights are one: ``m = base ± u`` with few u, so G is
``base`` times the Gram of all, more or less a sum over the entries that have a u. That sum is never
formed: y at these entries is kept and updated, so that a sweep costs O(r) for each of them.
"""

import numpy as np

from nmfmerge.backends.numba.blocks import BLOCK, inlined, kernel
from nmfmerge.backends.numba.kl_lines import SPARSE, fit_line_, load_block_, load_line_
from nmfmerge.backends.numba.kl_sweep import row_major
from nmfmerge.backends.numba.shares import add_blocks, over_blocks, start_of

# A curvature below this share of that without missing entries may be rounding: the line is then
# summed over what is observed.
_WEAK = {np.dtype(np.float32): 1e-2, np.dtype(np.float64): 1e-6}


def weighted_sweep_(
    F, fixed, C, G, lines, n_sweeps=1, value=False, free=None, l1=0.0, l2=0.0, multiply=False,
    active=None,
):  # fmt: skip
    """Sweep over the coordinates of F, in place; no step raises the objective.

    Parameters
    ----------
    F : array (n_starts, r, p)
        Factor of each start, updated in place.
    fixed : array (n_starts, r, q)
        The other factor.
    C : array (n_starts, r, p)
        Σ m x f of each line.
    G : float64 array (n_starts, r, r) or None
        The Gram of ``fixed``, if the weights are 1 − u; None if they are u.
    lines : Lines
        The u of each of the p lines, nonnegative.
    n_sweeps : int
        How often; a line stays in cache for all of them.
    value : bool
        Whether ⟨F, C⟩ less half the weighted square of WH is asked for.
    free : bool array (r,), optional
        Components that are updated; the others are held.
    l1, l2 : float
        Penalty ``l1·Σv + ½·l2·Σv²`` on F.
    multiply : bool
        Multiplicative updates in place of coordinate descent.
    active : None
        For starts that wait, which there are on a device only.

    Returns
    -------
    moved, total : float64 arrays (n_starts, r)
        ``‖new − old‖²`` and ``‖new + old‖²`` of each component, over all sweeps.
    fit : float64 array (n_starts,)
        ⟨F, C⟩ − ½ Σ m y² at the new F; zeros unless asked for.
    """
    n_starts, r, _ = F.shape
    free = np.ones(r, dtype=np.bool_) if free is None else free
    base = G is not None
    G = np.zeros((n_starts, r, r)) if G is None else G
    notes = over_blocks(
        _sweep_blocks_, F, 2 * r + 1, 6.0 * n_starts * r * lines.values.size * n_sweeps,
        fixed, row_major(fixed, lines), C, G, base, lines, float(l1), float(l2),
        _WEAK[F.dtype], n_sweeps, value, free, multiply, float(np.finfo(F.dtype).tiny),
    )  # fmt: skip
    sums = add_blocks(notes, n_starts)
    return sums[:, :r], sums[:, r : 2 * r], sums[:, 2 * r]


@kernel
def _sweep_blocks_(
    F_all, fixed, rows, C, G_all, based, lines, l1, l2, weak, n_sweeps, value, free, multiply, tiny,
    notes, first, last,
):  # fmt: skip
    _, r, p = F_all.shape
    q = fixed.shape[2]
    dtype = F_all.dtype
    none = np.zeros((r, r))
    V = np.empty((BLOCK, r), dtype)
    tile = np.empty((BLOCK, q), lines.values.dtype)
    beside = np.empty((r, lines.longest), dtype)
    u, y = np.empty(q, dtype), np.empty(q, dtype)
    down = np.empty(r)
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
            v, target = V[b], C[i, :, start + b]
            n = load_line_(u, beside, lines, tile, start, b, q, rows[i])
            A = fixed[i] if n == q and lines.layout != SPARSE else beside
            G = G_all[i]
            sign = -1.0 if based else 1.0
            is_weak = _curvatures_(down, u, A, n, G, sign)
            for c in range(r):
                is_weak |= based and down[c] < weak * G[c, c]
            if is_weak:
                _complement_(u, lines, start + b, q)
                A, G, n, sign = fixed[i], none, q, 1.0
                _curvatures_(down, u, A, n, G, sign)
            fit_line_(y, A, v, n)
            if multiply:
                _multiply_line_(v, target, u, y, A, n, G, sign, l1, l2, free, tiny)
                fit_line_(y, A, v, n)
            else:
                for _ in range(n_sweeps):
                    _sweep_line_(v, target, u, y, A, n, G, sign, down, l1, l2, free, tiny)
            if value:
                note[2 * r] += _fit_of(v, target, u, y, n, G, sign)
        for c in range(r):
            row = F[c, start : start + width]
            for b in range(width):
                old, new = row[b], V[b, c]
                note[c] += (new - old) * (new - old)
                note[r + c] += (new + old) * (new + old)
                row[b] = new


@inlined
def _curvatures_(down, u, A, n, G, sign):
    """Put the diagonal of the Gram of a line into ``down``; returns False, to begin a test with."""
    for c in range(down.size):
        f = A[c]
        total = u.dtype.type(0)
        for e in range(n):
            total += u[e] * f[e] * f[e]
        down[c] = G[c, c] + sign * total
    return False


@inlined
def _complement_(u, lines, line, q):
    """Put 1 − u of a whole sparse line into u."""
    for e in range(q):
        u[e] = 1
    for at in range(lines.indptr[line], lines.indptr[line + 1]):
        u[lines.places[at]] -= lines.values[at]


@inlined
def _slope(c, v, target, u, y, A, n, G, sign):
    """Σ m f (x − y): minus the gradient of a coordinate."""
    f, row = A[c], G[c]
    total = u.dtype.type(0)
    for e in range(n):
        total += u[e] * f[e] * y[e]
    slope = np.float64(target[c]) - sign * total
    for k in range(v.size):
        slope -= row[k] * v[k]
    return slope


@inlined
def _sweep_line_(v, target, u, y, A, n, G, sign, down, l1, l2, free, tiny):
    """Move each coordinate to its minimum; one without any observation rests."""
    for c in range(v.size):
        curvature = down[c] + l2
        if not free[c]:
            continue
        old = v[c]
        if curvature <= tiny:
            new = old if l1 == 0 else u.dtype.type(0)
        else:
            slope = _slope(c, v, target, u, y, A, n, G, sign) - l1 - l2 * old
            new = u.dtype.type(max(0.0, old + slope / curvature))
        if new != old:
            step, f = new - old, A[c]
            v[c] = new
            for e in range(n):
                y[e] += step * f[e]


@inlined
def _multiply_line_(v, target, u, y, A, n, G, sign, l1, l2, free, tiny):
    """Multiply each coordinate by its part of X over that of WH; zeros stay zero."""
    before = v.copy()
    for c in range(v.size):
        top = np.float64(target[c])
        bottom = top - _slope(c, before, target, u, y, A, n, G, sign) + l1 + l2 * before[c]
        if free[c] and bottom > tiny:
            v[c] = u.dtype.type(before[c] * (top / bottom))


@inlined
def _fit_of(v, target, u, y, n, G, sign):
    """⟨v, c⟩ − ½ vᵀG v of a line."""
    total = 0.0
    for c in range(v.size):
        part = 0.0
        for k in range(v.size):
            part += G[c, k] * v[k]
        total += v[c] * (target[c] - 0.5 * part)
    squares = 0.0
    for e in range(n):
        squares += u[e] * y[e] * y[e]
    return total - 0.5 * sign * squares


def line_grams(G, fixed, lines, sign, first, last):
    """``G + sign · Σ u f fᵀ`` of the lines from first to before last (last − first, r, r)."""
    grams = np.empty((last - first, *G.shape))
    _line_grams_(G, fixed, row_major(fixed[None], lines)[0], lines, sign, first, grams)
    return grams


@kernel
def _line_grams_(G, fixed, rows, lines, sign, first, grams):
    r, q = fixed.shape
    tile = np.empty((1, q), lines.values.dtype)
    beside = np.empty((r, lines.longest), fixed.dtype)
    u = np.empty(q, fixed.dtype)
    for at in range(len(grams)):
        load_block_(tile, lines, first + at, 1, q)
        n = load_line_(u, beside, lines, tile, first + at, 0, q, rows)
        A = fixed if n == q and lines.layout != SPARSE else beside
        for c in range(r):
            for k in range(c + 1):
                total = 0.0
                for e in range(n):
                    total += u[e] * A[c, e] * A[k, e]
                grams[at, c, k] = G[c, k] + sign * total
                grams[at, k, c] = grams[at, c, k]
