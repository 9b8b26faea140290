"""Triton kernels of the projected gradient with step search; imported only where Triton is.

A round is three of them: try a length in all columns, decide for every start what comes of it, take
the steps that were decided on. Starts that do not take part cost a program that ends at once. No
step is kept between a trial and the taking: both make it from F and its gradient, and G times it.
"""

import torch
import triton
import triton.language as tl

from nmfmerge.backends.numba.alspgrad import SEARCH

_ENTRIES = 2048  # of the columns that a program has in registers
_LEAST_COLUMNS, _MOST_COLUMNS = 16, 256
_BLOCKS = 128  # whose notes are added at a time
_OPTIONS = {"num_warps": 8, "enable_fp_fusion": True}  # the latter said, or Triton warns
_DONE, _FIRST, _SHORTER, _LONGER = (tl.constexpr(phase) for phase in range(4))


def room_for_notes(F):
    """Numbers of blocks of columns: slope, curve, columns moved (S, n, 3); norm² (S, n)."""
    n = triton.cdiv(F.shape[2], _shape(F)[1])
    notes = torch.zeros((len(F), n, 3), dtype=torch.float64, device=F.device)
    return [notes, torch.zeros((len(F), n), dtype=torch.float64, device=F.device)]


def _shape(F):
    """Components, padded to a power of two, and columns of a program."""
    width = triton.next_power_of_2(F.shape[1])
    return width, min(_MOST_COLUMNS, max(_LEAST_COLUMNS, _ENTRIES // width))


def round_(own):
    """Launch one trial of every start that goes on; see `alspgrad._round_`."""
    S, r, p = own.F.shape
    width, columns = _shape(own.F)
    notes, norms = own.notes
    n = notes.shape[1]
    search = own.search
    largest = torch.finfo(own.F.dtype).max
    factor = own.F, own.gradient, own.G, own.weights
    _trial_kernel[(n, S)](
        *factor, search.phase, search.alpha, search.good, notes, r, p,
        largest, width, columns, **_OPTIONS,
    )  # fmt: skip
    _decide_kernel[(S,)](
        *search, notes, norms, n, SEARCH.beta, 1 - SEARCH.sigma, SEARCH.trials, SEARCH.iterations,
        _BLOCKS, num_warps=1, enable_fp_fusion=True,
    )  # fmt: skip
    _take_kernel[(n, S)](
        *factor, search.take, norms, r, p, largest, width, columns, **_OPTIONS
    )  # fmt: skip


@triton.jit
def _lengths(alpha, weights, LARGEST: tl.constexpr, like):
    """Step lengths of components, as large as they may be."""
    return tl.minimum(alpha * weights, LARGEST).to(like.dtype.element_ty)


@triton.jit
def _moved(f, slope, length):
    return tl.maximum(f - length * slope, 0.0)


@triton.jit
def _of_start(F, gradient, G, weights, r, p):
    """The arrays of the start that a program is of."""
    start = tl.program_id(1).to(tl.int64)
    own = start * r * p
    return F + own, gradient + own, G + start * r * r, weights + start * r


@triton.jit
def _times_gram(
    F, gradient, G, weights, alpha, columns, rows, r, p,
    LARGEST: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """G times the step of a length, in some columns: summed up over the rows of the step."""
    total = tl.zeros([WIDTH, COLUMNS], F.dtype.element_ty)
    for s in range(r):
        f = tl.load(F + s * p + columns, mask=columns < p, other=0)
        slope = tl.load(gradient + s * p + columns, mask=columns < p, other=0)
        length = _lengths(alpha, tl.load(weights + s), LARGEST, F)
        g = tl.load(G + s * r + rows, mask=rows < r, other=0)
        total += g[:, None] * (_moved(f, slope, length) - f)[None, :]
    return total


@triton.jit(do_not_specialize=["r", "p"])
def _trial_kernel(
    F, gradient, G, weights, phase, alpha, good, notes, r, p,
    LARGEST: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Slope and curve along the step of a length, and how much it differs from that of another."""
    start = tl.program_id(1).to(tl.int64)
    if tl.load(phase + start) != _DONE:
        F, gradient, G, weights = _of_start(F, gradient, G, weights, r, p)
        columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
        rows = tl.arange(0, WIDTH)
        at = rows[:, None] * p + columns[None, :]
        inside = (rows < r)[:, None] & (columns < p)[None, :]
        length = tl.load(alpha + start)
        G_step = _times_gram(
            F, gradient, G, weights, length, columns, rows, r, p, LARGEST, WIDTH, COLUMNS
        )
        f = tl.load(F + at, mask=inside, other=0)
        slope = tl.load(gradient + at, mask=inside, other=0)
        own = tl.load(weights + rows, mask=rows < r, other=0)
        new = _moved(f, slope, _lengths(length, own, LARGEST, F)[:, None])
        before = _moved(f, slope, _lengths(tl.load(good + start), own, LARGEST, F)[:, None])
        step = new - f
        notes += (start * tl.num_programs(0) + tl.program_id(0)) * 3
        tl.store(notes, tl.sum(tl.sum((slope * step).to(tl.float64), axis=1), axis=0))
        tl.store(notes + 1, tl.sum(tl.sum((step * G_step).to(tl.float64), axis=1), axis=0))
        differ = tl.sum(tl.sum((new != before).to(tl.int32), axis=1), axis=0)
        tl.store(notes + 2, differ.to(tl.float64))


@triton.jit(do_not_specialize=["n"])
def _decide_kernel(
    phase, alpha, good, take, trials, steps, least, notes, norms, n,
    BETA: tl.constexpr, SUFFICIENT: tl.constexpr, TRIALS: tl.constexpr, STEPS: tl.constexpr,
    BLOCKS: tl.constexpr,
):  # fmt: skip
    """The decision of a start after its trial, one program per start; see `alspgrad._decide_`."""
    start = tl.program_id(0).to(tl.int64)
    now = tl.load(phase + start)
    tl.store(take + start, -1.0)
    if now != _DONE:
        slope = tl.zeros([BLOCKS], tl.float64)
        curve = tl.zeros([BLOCKS], tl.float64)
        differ = tl.zeros([BLOCKS], tl.float64)
        norm2 = tl.zeros([BLOCKS], tl.float64)
        for first in range(0, n, BLOCKS):
            block = first + tl.arange(0, BLOCKS)
            at = notes + (start * n + block) * 3
            slope += tl.load(at, mask=block < n, other=0)
            curve += tl.load(at + 1, mask=block < n, other=0)
            differ += tl.load(at + 2, mask=block < n, other=0)
            norm2 += tl.load(norms + start * n + block, mask=block < n, other=0)
        falls = SUFFICIENT * tl.sum(slope, axis=0) + 0.5 * tl.sum(curve, axis=0) < 0
        same = tl.sum(differ, axis=0) == 0
        length = tl.load(alpha + start)
        last_good = tl.load(good + start)
        n_steps = tl.load(steps + start)
        n_trials = tl.load(trials + start) + 1
        if (now == _FIRST) & (n_steps > 0) & (tl.sum(norm2, axis=0) <= tl.load(least + start)):
            tl.store(phase + start, _DONE)  # after its last step there was no need for this trial
        else:
            longer = falls & ((now == _FIRST) | ((now == _LONGER) & (same == 0)))
            takes_good = (now == _LONGER) & (longer == 0)
            takes = takes_good | ((now == _SHORTER) & falls) | (longer & (n_trials == TRIALS))
            taken = tl.where(takes_good, last_good, length)
            fails = (now == _SHORTER) & (falls == 0) & (n_trials == TRIALS)
            n_steps += takes.to(tl.int32)
            ends = fails | (n_steps == STEPS)
            following = tl.where(longer, length / BETA, length * BETA)
            after = tl.where(takes, _FIRST, tl.where(longer, _LONGER, _SHORTER))
            tl.store(good + start, tl.where(longer, length, last_good))
            tl.store(alpha + start, tl.where(takes, taken, following))
            tl.store(trials + start, tl.where(takes, 0, n_trials))
            tl.store(steps + start, n_steps)
            tl.store(phase + start, tl.where(ends, _DONE, after))
            if takes:
                tl.store(take + start, taken)


@triton.jit(do_not_specialize=["r", "p"])
def _take_kernel(
    F, gradient, G, weights, take, norms, r, p,
    LARGEST: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Take the step that was decided on, and note the norm of the projected gradient after it."""
    start = tl.program_id(1).to(tl.int64)
    length = tl.load(take + start)
    if length >= 0:
        F, gradient, G, weights = _of_start(F, gradient, G, weights, r, p)
        columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
        rows = tl.arange(0, WIDTH)
        at = rows[:, None] * p + columns[None, :]
        inside = (rows < r)[:, None] & (columns < p)[None, :]
        G_step = _times_gram(
            F, gradient, G, weights, length, columns, rows, r, p, LARGEST, WIDTH, COLUMNS
        )
        f = tl.load(F + at, mask=inside, other=0)
        slope = tl.load(gradient + at, mask=inside, other=0)
        own = tl.load(weights + rows, mask=rows < r, other=0)
        new = _moved(f, slope, _lengths(length, own, LARGEST, F)[:, None])
        slope += G_step
        tl.debug_barrier()  # all of the program have read what is overwritten now
        tl.store(F + at, new, mask=inside)
        tl.store(gradient + at, slope, mask=inside)
        free = tl.where((slope < 0) | (new > 0), slope, 0.0)
        squares = tl.sum((free * free).to(tl.float64), axis=1)
        block = start * tl.num_programs(0) + tl.program_id(0)
        tl.store(norms + block, tl.sum(own * squares, axis=0))
