"""Whole passes of HALS and accelerated HALS on one start, compiled, without Python's lock.

Input: X in memory, the factors of a start, the state of its extrapolation. Output: the same,
so many passes later, and the step of each. The operations are those of `solvers.hals` and
`solvers.accelerated`, one after another; products with X are BLAS's or those of `csr`.

The lines of X are its rows where it is C-ordered or CSR, and its columns where it is F-ordered or
CSC, so that one compiled function serves all: side 0 is the factor of the lines, and side 1 the
other.
"""

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from nmfmerge.backends.numba.blocks import BLOCK, OPTIONS, inlined, kernel, part
from nmfmerge.backends.numba.csr import gather_lines_, scatter_places_
from nmfmerge.backends.numba.hals import inverses_, sweep_block_
from nmfmerge.backends.numba.momentum import copy_
from nmfmerge.backends.numba.steps import largest_of, model_norm2

_TILE = 16


class Stored(NamedTuple):
    """A compressed sparse matrix, and room for factors with one row for each line or place."""

    indptr: np.ndarray
    places: np.ndarray
    values: np.ndarray
    by_line: np.ndarray
    by_place: np.ndarray


class LowRank(NamedTuple):
    """The product Aᵀ B of two matrices (k × a) and (k × b) in place of X, lines first."""

    A: np.ndarray
    B: np.ndarray


def _product_(X, side, F, out):
    """Put the product of X with the factor of the other side into ``out``, the one for ``side``."""
    raise NotImplementedError("only inside compiled functions")


@overload(_product_, jit_options=OPTIONS | {"forceinline": True})
def _product_of(X, side, F, out):
    if isinstance(X, types.Array):

        def dense(X, side, F, out):
            if side == 0:
                np.dot(F, X.T, out)
            else:
                np.dot(F, X, out)

        return dense

    if X.instance_class is LowRank:

        def low_rank(X, side, F, out):
            if side == 0:
                np.dot(np.dot(F, X.B.T), X.A, out)
            else:
                np.dot(np.dot(F, X.A.T), X.B, out)

        return low_rank

    def stored(X, side, F, out):
        lines, places = X.by_line, X.by_place
        if side == 0:
            transpose_(F, places)
            gather_lines_(X.indptr, X.places, X.values, places, lines, 0, lines.shape[0])
            transpose_(lines, out)
        else:
            transpose_(F, lines)
            scatter_places_(X.indptr, X.places, X.values, lines, places, 0, places.shape[0])
            transpose_(places, out)

    return stored


@part
def transpose_(source, out):
    """Put the transpose of a matrix into ``out``, in tiles that stay in the cache."""
    rows, columns = source.shape
    for first_row in range(0, rows, _TILE):
        for first in range(0, columns, _TILE):
            for i in range(first_row, min(first_row + _TILE, rows)):
                for j in range(first, min(first + _TILE, columns)):
                    out[j, i] = source[i, j]


@part
def _cross_(X, scale, side, F, l1, out):
    """The cross product for a side, less its L1 penalty."""
    _product_(X, side, F, out)
    if scale != 1 or l1 != 0:
        times, less = F.dtype.type(scale), F.dtype.type(l1)
        for t in range(len(out)):
            row = out[t]
            for j in range(row.size):
                row[j] = times * row[j] - less


@part
def _gram_(F, l2, G):
    """F Fᵀ, with the L2 penalty of the other side on its diagonal."""
    np.dot(F, F.T, G)
    for t in range(len(G)):
        G[t, t] += F.dtype.type(l2)


@part
def _push_(F, swept, weight):
    """Extrapolate a factor along its last move, as `extrapolate_` does."""
    zero, weight = F.dtype.type(0), F.dtype.type(weight)
    for t in range(len(F)):
        f, p = F[t], swept[t]
        for j in range(f.size):
            value = f[j]
            new = value + weight * (value - p[j])
            f[j] = new if new > zero else zero
            p[j] = value


@inlined
def _sweep_(F, G, C, inverse, n_sweeps, S, A, notes, total, spare):
    """Sweep over all blocks of a factor; ``total`` gets the sum of what each notes."""
    total[:] = 0
    for start in range(0, F.shape[1], BLOCK):
        sweep_block_(F, G, C, inverse, n_sweeps, start, S, A, notes, spare)
        for t in range(notes.size):
            total[t] += notes[t]


@part
def _inner_(A, B):
    """⟨A, B⟩, row by row in the precision of the factors."""
    total = 0.0
    for t in range(len(A)):
        a, b = A[t], B[t]
        row = A.dtype.type(0)
        for j in range(a.size):
            row += a[j] * b[j]
        total += row
    return total


@part
def _sum_(F):
    """The sum of a factor."""
    total = 0.0
    for t in range(len(F)):
        for value in F[t]:
            total += value
    return total


@part
def _rise_(F, G, C, old):
    """½⟨F, G F⟩ − ⟨C, F⟩ less its value at ``old``: see `momentum.rise`."""
    half = F.dtype.type(0.5)
    gradient = np.empty(F.shape[1], F.dtype)
    total = 0.0
    for t in range(len(F)):
        gradient[:] = 0
        for s in range(len(F)):
            g, f, o = half * G[t, s], F[s], old[s]
            for j in range(f.size):
                gradient[j] += g * (f[j] + o[j])
        f, o, c = F[t], old[t], C[t]
        for j in range(f.size):
            total += (gradient[j] - c[j]) * (f[j] - o[j])
    return total


@kernel
def hals_passes_(
    X, scale, A, B, first, n_sweeps, extrapolates, still_A, still_B, l1, l2,
    swept_A, swept_B, accepted, state, rest, constant, limit, negligible, least, rule, tol, steps,
):  # fmt: skip
    """Iterate until a step is at most ``tol``, or ``steps`` is full; return how many were done.

    Parameters
    ----------
    X : array (a, b), Stored or LowRank
        The data, lines first.
    scale : float
        What X is to be multiplied by.
    A, B : arrays (r, a) and (r, b)
        Factors, changed in place.
    first : int
        The side that is updated first.
    n_sweeps : int
        Sweeps per cross product.
    extrapolates : bool
        Whether this is the accelerated solver.
    still_A, still_B : bool arrays (r,)
        Components that are held.
    l1, l2 : float arrays (2,)
        Weights of the penalties on each side.
    swept_A, swept_B, accepted : arrays
        The factors last swept, and the accepted factor of the first side; for accelerated HALS.
    state : float64 array (4,)
        The objective of the last accepted point, the weight of the next extrapolation, its bound,
        and the weight that was last accepted.
    rest : bool array (1,)
        Whether the next step is not extrapolated, and accepted whatever it brings.
    constant : float
        Twice what the objective has beside the terms that depend on the factors.
    limit : float
        An objective below this cancels, and its rise is summed from parts.
    negligible, least, rule, tol
        As in `largest_step`, `hals_sweep_` and `judge_`.
    steps : float64 array (n,)
        Gets the largest displacement of each pass, NaN where it was taken back.
    """
    r = len(A)
    G_A, G_B = np.empty((r, r), A.dtype), np.empty((r, r), A.dtype)
    C_A, C_B = np.empty((r, A.shape[1]), A.dtype), np.empty((r, B.shape[1]), A.dtype)
    S, R = np.empty((r, BLOCK), A.dtype), np.empty((4, BLOCK), A.dtype)
    inverse, ratio = np.empty(r, A.dtype), np.empty(r, steps.dtype)
    notes, total = np.empty(2 * r + 1, steps.dtype), np.empty(2 * r + 1, steps.dtype)
    spare = np.empty(2 * r, steps.dtype)
    known = False  # whether the products made last are those of the factors as they are
    done = 0
    while done < steps.size:
        weight = 0.0 if rest[0] or not extrapolates else state[1]
        sums_rise = extrapolates and state[0] < limit
        rise, fit = 0.0, 0.0
        for t in range(r):
            ratio[t] = 0
        # Each half updates a factor; before them comes, where needed, what a rise is summed from.
        for half in range(-1 if sums_rise and not known else 0, 2):
            side = first if half == 0 else 1 - first
            if side == 0:
                F, G_F, C, swept, still = A, G_A, C_A, swept_A, still_A
                other, G, C_other, swept_other = B, G_B, C_B, swept_B
            else:
                F, G_F, C, swept, still = B, G_B, C_B, swept_B, still_B
                other, G, C_other, swept_other = A, G_A, C_A, swept_A
            if extrapolates and half >= 0:
                _push_(other, swept_other, weight)
                if sums_rise:
                    rise += _rise_(other, G_F, C_other, swept_other)
            if extrapolates or half == 1 or not known:
                _gram_(other, l2[side], G)
            _cross_(X, scale, side, other, l1[side], C)
            if half < 0:
                continue
            inverses_(inverse, G, least)
            for t in range(r):
                if still[t]:
                    inverse[t] = 0
                elif l1[side] != 0 and not G[t, t] > 0:  # nothing is left beside a zero partner
                    F[t] = 0
            _sweep_(F, G, C, inverse, n_sweeps, S, R, notes, total, spare)
            rise -= total[2 * r]
            for t in range(r):
                if total[r + t] > 0:
                    ratio[t] = max(ratio[t], np.sqrt(total[t] / total[r + t]))
            if half == 1:
                _gram_(F, l2[1 - side], G_F)
                fit = _inner_(F, C)
                if l1[1 - side] != 0:
                    fit -= l1[1 - side] * _sum_(other)
        known = True
        whole = model_norm2(G_A, G_B)
        now = max(0.0, 0.5 * constant - fit + 0.5 * whole)
        step = largest_of(ratio, G_A, G_B, negligible * negligible * whole)
        if not extrapolates:
            state[0] = now
        else:
            # After the second half, F is the second factor and ``other`` the first.
            rose = rise if sums_rise else now - state[0]
            back = rose > 0 and not rest[0]
            rest[0] = back
            if back:
                state[2] = state[3]
                state[1] /= rule.shrink
                copy_(swept, F)
                copy_(accepted, other)
                known = False
                step = np.nan
            else:
                state[0], state[3] = now, state[1]
                state[1] = min(state[2], rule.growth * state[1])
                state[2] = min(1.0, rule.bound_growth * state[2])
                copy_(other, accepted)
                step /= rule.step_scale
        steps[done] = step
        done += 1
        if step <= tol:
            break
    return done
