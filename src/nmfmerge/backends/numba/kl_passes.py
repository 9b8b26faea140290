"""Whole passes of coordinate descent for the Kullback–Leibler divergence on one start, compiled.

On small data Python would take longer than the sweeps. The operations are those of `solvers.sweeps`
in memory, one after another.
"""

import numpy as np

from nmfmerge.backends.numba.blocks import BLOCK, kernel, part
from nmfmerge.backends.numba.extrapolate import extrapolate_
from nmfmerge.backends.numba.kl_sweep import sweep_blocks_
from nmfmerge.backends.numba.momentum import judge_by_value_, settle_each_
from nmfmerge.backends.numba.passes import transpose_
from nmfmerge.backends.numba.shares import add_blocks
from nmfmerge.backends.numba.steps import largest_ratio, note_steps_


@kernel
def kl_passes_(
    A, B, lines_A, lines_B, free_A, free_B, l1, l2, floor, n_sweeps, extrapolates,
    swept_A, swept_B, accepted, objective, weight, bound, last_weight, rest, taken_back,
    constant, noise, negligible, rule, tol, steps,
):  # fmt: skip
    """Iterate until a step is at most ``tol``, or ``steps`` is full; return how many were done.

    Parameters
    ----------
    A, B : arrays (1, r, p) and (1, r, q)
        The factors, in the order of their updates, changed in place.
    lines_A, lines_B : Lines
        The lines of X that belong to them.
    free_A, free_B : bool arrays (r,)
        Components that are not held.
    l1, l2 : float arrays (2,)
        Weights of the penalties on each.
    floor, n_sweeps
        As in `kl_sweep_`.
    extrapolates : bool
        Whether this is the accelerated solver, with the state that follows.
    swept_A, swept_B, accepted, objective, weight, bound, last_weight, rest, taken_back : arrays
        Those of `Momentum`, with one start.
    constant : float
        What the divergence has beside Σ WH − Σ x log y.
    noise, negligible, rule, tol
        As in `judge_values_` and `largest_ratio`.
    steps : float64 array (n,)
        Gets the largest displacement of each pass, NaN where it was taken back.
    """
    # Loops and not expressions of arrays, which take seconds to compile.
    r = A.shape[1]
    rows_A, rows_B = _room_(A, lines_B), _room_(B, lines_A)
    notes_A, notes_B = _notes_(A), _notes_(B)
    sizes, ratio, S = np.empty((1, r)), np.empty((1, r)), np.empty((1, 1, r))
    moved, total, now, tried = np.empty((1, r)), np.empty((1, r)), np.empty(1), np.empty(1)
    done = 0
    while done < steps.size:
        tried[0] = 0.0 if rest[0] else weight[0]
        seen = 0.0
        for t in range(r):
            ratio[0, t] = 0.0
        for half in range(2):
            if half == 0:
                F, fixed, lines, free, rows, notes = A, B, lines_A, free_A, rows_B, notes_A
                swept = swept_B
            else:
                F, fixed, lines, free, rows, notes = B, A, lines_B, free_B, rows_A, notes_B
                swept = swept_A
            if extrapolates:
                extrapolate_(fixed, swept, tried)
            if rows.shape[1] > 0:
                transpose_(fixed[0], rows[0])
            for t in range(r):
                S[0, 0, t] = _sum_(fixed[0, t]) + l1[half]
            sweep_blocks_(
                F, fixed, rows, lines, S, l2[half], floor, n_sweeps, extrapolates and half == 1,
                free, notes, 0, len(notes),
            )  # fmt: skip
            noted = add_blocks(notes, 1)
            for t in range(r):
                moved[0, t], total[0, t] = noted[0, t], noted[0, r + t]
            note_steps_(ratio, moved, total)
            seen = noted[0, 2 * r]
        fitted = 0.0
        for t in range(r):
            sizes[0, t] = _sum_(A[0, t]) * _sum_(B[0, t])
            fitted += sizes[0, t]
        step = largest_ratio(ratio, sizes, negligible)
        if extrapolates:
            now[0] = max(0.0, constant - seen + fitted)
            now[0] += _penalty_(A, l1[0], l2[0]) + _penalty_(B, l1[1], l2[1])
            step = judge_by_value_(
                objective, weight, bound, last_weight, rest, taken_back, now, step, noise, rule
            )
            settle_each_(A, B, accepted, swept_B, taken_back)
        steps[done] = step[0]
        done += 1
        if step[0] <= tol:
            break
    return done


@part
def _room_(F, lines):
    """Room for a factor row by row, where lines beside it are gathered."""
    return np.empty((1, F.shape[2] if lines.gathers else 0, F.shape[1]), F.dtype)


@part
def _notes_(F):
    return np.empty((-(-F.shape[2] // BLOCK), 2 * F.shape[1] + 1))


@part
def _sum_(f):
    """The sum of a component, in float64."""
    total = 0.0
    for j in range(f.size):
        total += f[j]
    return total


@part
def _penalty_(F, l1, l2):
    """``l1·Σv + ½·l2·Σv²`` of a factor."""
    total = 0.0
    if l1 != 0 or l2 != 0:
        for t in range(F.shape[1]):
            f = F[0, t]
            for j in range(f.size):
                total += f[j] * (l1 + 0.5 * l2 * f[j])
    return total
