"""Triton kernels for the steps between sweeps of many starts: extrapolate, judge, settle.

Import this only where Triton is there.
"""

import struct

import torch
import triton
import triton.language as tl

from nmfmerge.backends.numba.momentum import RULE

_BLOCK = 1024
_OPTIONS = {"enable_fp_fusion": True}  # the default; Triton warns where it is not said


def extrapolate_(F, previous, beta, active):
    """Launch; see `nmfmerge.backends.torch.kernels.extrapolate_`."""
    size = F[0].numel()
    grid = (triton.cdiv(size, _BLOCK), len(F))
    _extrapolate_kernel[grid](F, previous, beta, active, size, _BLOCK, **_OPTIONS)


def settle_(F1, F2, accepted1, swept2, taken_back):
    """Launch; see `nmfmerge.backends.torch.kernels.settle_`."""
    first, second = F1[0].numel(), F2[0].numel()
    grid = (triton.cdiv(max(first, second), _BLOCK), len(F1))
    _settle_kernel[grid](F1, F2, accepted1, swept2, taken_back, first, second, _BLOCK, **_OPTIONS)


def note_steps_(ratio, moved, total):
    """Launch; see `nmfmerge.backends.torch.kernels.note_steps_`."""
    S, r = ratio.shape
    grid = (triton.cdiv(S * r, _BLOCK),)
    _note_kernel[grid](
        ratio, moved, total, moved.stride(0), total.stride(0), S * r, r, _BLOCK, **_OPTIONS
    )  # fmt: skip


def judge_(state, fit, WtW, HHt, ratio, constant, rise, limit, negligible, active):
    """Launch; see `nmfmerge.backends.torch.kernels.judge_`."""
    S, r = ratio.shape
    step = torch.empty_like(state.objective)
    _judge_kernel[(S,)](
        state.objective, state.weight, state.bound, state.last_weight, state.rest,
        state.taken_back, step, active, fit, fit.stride(0), WtW, HHt, ratio,
        fit if rise is None else rise, bits(constant), bits(negligible * negligible),
        bits(limit), r, RULE.growth, RULE.bound_growth, RULE.shrink, RULE.step_scale,
        rise is not None, triton.next_power_of_2(r), num_warps=1, **_OPTIONS,
    )  # fmt: skip
    return step


def bits(value):
    """A float64 as an integer, for Triton passes floating-point arguments as float32."""
    return struct.unpack("q", struct.pack("d", value))[0]


@triton.jit(do_not_specialize=["size"])
def _extrapolate_kernel(F, previous, beta, active, size, BLOCK: tl.constexpr):
    start = tl.program_id(1).to(tl.int64)
    if tl.load(active + start) != 0:
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        inside = at < size
        F += start * size
        previous += start * size
        f = tl.load(F + at, mask=inside, other=0)
        move = f - tl.load(previous + at, mask=inside, other=0)
        weight = tl.load(beta + start).to(f.dtype)
        tl.store(F + at, tl.maximum(f + weight * move, 0.0), mask=inside)
        tl.store(previous + at, f, mask=inside)


@triton.jit(do_not_specialize=["first", "second"])
def _settle_kernel(
    F1, F2, accepted1, swept2, taken_back, first, second, BLOCK: tl.constexpr
):  # fmt: skip
    start = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    at1 = start * first + at
    if tl.load(taken_back + start) != 0:
        tl.store(F1 + at1, tl.load(accepted1 + at1, mask=at < first), mask=at < first)
        at2 = start * second + at
        tl.store(F2 + at2, tl.load(swept2 + at2, mask=at < second), mask=at < second)
    else:
        tl.store(accepted1 + at1, tl.load(F1 + at1, mask=at < first), mask=at < first)


@triton.jit(do_not_specialize=["moved_stride", "total_stride", "size", "r"])
def _note_kernel(
    ratio, moved, total, moved_stride, total_stride, size, r, BLOCK: tl.constexpr
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    start, t = at // r, at % r
    b = tl.load(total + start * total_stride + t, mask=inside, other=0)
    a = tl.load(moved + start * moved_stride + t, mask=inside, other=0)
    step = tl.where(b > 0, tl.sqrt(a / tl.where(b > 0, b, 1.0)), 0.0)
    known = tl.load(ratio + at, mask=inside, other=0)
    tl.store(ratio + at, tl.maximum(known, step), mask=inside)


@triton.jit(
    do_not_specialize=["fit_stride", "constant_bits", "negligible2_bits", "limit_bits", "r"]
)
def _judge_kernel(
    objective, weight, bound, last_weight, rest, taken_back, step, active,
    fit, fit_stride, WtW, HHt, ratio, rise, constant_bits, negligible2_bits, limit_bits, r,
    GROWTH: tl.constexpr, BOUND_GROWTH: tl.constexpr, SHRINK: tl.constexpr,
    STEP_SCALE: tl.constexpr, RISE_GIVEN: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """One program a start."""
    start = tl.program_id(0).to(tl.int64)
    tl.store(step + start, float("nan"))
    if tl.load(active + start) != 0:
        columns = tl.arange(0, WIDTH)
        inside = columns < r
        WtW += start * r * r
        HHt += start * r * r
        sums = tl.zeros([WIDTH], tl.float64)
        for t in range(r):
            a = tl.load(WtW + t * r + columns, mask=inside, other=0).to(tl.float64)
            b = tl.load(HHt + t * r + columns, mask=inside, other=0).to(tl.float64)
            sums += a * b
        whole = tl.sum(sums, axis=0)
        was = tl.load(objective + start)
        now = 0.5 * number(constant_bits) - tl.load(fit + start * fit_stride) + 0.5 * whole
        now = tl.maximum(now, 0.0)
        rose = now - was
        if RISE_GIVEN:
            rose = tl.where(was < number(limit_bits), tl.load(rise + start), rose)
        resting = tl.load(rest + start) != 0
        last = tl.load(weight + start)
        highest = tl.load(bound + start)
        if (rose > 0) & (resting == 0):
            tl.store(bound + start, tl.load(last_weight + start))
            tl.store(weight + start, last / SHRINK)
            tl.store(rest + start, True)
            tl.store(taken_back + start, True)
        else:
            tl.store(objective + start, now)
            tl.store(rest + start, False)
            tl.store(last_weight + start, last)
            tl.store(weight + start, tl.minimum(highest, GROWTH * last))
            tl.store(bound + start, tl.minimum(1.0, BOUND_GROWTH * highest))
            tl.store(taken_back + start, False)
            a = tl.load(WtW + columns * (r + 1), mask=inside, other=0).to(tl.float64)
            b = tl.load(HHt + columns * (r + 1), mask=inside, other=0).to(tl.float64)
            moves = tl.load(ratio + start * r + columns, mask=inside, other=0)
            counts = a * b > number(negligible2_bits) * whole
            tl.store(step + start, tl.max(tl.where(counts, moves, 0.0), axis=0) / STEP_SCALE)
    else:
        tl.store(taken_back + start, False)


@triton.jit
def number(bits):
    """Undo `bits`."""
    return bits.to(tl.int64).to(tl.float64, bitcast=True)
