"""Products with E = rule(X, WH), entry by entry; `nmfmerge.matrices.rules` says what rules are.

Lines are rows of X for a product of the size of W, and columns for one of the size of H; places are
the entries of a line. Every number that comes out is summed in one order, whatever the share of
lines or places that a thread has: the bits do not depend on threads.
"""

import numpy as np

from nmfmerge.backends.numba.blocks import inlined, kernel
from nmfmerge.backends.numba.csr import first_from

RATIO, RESIDUAL = 0, 1

_LINES, _PLACES = 128, 512  # of a tile of E, which stays in cache


@inlined
def _entry(code, floor, x, y):
    """The entry e of E and its term of the sum; nothing where x is missing."""
    zero = floor - floor
    if x != x:
        return zero, 0.0
    if code == RATIO:
        y = y if y > floor else floor
        e = x / y
        return e, (np.float64(x) * np.log(np.float64(x) / np.float64(y)) if e > zero else 0.0)
    e = x - y
    return e, np.float64(e) * np.float64(e)


def dense_cross_(code, floor, scale, X, F_lines, F_places, out, sums, first, last):
    """Put F_places Eᵀ (r × lines) into ``out`` for some blocks of lines, and sums into ``sums``.

    E of a tile is made by two products of BLAS and one loop; it is never there as a whole.
    """
    for block in range(first, last):
        lines = slice(block * _LINES, (block + 1) * _LINES)
        target, total = out[:, lines], 0.0
        target[:] = 0
        for start in range(0, X.shape[1], _PLACES):
            places = slice(start, start + _PLACES)
            E = F_lines[:, lines].T @ F_places[:, places]
            total += _apply_(code, floor, scale, X[lines, places], E)
            target += F_places[:, places] @ E.T
        sums[block] = total


def n_blocks(n_lines):
    """Blocks of lines that `dense_cross_` counts."""
    return -(-n_lines // _LINES)


@kernel
def _apply_(code, floor, scale, X, E):
    """Replace the entries y of E by e; return the sum."""
    total = 0.0
    for i in range(E.shape[0]):
        row = 0.0
        for j in range(E.shape[1]):
            e, term = _entry(code, floor, scale * X[i, j], E[i, j])
            E[i, j] = e
            row += term
        total += row
    return total


@kernel
def gather_cross_(
    indptr, places, values, code, floor, scale, F_lines, F_places, out, sums, first, last
):
    """Put Σ e·F_places[place] over the stored entries of line i into out[i], their sum into sums.

    Factors are row-major here, as in `nmfmerge.matrices.csr`.
    """
    r = F_lines.shape[1]
    for i in range(first, last):
        line, row = F_lines[i], out[i]
        row[:] = 0
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            place = F_places[places[k]]
            y = floor - floor
            for t in range(r):
                y += line[t] * place[t]
            e, term = _entry(code, floor, scale * values[k], y)
            total += term
            for t in range(r):
                row[t] += e * place[t]
        sums[i] = total


@kernel
def scatter_cross_(
    indptr, places, values, code, floor, scale, F_lines, F_places, out, sums, first, last
):
    """Put Σ e·F_lines[line] over the stored entries at place j into out[j], first ≤ j < last.

    Places are sorted within a line.
    """
    r = F_lines.shape[1]
    out[first:last] = 0
    sums[first:last] = 0
    for i in range(indptr.size - 1):
        low, high = indptr[i], indptr[i + 1]
        if first > 0:
            low = first_from(places, low, high, first)
        line = F_lines[i]
        for k in range(low, high):
            j = places[k]
            if j >= last:
                break
            place, row = F_places[j], out[j]
            y = floor - floor
            for t in range(r):
                y += line[t] * place[t]
            e, term = _entry(code, floor, scale * values[k], y)
            sums[j] += term
            for t in range(r):
                row[t] += e * line[t]
