"""Lines of X for the Kullback–Leibler kernels: rows for an update of W, columns for one of H.

The divergence is a sum over stored entries, and with one factor fixed it falls apart into lines.
A kernel takes them one at a time into scratch: the values ``x`` that count, and the entries of the
fixed factor beside them, ``A`` (r × length). Sparse lines, and dense ones with many zeros, are
gathered; after that all loops are over contiguous memory.
"""

from typing import NamedTuple

import numpy as np

from nmfmerge.backends.numba.blocks import inlined, part

SPARSE, ALONG, ACROSS = 0, 1, 2  # how lines lie in `values`

_FULL = 0.75  # share of nonzero values from which a dense line stays dense


class Lines(NamedTuple):
    """The lines of X that belong to one side; ``scale`` times the values are those of X.

    ``layout`` says whether the values are those of sparse lines, with their ``places``, or a dense
    array in one piece, with its lines along memory or across it.
    """

    values: np.ndarray
    indptr: np.ndarray
    places: np.ndarray
    layout: int
    scale: float
    gathers: bool  # whether a line may have few values
    longest: int  # values in a line


def lines_of_dense(X: np.ndarray, scale: float = 1.0) -> Lines:
    """The rows of X, which is contiguous in C or Fortran order."""
    along = X.flags.c_contiguous
    values = (X if along else X.T).reshape(-1)
    none = np.empty(0, np.int32)
    gathers = bool(np.count_nonzero(values) < _FULL * values.size)
    return Lines(values, none, none, ALONG if along else ACROSS, scale, gathers, X.shape[1])


def lines_of_sparse(values, indptr, places, scale: float = 1.0) -> Lines:
    """The lines of a compressed sparse matrix."""
    longest = int(np.diff(indptr).max(initial=0))
    return Lines(values, indptr, places, SPARSE, scale, True, longest)


@part
def load_block_(tile, lines, start, width, length):
    """Copy lines that lie across memory, a block of them, into rows of ``tile``."""
    if lines.layout == ACROSS:
        n_lines = lines.values.size // length
        for e in range(length):
            row = lines.values[e * n_lines + start : e * n_lines + start + width]
            for b in range(width):
                tile[b, e] = row[b]


@part
def load_line_(x, G, lines, tile, start, b, length, rows):
    """Put the values of a line into x, and what is beside them in the fixed factor into G.

    ``rows`` is the fixed factor row by row (length × r). Returns how many values count; if they
    are all of a dense line, G is left alone and the fixed factor itself is meant.
    """
    scale = x.dtype.type(lines.scale)
    r = G.shape[0]
    if lines.layout == SPARSE:
        first = lines.indptr[start + b]
        n = lines.indptr[start + b + 1] - first
        for e in range(n):
            x[e] = scale * lines.values[first + e]
        for e in range(n):
            row = rows[lines.places[first + e]]
            for k in range(r):
                G[k, e] = row[k]
        return n
    if lines.layout == ALONG:
        line = lines.values[(start + b) * length : (start + b + 1) * length]
    else:
        line = tile[b]
    for e in range(length):
        x[e] = scale * line[e]
    if not lines.gathers:
        return length
    n = 0
    for e in range(length):
        n += x[e] > 0
    if n >= _FULL * length:
        return length
    n = 0
    for e in range(length):
        if x[e] > 0:
            x[n] = x[e]
            row = rows[e]
            for k in range(r):
                G[k, n] = row[k]
            n += 1
    return n


@part
def fit_line_(y, A, v, n):
    """Put Σ v_k A_k into y."""
    for e in range(n):
        y[e] = 0
    for k in range(v.size):
        value = v[k]
        if value != 0:
            row = A[k]
            for e in range(n):
                y[e] += value * row[e]


_LOG2 = 0.6931471805599453
_EXPONENT = 0x4330000000000000  # the bits of 2⁵²
_ROOT = 0x3FE6A09E667F3BCD  # the bits of √½


@part
def log_(z, k, n):
    """Replace positive normal z, float64, by their logarithms, to 2e-16; ``k`` is scratch.

    A call of the library's log would keep loops scalar: this takes a fifth of the time.
    """
    z_bits, k_bits = z.view(np.int64), k.view(np.int64)
    for e in range(n):
        # 1024 more than the exponent that brings z to [√½, √2).
        power = (z_bits[e] - _ROOT + (np.int64(1024) << 52)) >> 52
        z_bits[e] -= (power - 1024) << 52
        k_bits[e] = power | _EXPONENT
    for e in range(n):  # a loop of its own, or this is multiplied out and cancels
        k[e] -= 4503599627370496.0 + 1024.0
    for e in range(n):
        s = (z[e] - 1.0) / (z[e] + 1.0)
        q = s * s
        series = 1 / 15 + q * (1 / 17 + q * (1 / 19))
        series = 1 / 9 + q * (1 / 11 + q * (1 / 13 + q * series))
        series = 1 / 3 + q * (1 / 5 + q * (1 / 7 + q * series))
        z[e] = k[e] * _LOG2 + 2.0 * s * (1.0 + q * series)


@inlined
def x_log_y(x, y, n, floor, z, k):
    """Σ x log y of a line."""
    for e in range(n):
        z[e] = max(y[e], floor)
    log_(z, k, n)
    total = 0.0
    for e in range(n):
        total += x[e] * z[e]
    return total
