"""Triton kernels of the Kullback–Leibler sweep; imported only where Triton is.

A program takes a line of X of one start, whose coordinates move one after another. It keeps WH
beside the line in registers, or for long lines in memory of its own, of which there is a bounded
amount: its programs take several lines in turn. Nothing is added to what another program writes.
"""

import torch
import triton
import triton.language as tl

from nmfmerge.backends.torch.triton_steps import bits, number

_MOST_DENSE, _MOST_SPARSE = 8192, 1024  # values of a line in registers
_BLOCK = 1024  # of a longer line at a time
_PROGRAMS = 4096  # of longer lines
_SCRATCH = 2**27  # numbers in their memory
_OPTIONS = {"enable_fp_fusion": True}  # the default; Triton warns where it is not said


def kl_sweep_(F, fixed, lines, floor, n_sweeps, value, moves, sums, l2, active):
    """Launch the sweeps; return Σ x log y of each start, if ``value`` asks for it.

    ``moves`` (S × r) says which components are updated, and ``sums`` (S × r × p, or S × r × 1 if
    all lines have the same) what they sum to in the fixed factor, with the L1 penalty.
    """
    S, r, p = F.shape
    notes = torch.zeros((S, p), dtype=torch.float64, device=F.device)
    if lines.sparse is None:
        beside, steps = fixed, (fixed.shape[2], 1)  # from component to component, entry to entry
        indptr = places = lines.values
        strides = lines.values.stride()
    else:
        beside, steps = fixed.mT.contiguous(), (1, r)
        indptr, places = lines.sparse.indptr, lines.sparse.places
        strides = (0, 1)
    longest = max(1, lines.longest)
    moves, sums = moves.contiguous(), sums.contiguous()
    sum_steps = (sums.shape[2], int(sums.shape[2] > 1))  # from component to component, line to line
    arguments = (
        F, beside, lines.values, indptr, places, moves, sums, active, notes, r, p, lines.shape[1],
        *strides, *steps, *sum_steps, bits(lines.scale), bits(l2), bits(floor), n_sweeps,
        lines.sparse is not None, value,
    )  # fmt: skip
    if longest <= (_MOST_DENSE if lines.sparse is None else _MOST_SPARSE):
        block = max(32, triton.next_power_of_2(longest))
        warps = min(16, max(1, block // 256))
        _register_kernel[(p, S)](*arguments, block, num_warps=warps, **_OPTIONS)
        return notes.sum(dim=1)
    width = triton.cdiv(longest, _BLOCK) * _BLOCK
    programs = max(1, min(p, _PROGRAMS // S, _SCRATCH // (S * width)))
    scratch = torch.empty((S, programs, width), dtype=F.dtype, device=F.device)
    _memory_kernel[(programs, S)](*arguments, scratch, width, _BLOCK, num_warps=4, **_OPTIONS)
    return notes.sum(dim=1)


@triton.jit
def _moved(old, psi, eta, S, l2):
    """Where a coordinate moves, if zero is not the minimum; and whether that must be seen."""
    S_old = S + l2 * old
    up = psi * (psi - S_old)
    down = S_old * eta + l2 * psi
    counts = down > 0
    root = tl.sqrt(tl.maximum(down * down + 4 * l2 * eta * up, 0.0))
    new = old + 2 * up / tl.where(counts, down + root, 1.0)
    falls = counts & (up < 0) & (old > 0)
    shrink = 1 + (S_old - psi) / tl.where(falls, (eta + l2) * old, 1.0)
    below = falls & (new <= 0)
    new = tl.where(falls, tl.maximum(new, old / (shrink * shrink)), new)
    stays = (old == 0) & (psi <= S)
    return tl.where(counts & (stays == 0), new, 0.0), below


@triton.jit
def _line(indptr, line, q, line_step, SPARSE: tl.constexpr):
    """Where the values of a line begin, and how many there are."""
    if SPARSE:
        first = tl.load(indptr + line).to(tl.int64)
        count = (tl.load(indptr + line + 1) - first).to(tl.int32)
    else:
        first = line * line_step
        count = q
    return first, count


@triton.jit
def _entries(values, places, first, e, inside, entry_step, scale, SPARSE: tl.constexpr):
    """Some values of a line, and where their place is in a row of the fixed factor."""
    x = tl.load(values + first + e.to(tl.int64) * entry_step, mask=inside, other=0)
    at = e.to(tl.int64)
    if SPARSE:
        at = tl.load(places + first + e, mask=inside, other=0).to(tl.int64)
    return x * scale, at


@triton.jit(do_not_specialize=[
    "r", "p", "q", "line_step", "entry_step", "component_step", "place_step", "sum_step",
    "sum_line", "scale_bits", "l2_bits", "floor_bits", "n_sweeps",
])  # fmt: skip
def _register_kernel(
    F, fixed, values, indptr, places, moves, sums, active, notes, r, p, q, line_step, entry_step,
    component_step, place_step, sum_step, sum_line, scale_bits, l2_bits, floor_bits, n_sweeps,
    SPARSE: tl.constexpr, VALUE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One line, with WH beside it in registers."""
    line = tl.program_id(0).to(tl.int64)
    start = tl.program_id(1).to(tl.int64)
    if tl.load(active + start) == 0:
        return
    step = tl.full([], 1, tl.int64) * p  # from one component to the next
    component_step = tl.full([], 1, tl.int64) * component_step
    sum_step = tl.full([], 1, tl.int64) * sum_step
    F += start * r * p + line
    fixed += start * r * q
    moves += start * r
    sums += start * r * sum_step
    dtype = F.dtype.element_ty
    l2 = number(l2_bits)
    floor = number(floor_bits).to(dtype)
    first, count = _line(indptr, line, q, line_step, SPARSE)
    e = tl.arange(0, BLOCK)
    inside = e < count
    x, at = _entries(
        values, places, first, e, inside, entry_step, number(scale_bits).to(dtype), SPARSE
    )  # fmt: skip
    fixed += at * place_step
    y = tl.zeros([BLOCK], dtype)
    for c in range(r):
        v = tl.load(F + c * step)
        y += v * tl.load(fixed + c * component_step, mask=inside, other=0)
    for _ in range(n_sweeps):
        for c in range(r):
            S = tl.load(sums + c * sum_step + line * sum_line)
            if (tl.load(moves + c) != 0) & (S + l2 > 0):
                old = tl.load(F + c * step)
                g = tl.load(fixed + c * component_step, mask=inside, other=0)
                inverse = 1 / tl.maximum(y, floor)
                pull = g * (x * inverse)
                psi = tl.sum(pull, axis=0).to(tl.float64)
                eta = tl.sum(pull * (g * inverse), axis=0).to(tl.float64)
                new, below = _moved(old.to(tl.float64), psi, eta, S, l2)
                if below:
                    rest = tl.maximum(y - old * g, floor)
                    at_zero = tl.sum(g * x / rest, axis=0).to(tl.float64)
                    new = tl.where(at_zero <= S, 0.0, new)
                moved = new.to(dtype)
                y += (moved - old) * g
                tl.store(F + c * step, moved)
        tl.debug_barrier()  # the next sweep reads what this one has stored
    if VALUE:
        log = tl.log(tl.maximum(y, floor).to(tl.float64))
        total = tl.sum(tl.where(inside, x.to(tl.float64) * log, 0.0), axis=0)
        tl.store(notes + start * p + line, total)


@triton.jit(do_not_specialize=[
    "r", "p", "q", "line_step", "entry_step", "component_step", "place_step", "sum_step",
    "sum_line", "scale_bits", "l2_bits", "floor_bits", "n_sweeps", "width",
])  # fmt: skip
def _memory_kernel(
    F, fixed, values, indptr, places, moves, sums, active, notes, r, p, q, line_step, entry_step,
    component_step, place_step, sum_step, sum_line, scale_bits, l2_bits, floor_bits, n_sweeps,
    SPARSE: tl.constexpr, VALUE: tl.constexpr, scratch, width, BLOCK: tl.constexpr,
):  # fmt: skip
    """Every so many-th line, with WH beside it in memory."""
    start = tl.program_id(1).to(tl.int64)
    if tl.load(active + start) == 0:
        return
    step = tl.full([], 1, tl.int64) * p  # from one component to the next
    component_step = tl.full([], 1, tl.int64) * component_step
    sum_step = tl.full([], 1, tl.int64) * sum_step
    F += start * r * p
    fixed += start * r * q
    moves += start * r
    sums += start * r * sum_step
    notes += start * p
    scratch += (start * tl.num_programs(0) + tl.program_id(0)) * width
    dtype = F.dtype.element_ty
    l2 = number(l2_bits)
    scale = number(scale_bits).to(dtype)
    floor = number(floor_bits).to(dtype)
    for number_of_line in range(tl.program_id(0), p, tl.num_programs(0)):
        line = number_of_line * tl.full([], 1, tl.int64)
        first, count = _line(indptr, line, q, line_step, SPARSE)
        for chunk in range(0, count, BLOCK):
            e = chunk + tl.arange(0, BLOCK)
            inside = e < count
            x, at = _entries(values, places, first, e, inside, entry_step, scale, SPARSE)
            y = tl.zeros([BLOCK], dtype)
            for c in range(r):
                v = tl.load(F + c * step + line)
                beside = fixed + c * component_step + at * place_step
                y += v * tl.load(beside, mask=inside, other=0)
            tl.store(scratch + e, y, mask=inside)
        tl.debug_barrier()  # others may read it below
        for _ in range(n_sweeps):
            for c in range(r):
                S = tl.load(sums + c * sum_step + line * sum_line)
                if (tl.load(moves + c) != 0) & (S + l2 > 0):
                    row = fixed + c * component_step
                    old = tl.load(F + c * step + line)
                    psis = tl.zeros([BLOCK], dtype)
                    etas = tl.zeros([BLOCK], dtype)
                    for chunk in range(0, count, BLOCK):
                        e = chunk + tl.arange(0, BLOCK)
                        inside = e < count
                        x, at = _entries(
                            values, places, first, e, inside, entry_step, scale, SPARSE
                        )
                        g = tl.load(row + at * place_step, mask=inside, other=0)
                        inverse = 1 / tl.maximum(tl.load(scratch + e, mask=inside, other=0), floor)
                        pull = g * (x * inverse)
                        psis += pull
                        etas += pull * (g * inverse)
                    psi = tl.sum(psis, axis=0).to(tl.float64)
                    eta = tl.sum(etas, axis=0).to(tl.float64)
                    new, below = _moved(old.to(tl.float64), psi, eta, S, l2)
                    if below:
                        pulls = tl.zeros([BLOCK], dtype)
                        for chunk in range(0, count, BLOCK):
                            e = chunk + tl.arange(0, BLOCK)
                            inside = e < count
                            x, at = _entries(
                                values, places, first, e, inside, entry_step, scale, SPARSE
                            )
                            g = tl.load(row + at * place_step, mask=inside, other=0)
                            y = tl.load(scratch + e, mask=inside, other=0)
                            pulls += g * x / tl.maximum(y - old * g, floor)
                        at_zero = tl.sum(pulls, axis=0).to(tl.float64)
                        new = tl.where(at_zero <= S, 0.0, new)
                    moved = new.to(dtype)
                    for chunk in range(0, count, BLOCK):
                        e = chunk + tl.arange(0, BLOCK)
                        inside = e < count
                        x, at = _entries(
                            values, places, first, e, inside, entry_step, scale, SPARSE
                        )  # fmt: skip
                        g = tl.load(row + at * place_step, mask=inside, other=0)
                        y = tl.load(scratch + e, mask=inside, other=0)
                        tl.store(scratch + e, y + (moved - old) * g, mask=inside)
                    tl.store(F + c * step + line, moved)
                    tl.debug_barrier()
        if VALUE:
            logs = tl.zeros([BLOCK], tl.float64)
            for chunk in range(0, count, BLOCK):
                e = chunk + tl.arange(0, BLOCK)
                inside = e < count
                x, at = _entries(values, places, first, e, inside, entry_step, scale, SPARSE)
                y = tl.load(scratch + e, mask=inside, other=0)
                log = tl.log(tl.maximum(y, floor).to(tl.float64))
                logs += tl.where(inside, x.to(tl.float64) * log, 0.0)
            tl.store(notes + line, tl.sum(logs, axis=0))
