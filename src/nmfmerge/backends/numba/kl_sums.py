"""Passes over all lines of X for the Kullback–Leibler divergence, with y = WH at stored entries.

Multiplicative updates, the divergence itself, and by how much merges of components would raise it.
"""

import numpy as np
import scipy.sparse as sp

from nmfmerge.backends.numba.blocks import BLOCK, kernel
from nmfmerge.backends.numba.kl_lines import (
    ALONG,
    SPARSE,
    fit_line_,
    load_block_,
    load_line_,
    log_,
    x_log_y,
)
from nmfmerge.backends.numba.kl_sweep import by_line, row_major
from nmfmerge.backends.numba.shares import add_blocks, over_blocks, start_of


def kl_line_sums(lines, n_lines, length):
    """Σ x and Σ x log x of each line (n_lines × 2), in float64."""
    sums = np.zeros((n_lines, 2))
    _line_sums_(lines, length, sums)
    return sums


@kernel
def _line_sums_(lines, length, sums):
    n_lines = len(sums)
    tile = np.empty((BLOCK, length), lines.values.dtype)
    x = np.empty(max(lines.longest, 1))
    k = np.empty(x.size)
    G, rows = np.empty((0, x.size)), np.empty((length, 0))
    for start in range(0, n_lines, BLOCK):
        width = min(BLOCK, n_lines - start)
        load_block_(tile, lines, start, width, length)
        for b in range(width):
            n = load_line_(x, G, lines, tile, start, b, length, rows)
            for e in range(n):
                sums[start + b, 0] += x[e]
            z = x[:n].copy()
            for e in range(n):
                z[e] = z[e] if z[e] > 0 else 1.0
            log_(z, k, n)
            for e in range(n):
                sums[start + b, 1] += x[e] * z[e]


def kl_mu_step_(F, fixed, lines, floor, tiny, l1=0.0, l2=0.0, sums=None):
    """Multiply F by ``(Σ f x/y) / (Σ f + l1 + l2 F)`` in place; zeros stay zero.

    Values below ``tiny`` become zero. With weights, ``sums`` are as in `kl_sweep_`.

    Returns ``‖new − old‖²`` and ``‖new + old‖²`` of each
    component (n_starts × r).
    """
    r = F.shape[1]
    notes = _multiplied(F, fixed, by_line(fixed, sums), lines, floor, tiny, l1, l2, True)
    return notes[:, :r], notes[:, r : 2 * r]


def kl_explained(F, fixed, lines, floor):
    """The part of each component in Σ X, Σ_ij x w_k h_k / y: its mass after an EM step."""
    r = F.shape[1]
    sums = np.zeros((len(F), 1, r))  # nothing is divided by them
    return _multiplied(F, fixed, sums, lines, floor, 0.0, 0.0, 0.0, False)[:, 2 * r :]


def _multiplied(F, fixed, sums, lines, floor, tiny, l1, l2, update):
    n_starts, r, _ = F.shape
    notes = over_blocks(
        _mu_blocks_, F, 3 * r, 6.0 * n_starts * r * lines.values.size,
        fixed, row_major(fixed, lines), lines, sums + l1,
        float(l2), F.dtype.type(floor), F.dtype.type(tiny), update,
    )  # fmt: skip
    return add_blocks(notes, n_starts)


@kernel
def _mu_blocks_(F_all, fixed, rows, lines, sums, l2, floor, tiny, update, notes, first, last):
    _, r, p = F_all.shape
    q = fixed.shape[2]
    dtype = F_all.dtype
    v = np.empty(r, dtype)
    tile = np.empty((BLOCK, q), lines.values.dtype)
    G = np.empty((r, lines.longest), dtype)
    x, y = np.empty(lines.longest, dtype), np.empty(lines.longest, dtype)
    for block in range(first, last):
        i, start = start_of(block, p, BLOCK)
        F = F_all[i]
        width = min(BLOCK, p - start)
        load_block_(tile, lines, start, width, q)
        note = notes[block]
        note[:] = 0
        for b in range(width):
            for c in range(r):
                v[c] = F[c, start + b]
            S = sums[i, start + b if sums.shape[1] > 1 else 0]
            n = load_line_(x, G, lines, tile, start, b, q, rows[i])
            A = fixed[i] if n == q and lines.layout != SPARSE else G
            fit_line_(y, A, v, n)
            for e in range(n):
                y[e] = x[e] / max(y[e], floor)
            for c in range(r):
                f = A[c]
                psi = dtype.type(0)
                for e in range(n):
                    psi += f[e] * y[e]
                note[2 * r + c] += v[c] * psi
                if update:
                    down = S[c] + l2 * v[c]
                    new = dtype.type(v[c] * (psi / down)) if down > 0 else v[c]
                    new = new if new >= tiny else dtype.type(0)
                    note[c] += (new - v[c]) ** 2
                    note[r + c] += (new + v[c]) ** 2
                    F[c, start + b] = new


def kl_x_log_y(F, fixed, lines, floor):
    """Σ x log y over the stored entries of each start."""
    n_starts, r, _ = F.shape
    notes = over_blocks(
        _x_log_y_blocks_, F, 1, 4.0 * n_starts * r * lines.values.size,
        fixed, row_major(fixed, lines), lines, F.dtype.type(floor),
    )  # fmt: skip
    return add_blocks(notes, n_starts)[:, 0]


@kernel
def _x_log_y_blocks_(F_all, fixed, rows, lines, floor, notes, first, last):
    _, r, p = F_all.shape
    q = fixed.shape[2]
    dtype = F_all.dtype
    v = np.empty(r, dtype)
    tile = np.empty((BLOCK, q), lines.values.dtype)
    G = np.empty((r, lines.longest), dtype)
    x, y = np.empty(lines.longest, dtype), np.empty(lines.longest, dtype)
    z, k = np.empty(lines.longest), np.empty(lines.longest)
    for block in range(first, last):
        i, start = start_of(block, p, BLOCK)
        width = min(BLOCK, p - start)
        load_block_(tile, lines, start, width, q)
        notes[block, 0] = 0
        for b in range(width):
            for c in range(r):
                v[c] = F_all[i, c, start + b]
            n = load_line_(x, G, lines, tile, start, b, q, rows[i])
            A = fixed[i] if n == q and lines.layout != SPARSE else G
            fit_line_(y, A, v, n)
            notes[block, 0] += x_log_y(x, y, n, floor, z, k)


def kl_divergences(F, fixed, lines, floor):
    """D(X‖WH) of each start in float64, a sum of x log(x/y) − x + y that does not cancel."""
    F, fixed = F.astype(np.float64, copy=False), fixed.astype(np.float64, copy=False)
    n_starts, r, _ = F.shape
    notes = over_blocks(
        _divergence_blocks_, F, 2, 4.0 * n_starts * r * lines.values.size,
        fixed, row_major(fixed, lines), lines, float(floor),
    )  # fmt: skip
    stored, fitted = add_blocks(notes, n_starts).T
    everywhere = np.einsum("sk,sk->s", F.sum(axis=2), fixed.sum(axis=2))
    return stored + np.maximum(everywhere - fitted, 0)


@kernel
def _divergence_blocks_(F_all, fixed, rows, lines, floor, notes, first, last):
    _, r, p = F_all.shape
    q = fixed.shape[2]
    v = np.empty(r)
    tile = np.empty((BLOCK, q), lines.values.dtype)
    G = np.empty((r, lines.longest))
    x, y = np.empty(lines.longest), np.empty(lines.longest)
    for block in range(first, last):
        i, start = start_of(block, p, BLOCK)
        width = min(BLOCK, p - start)
        load_block_(tile, lines, start, width, q)
        stored, fitted = 0.0, 0.0
        for b in range(width):
            for c in range(r):
                v[c] = F_all[i, c, start + b]
            n = load_line_(x, G, lines, tile, start, b, q, rows[i])
            A = fixed[i] if n == q and lines.layout != SPARSE else G
            fit_line_(y, A, v, n)
            for e in range(n):
                if x[e] > 0:
                    more = (y[e] - x[e]) / x[e]
                    if more < 0.5 and more > -0.5:
                        stored += x[e] * (more - np.log1p(more))
                    else:
                        stored += y[e] - x[e] - x[e] * np.log(max(y[e], floor) / x[e])
                    fitted += y[e]
        notes[block, 0], notes[block, 1] = stored, fitted


def kl_ratios(Wt, H, lines, floor):
    """X/WH of one start, with the zeros of X: a dense array, or a CSR matrix of a sparse X."""
    m, n = Wt.shape[1], H.shape[1]
    size = lines.values.size
    out = np.zeros(size, Wt.dtype)
    starts = lines.indptr.astype(np.int64) if lines.layout == SPARSE else np.arange(0, size + 1, n)
    over_blocks(
        _ratio_blocks_, Wt[None], 1, 4.0 * len(Wt) * size,
        H[None], row_major(H[None], lines), lines, starts, Wt.dtype.type(floor), out,
    )  # fmt: skip
    if lines.layout == SPARSE:
        return sp.csr_array((out, lines.places, lines.indptr), shape=(m, n))
    return out.reshape(m, n)


@kernel
def _ratio_blocks_(F_all, fixed, rows, lines, starts, floor, out, notes, first, last):
    _, r, p = F_all.shape
    q = fixed.shape[2]
    dtype = F_all.dtype
    v = np.empty(r, dtype)
    tile = np.empty((BLOCK, q), lines.values.dtype)
    G = np.empty((r, lines.longest), dtype)
    x, y = np.empty(lines.longest, dtype), np.empty(lines.longest, dtype)
    for block in range(first, last):
        _, start = start_of(block, p, BLOCK)
        width = min(BLOCK, p - start)
        load_block_(tile, lines, start, width, q)
        for b in range(width):
            for c in range(r):
                v[c] = F_all[0, c, start + b]
            n = load_line_(x, G, lines, tile, start, b, q, rows[0])
            line = out[starts[start + b] : starts[start + b + 1]]
            if n == q and lines.layout != SPARSE:
                fit_line_(y, fixed[0], v, n)
            else:
                fit_line_(y, G, v, n)
            for e in range(n):
                y[e] = x[e] / max(y[e], floor)
            if n == line.size:
                for e in range(n):
                    line[e] = y[e]
            else:  # entries that are zero were left out
                at = 0
                for e in range(q):
                    here = (
                        tile[b, e] if lines.layout != ALONG else lines.values[(start + b) * q + e]
                    )
                    if here > 0:
                        line[e] = y[at]
                        at += 1


def kl_merge_rises(Wt, H, lines, floor, w_steps, h_steps):
    """By how much each of some merges would raise the divergence of one start.

    Merge c changes WH by ``−w_steps[c] h_steps[c]``, which has no mass: what D rises by is
    −Σ x log(1 − w_steps h_steps / y). ``lines`` are the rows of X.
    """
    n_merges = len(w_steps)
    dtype = Wt.dtype
    everything = np.concatenate([H, h_steps.astype(dtype)])[None]  # the components, then the steps
    notes = over_blocks(
        _rise_blocks_, Wt[None], n_merges, 4.0 * (len(Wt) + 4 * n_merges) * lines.values.size,
        everything, row_major(everything, lines), lines, w_steps.astype(dtype), dtype.type(floor),
    )  # fmt: skip
    return add_blocks(notes, 1)[0]


@kernel
def _rise_blocks_(F_all, everything, rows, lines, w_steps, floor, notes, first, last):
    _, r, p = F_all.shape
    q = everything.shape[2]
    n_merges = len(w_steps)
    dtype = F_all.dtype
    v = np.empty(r + n_merges, dtype)
    tile = np.empty((BLOCK, q), lines.values.dtype)
    G = np.empty((r + n_merges, lines.longest), dtype)
    x, y = np.empty(lines.longest, dtype), np.empty(lines.longest, dtype)
    z, k = np.empty(lines.longest), np.empty(lines.longest)
    for block in range(first, last):
        _, start = start_of(block, p, BLOCK)
        width = min(BLOCK, p - start)
        load_block_(tile, lines, start, width, q)
        note = notes[block]
        note[:] = 0
        for b in range(width):
            for c in range(r):
                v[c] = F_all[0, c, start + b]
            n = load_line_(x, G, lines, tile, start, b, q, rows[0])
            A = everything[0] if n == q and lines.layout != SPARSE else G
            fit_line_(y, A, v[:r], n)
            for c in range(n_merges):
                step = w_steps[c, start + b]
                if step == 0:
                    continue
                f = A[r + c]
                for e in range(n):
                    z[e] = max(y[e] - step * f[e], floor) / max(y[e], floor)
                log_(z, k, n)
                for e in range(n):
                    note[c] -= x[e] * z[e]
