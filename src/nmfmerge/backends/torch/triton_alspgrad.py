"""Triton kernels of the projected gradient with step search; imported only where Triton is.

A round is two of them: take the steps that were decided on and try two lengths for the next in all
columns, then decide for every start what comes of the trials. The second length is that which the
search would try if the first does not end it; mostly the two end it, so a step costs one round.
Starts that do not take part cost a program that ends at once. A program has all components of its
columns, so nothing but the decisions passes between programs; products with G are on matrix units.
"""

import torch
import triton
import triton.language as tl

from nmfmerge.backends.numba.alspgrad import SEARCH

_LEAST_WIDTH, MOST_WIDTH = 16, 128  # of a product on matrix units; G has to fit beside them
_NARROW = 32  # up to this width a program has many columns: fastest on an H200
_MANY, _FEW = 64, 16
_BLOCKS = 128  # whose notes are added at a time
_NOTES = 7  # of a block: slope, curve and columns moved, of both trials; norm²
_OPTIONS = {"num_warps": 4, "enable_fp_fusion": True}  # the latter said, or Triton warns
_DONE, _FIRST, _SHORTER, _LONGER = (tl.constexpr(phase) for phase in range(4))


def room_for_notes(F):
    """Numbers of blocks of columns (S, n, 7)."""
    n = triton.cdiv(F.shape[2], _shape(F)[1])
    return torch.zeros((len(F), n, _NOTES), dtype=torch.float64, device=F.device)


def _shape(F):
    """Components, padded to a power of two, and columns of a program."""
    width = max(_LEAST_WIDTH, triton.next_power_of_2(F.shape[1]))
    return width, _MANY if width <= _NARROW else _FEW


def round_(own):
    """Launch two trials of every start that goes on; see `alspgrad._round_`."""
    S, r, p = own.F.shape
    width, columns = _shape(own.F)
    n = own.notes.shape[1]
    search = own.search
    _step_kernel[(n, S)](
        own.F, own.gradient, own.G, own.weights, search.phase, search.alpha, search.good,
        search.take, own.notes, r, p, torch.finfo(own.F.dtype).max, SEARCH.beta, width, columns,
        _NOTES, **_OPTIONS,
    )  # fmt: skip
    _decide_kernel[(S,)](
        *search, own.notes, n, SEARCH.beta, 1 - SEARCH.sigma, SEARCH.trials, SEARCH.iterations,
        _BLOCKS, _NOTES, num_warps=1, enable_fp_fusion=True,
    )  # fmt: skip


@triton.jit
def _moved(f, gradient, alpha, weights, LARGEST: tl.constexpr):
    """Where a step leads whose lengths are as large as they may be."""
    lengths = tl.minimum(alpha * weights, LARGEST).to(f.dtype)
    return tl.maximum(f - lengths[:, None] * gradient, 0.0)


@triton.jit
def _times(g, step):
    return tl.dot(g, step, input_precision="ieee", out_dtype=step.dtype)


@triton.jit
def _total(tile):
    return tl.sum(tl.sum(tile.to(tl.float64), axis=1), axis=0)


@triton.jit
def _second(phase, alpha, BETA: tl.constexpr):
    """The length to try after another, if the first does not end the search."""
    return tl.where(phase == _SHORTER, alpha * BETA, alpha / BETA)


@triton.jit
def _note_trial(notes, f, gradient, g, new, before):
    """Slope and curve along a step, and in how many entries it differs from another."""
    step = new - f
    tl.store(notes, _total(gradient * step))
    tl.store(notes + 1, _total(step * _times(g, step)))
    tl.store(notes + 2, _total((new != before).to(tl.int32)))


@triton.jit(do_not_specialize=["r", "p"])
def _step_kernel(
    F, gradient, G, weights, phase, alpha, good, take, notes, r, p,
    LARGEST: tl.constexpr, BETA: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr,
    NOTES: tl.constexpr,
):  # fmt: skip
    """Take the step decided on, note the norm of the projected gradient, and try two lengths."""
    start = tl.program_id(1).to(tl.int64)
    now = tl.load(phase + start)
    if now != _DONE:
        rows = tl.arange(0, WIDTH)
        columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
        at = start * r * p + rows[:, None] * p + columns[None, :]
        inside = (rows < r)[:, None] & (columns < p)[None, :]
        square = (rows < r)[:, None] & (rows < r)[None, :]
        g = tl.load(G + start * r * r + rows[:, None] * r + rows[None, :], mask=square, other=0)
        own = tl.load(weights + start * r + rows, mask=rows < r, other=0)
        f = tl.load(F + at, mask=inside, other=0)
        slope = tl.load(gradient + at, mask=inside, other=0)
        notes += (start * tl.num_programs(0) + tl.program_id(0)) * NOTES
        taken = tl.load(take + start)
        if taken >= 0:
            new = _moved(f, slope, taken, own, LARGEST)
            slope += _times(g, new - f)
            f = new
            tl.store(F + at, f, mask=inside)
            tl.store(gradient + at, slope, mask=inside)
            free = tl.where((slope < 0) | (f > 0), slope, 0.0)
            tl.store(notes + 6, tl.sum(own * tl.sum((free * free).to(tl.float64), axis=1), axis=0))
        length = tl.load(alpha + start)
        before = _moved(f, slope, tl.load(good + start), own, LARGEST)
        first = _moved(f, slope, length, own, LARGEST)
        _note_trial(notes, f, slope, g, first, before)
        second = _moved(f, slope, _second(now, length, BETA), own, LARGEST)
        _note_trial(notes + 3, f, slope, g, second, first)


@triton.jit
def _decision(
    phase, length, good, falls, differs, n_trials, BETA: tl.constexpr, TRIALS: tl.constexpr
):
    """After a trial: the next phase, the length to take or -1, that to try next, the last good."""
    last = n_trials == TRIALS
    longer = falls & ((phase == _FIRST) | ((phase == _LONGER) & differs))
    takes_good = (phase == _LONGER) & (longer == 0)
    takes = takes_good | ((phase == _SHORTER) & falls) | (longer & last)
    fails = (phase == _SHORTER) & (falls == 0) & last
    taken = tl.where(takes_good, good, length)
    following = tl.where(longer, length / BETA, length * BETA)
    after = tl.where(fails, _DONE, tl.where(longer, _LONGER, _SHORTER))
    return (
        tl.where(takes, _FIRST, after),
        tl.where(takes, taken, -1.0),
        tl.where(takes, taken, following),
        tl.where(longer, length, good),
    )


@triton.jit(do_not_specialize=["n"])
def _decide_kernel(
    phase, alpha, good, take, trials, steps, least, notes, n,
    BETA: tl.constexpr, SUFFICIENT: tl.constexpr, TRIALS: tl.constexpr, STEPS: tl.constexpr,
    BLOCKS: tl.constexpr, NOTES: tl.constexpr,
):  # fmt: skip
    """The decision of a start after its trials, one program per start; see `alspgrad._decide_`."""
    start = tl.program_id(0).to(tl.int64)
    now = tl.load(phase + start)
    if now != _DONE:
        kinds = tl.arange(0, 8)
        sums = tl.zeros([BLOCKS, 8], tl.float64)
        for first in range(0, n, BLOCKS):
            block = first + tl.arange(0, BLOCKS)
            at = notes + (start * n + block)[:, None] * NOTES + kinds[None, :]
            sums += tl.load(at, mask=(block < n)[:, None] & (kinds < NOTES)[None, :], other=0)
        sums = tl.sum(sums, axis=0)
        n_steps = tl.load(steps + start)
        begins = (now == _FIRST) & (n_steps > 0)
        if begins & ((_pick(sums, kinds, 6) <= tl.load(least + start)) | (n_steps == STEPS)):
            tl.store(phase + start, _DONE)  # after its last step there was no need for the trials
        else:
            length, last_good = tl.load(alpha + start), tl.load(good + start)
            n_trials = tl.load(trials + start) + 1
            falls = SUFFICIENT * _pick(sums, kinds, 0) + 0.5 * _pick(sums, kinds, 1) < 0
            differs = _pick(sums, kinds, 2) > 0
            after, taken, following, last_good = _decision(
                now, length, last_good, falls, differs, n_trials, BETA, TRIALS
            )
            if (after == _LONGER) | ((after == _SHORTER) & (now == _SHORTER)):
                n_trials += 1
                falls = SUFFICIENT * _pick(sums, kinds, 3) + 0.5 * _pick(sums, kinds, 4) < 0
                differs = _pick(sums, kinds, 5) > 0
                after, taken, following, last_good = _decision(
                    after, following, last_good, falls, differs, n_trials, BETA, TRIALS
                )
            tl.store(phase + start, after)
            tl.store(take + start, taken)
            tl.store(alpha + start, following)
            tl.store(good + start, last_good)
            tl.store(trials + start, tl.where(taken >= 0, 0, n_trials))
            tl.store(steps + start, n_steps + (taken >= 0).to(tl.int32))


@triton.jit
def _pick(sums, kinds, KIND: tl.constexpr):
    return tl.sum(tl.where(kinds == KIND, sums, 0.0), axis=0)
