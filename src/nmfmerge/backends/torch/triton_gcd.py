"""Triton kernels of greedy coordinate descent; imported only where Triton is.

A program has some columns of one start in registers, one warp the components of each, and takes
their steps until none of them goes on. Components are padded to a power of two.
"""

import torch
import triton
import triton.language as tl

_ENTRIES = 128  # of the columns that a program has in registers
_OPTIONS = {"num_warps": 1, "enable_fp_fusion": True}  # the latter said, or Triton warns


def gcd_steps_(F, gradient, G, tolerance, active, least):
    """Launch the steps on F (S, p, r); return moved and total (S, r)."""
    S, p, r = F.shape
    width = triton.next_power_of_2(r)
    columns = max(1, _ENTRIES // width)
    grid = triton.cdiv(p, columns), S
    decreases = torch.empty((S, grid[0]), dtype=F.dtype, device=F.device)
    _decrease_kernel[grid](
        F, gradient, G, active, decreases, p, r, float(least), width, columns, **_OPTIONS
    )
    threshold = (tolerance * decreases.amax(dim=1).double()).to(F.dtype)
    notes = torch.empty((S, grid[0], 2, r), dtype=torch.float64, device=F.device)
    _steps_kernel[grid](
        F, gradient, G, threshold, active, notes, p, r, float(least), width, columns, **_OPTIONS
    )
    return notes.sum(dim=1).unbind(dim=1)


@triton.jit
def _tile(p, r, WIDTH: tl.constexpr, COLUMNS: tl.constexpr):
    """Where the entries of a program are in a factor, and which of them there are."""
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    rows = tl.arange(0, WIDTH)
    start = tl.program_id(1).to(tl.int64)
    at = (start * p + columns[:, None]) * r + rows[None, :]
    return at, (columns < p)[:, None] & (rows < r)[None, :], rows, start


@triton.jit
def _curvatures(G, r, rows, LEAST: tl.constexpr):
    """Diagonal of G and its inverse, 0 where it is next to 0: such coordinates rest."""
    curvature = tl.load(G + rows * (r + 1), mask=rows < r, other=0)
    bends = curvature > LEAST
    inverse = tl.where(bends, 1 / tl.where(bends, curvature, 1), 0)
    return curvature[None, :], inverse[None, :]


@triton.jit
def _single_steps(f, gradient, curvature, inverse):
    """Step of each coordinate alone, and what it brings."""
    step = tl.maximum(f - gradient * inverse, 0.0) - f
    return step, -step * (gradient + 0.5 * curvature * step)


@triton.jit
def _better(decrease_a, place_a, step_a, decrease_b, place_b, step_b):
    """The larger decrease, of equal ones the first."""
    first = (decrease_a > decrease_b) | ((decrease_a == decrease_b) & (place_a < place_b))
    return (
        tl.where(first, decrease_a, decrease_b),
        tl.where(first, place_a, place_b),
        tl.where(first, step_a, step_b),
    )


@triton.jit(do_not_specialize=["p", "r"])
def _decrease_kernel(
    F, gradient, G, active, decreases, p, r,
    LEAST: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The largest decrease by one step, in some columns."""
    at, inside, rows, start = _tile(p, r, WIDTH, COLUMNS)
    largest = tl.full([], 0, F.dtype.element_ty)
    if tl.load(active + start) != 0:
        curvature, inverse = _curvatures(G + start * r * r, r, rows, LEAST)
        f = tl.load(F + at, mask=inside, other=0)
        slope = tl.load(gradient + at, mask=inside, other=0)
        _, decrease = _single_steps(f, slope, curvature, inverse)
        largest = tl.maximum(tl.max(tl.max(decrease, axis=1), axis=0), 0.0)
    tl.store(decreases + start * tl.num_programs(0) + tl.program_id(0), largest)


@triton.jit(do_not_specialize=["p", "r"])
def _steps_kernel(
    F, gradient, G, threshold, active, notes, p, r,
    LEAST: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """All steps of some columns, one of each that goes on at a time."""
    at, inside, rows, start = _tile(p, r, WIDTH, COLUMNS)
    notes += (start * tl.num_programs(0) + tl.program_id(0)) * 2 * r
    difference = tl.zeros([WIDTH], tl.float64)
    size = tl.zeros([WIDTH], tl.float64)
    if tl.load(active + start) != 0:
        G += start * r * r
        curvature, inverse = _curvatures(G, r, rows, LEAST)
        old = tl.load(F + at, mask=inside, other=0)
        slope = tl.load(gradient + at, mask=inside, other=0)
        enough = tl.load(threshold + start)
        places = tl.broadcast_to(rows[None, :], [COLUMNS, WIDTH])
        f = old
        n_steps = 0
        going = 1
        while going > 0:
            step, decrease = _single_steps(f, slope, curvature, inverse)
            best, place, taken = tl.reduce((decrease, places, step), 1, _better)
            goes_on = (best > enough) & (n_steps < r * r)
            taken = tl.where(goes_on, taken, 0.0)
            # A column that has ended loads the first row: a place beyond r is not one of G.
            row = tl.where(goes_on, place, 0)
            g = tl.load(G + row[:, None] * r + rows[None, :], mask=inside, other=0)
            f = tl.where(places == place[:, None], f + taken[:, None], f)
            slope += taken[:, None] * g
            n_steps += 1
            going = tl.max(goes_on.to(tl.int32), axis=0)
        tl.store(F + at, f, mask=inside)
        d = (f - old).to(tl.float64)
        both = (f + old).to(tl.float64)
        difference = tl.sum(d * d, axis=0)
        size = tl.sum(both * both, axis=0)
    tl.store(notes + rows, difference, mask=rows < r)
    tl.store(notes + r + rows, size, mask=rows < r)
