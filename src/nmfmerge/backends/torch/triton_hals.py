"""Triton kernels of the HALS sweep, over (start, block of columns); imported only where Triton is.

Two of them, for they differ in where the columns are while components move one after another. Up to
`_MOST_IN_REGISTERS` components, a block of columns stays in registers for all sweeps: four threads
of a warp share four columns and have a quarter of their components each, so that a number of the
Gram, once loaded, serves four columns. Beyond, the columns stay in memory; the residuals of a chunk
of components are summed up in registers over all components before the chunk moves.

No kernel adds to what another program writes: each program has its own line of notes, and the lines
are added up afterwards, in an order that does not change.
"""

import torch
import triton
import triton.language as tl

_LANES = tl.constexpr(4)  # threads that share columns
_NEIGHBOURS = tl.constexpr(8)  # columns side by side, one of each of eight threads
_UNROLLED = tl.constexpr(4)
_MOST_IN_REGISTERS = 64
_REGISTER_CHUNK, _REGISTER_COLUMNS = 4, 64  # components of a chunk, columns of a program
_MEMORY_CHUNK, _MEMORY_COLUMNS = 8, 256


def hals_sweep_(F, G, C, n_sweeps, active, least):
    """Launch the sweeps; return notes (S, 2r + 2): moved and total, decrease, fit."""
    S, r, p = F.shape
    in_registers = r <= _MOST_IN_REGISTERS
    chunk = _REGISTER_CHUNK if in_registers else _MEMORY_CHUNK
    n_chunks = triton.cdiv(r, chunk)
    width = n_chunks * chunk
    rows = torch.empty((S, width + 2, width), dtype=F.dtype, device=F.device)
    _gram_kernel[(width + 2, S)](
        G, rows, r, width, in_registers, float(least), chunk, num_warps=1, enable_fp_fusion=True
    )
    columns = _REGISTER_COLUMNS if in_registers else _MEMORY_COLUMNS
    options = _register_options(n_chunks) if in_registers else {"num_warps": 2}
    n_blocks = triton.cdiv(p, columns)
    notes = torch.empty((S, n_blocks, 2 * r + 2), dtype=torch.float64, device=F.device)
    arguments = (F, rows, C, active, notes, r, p, n_sweeps, n_chunks, chunk, columns)
    kernel = _register_kernel if in_registers else _memory_kernel
    kernel[(n_blocks, S)](*arguments, **options, enable_fp_fusion=True)  # said, or Triton warns
    return notes.sum(dim=1)


def _register_options(n_chunks):
    """Launch options; more registers a thread would leave too few warps to hide delays."""
    return {"num_warps": 2, "maxnreg": 128 if n_chunks <= 8 else 168}


@triton.jit(do_not_specialize=["r", "width"])
def _gram_kernel(
    G, rows, r, width, ROTATED: tl.constexpr, LEAST: tl.constexpr, CHUNK: tl.constexpr
):  # fmt: skip
    """Copy −G into rows of whole chunks, padded with zeros; below them 1/G_tt and G_tt/2.

    Both are zero for a component that rests. The diagonal is left out. A rotated row begins with
    the chunk of its own component.
    """
    t = tl.program_id(0)
    start = tl.program_id(1).to(tl.int64)
    G += start * r * r
    rows += start * (width + 2) * width
    for first in range(0, width, CHUNK):
        place = first + tl.arange(0, CHUNK)
        if t < width:
            s = place
            if ROTATED:
                s = (place + t // CHUNK * CHUNK) % width
            values = -tl.load(G + t * r + s, mask=s < tl.where(t < r, r, 0), other=0)
            values = tl.where(s == t, 0.0, values)
        else:
            curvature = tl.load(G + place * r + place, mask=place < r, other=0)
            bends = curvature > LEAST
            inverse = tl.where(bends, 1 / tl.where(bends, curvature, 1), 0)
            values = tl.where(t == width, inverse, tl.where(bends, 0.5 * curvature, 0))
        tl.store(rows + t * width + place, values)


@triton.jit
def _weighted_sum(total, g, rows, chunks, CHUNK: tl.constexpr):
    """``total`` and all chunks, weighted by a row of −G, summed up over components."""
    for j in tl.static_range(len(chunks)):
        weights = tl.load(g + j * CHUNK + rows)
        total = tl.fma(weights[:, None, :, None], chunks[j], total)
    return tl.sum(tl.sum(total, axis=0), axis=1)[None, :, None, :]


@triton.jit(do_not_specialize=["r", "p", "n_sweeps"])
def _register_kernel(
    F, G, C, active, notes, r, p, n_sweeps,
    N: tl.constexpr, CHUNK: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sweeps with all components of a block of columns in registers.

    They are a tuple of N chunks (CHUNK/4, groups, 4, neighbours), which turns: the chunk that moves
    is the first.
    """
    GROUPS: tl.constexpr = COLUMNS // _NEIGHBOURS
    WIDTH: tl.constexpr = N * CHUNK
    start = tl.program_id(1).to(tl.int64)
    notes += (start * tl.num_programs(0) + tl.program_id(0)) * (2 * r + 2)
    if tl.load(active + start) == 0:
        for t in range(2 * r + 2):
            tl.store(notes + t, 0.0)
        return
    rows = (tl.arange(0, CHUNK // _LANES) * _LANES)[:, None] + tl.arange(0, _LANES)[None, :]
    groups = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    columns = (groups * _NEIGHBOURS)[:, None] + tl.arange(0, _NEIGHBOURS)[None, :]
    columns = columns[None, :, None, :]
    step = tl.full([], 1, tl.int64) * p  # from one component to the next
    # The compiler shares a tile out to threads along its most contiguous axes; what is said of the
    # others here is not so, but puts them in the order neighbours, lanes, groups.
    tile = tl.max_contiguous(rows[:, None, :, None] * step + columns, [1, 2, 4, 8])
    F += start * r * step + tile
    C += start * r * step + tile
    G += start * ((WIDTH + 2) * WIDTH)
    limits = tl.where(rows < r, p, 0)
    chunks = (tl.load(F, mask=columns < limits[:, None, :, None], other=0),)
    for j in tl.static_range(1, N):
        limits = tl.where(j * CHUNK + rows < r, p, 0)
        chunk = tl.load(F + j * CHUNK * step, mask=columns < limits[:, None, :, None], other=0)
        chunks = chunks + (chunk,)  # type: ignore[assignment] # noqa: RUF005
    decrease = tl.zeros([GROUPS, _LANES, _NEIGHBOURS], tl.float64)
    for sweep in range(n_sweeps):
        lowered = tl.zeros([GROUPS, _LANES, _NEIGHBOURS], C.dtype.element_ty)
        for k in range(N):
            first = k * CHUNK
            limits = tl.where(first + rows < r, p, 0)
            inside = columns < limits[:, None, :, None]
            moving = chunks[0]
            c = tl.load(C + first * step, mask=inside, other=0)
            for i in range(tl.minimum(r - first, CHUNK)):
                g = G + (first + i) * WIDTH
                inverse = tl.load(G + WIDTH * WIDTH + first + i)
                half = tl.load(G + (WIDTH + 1) * WIDTH + first + i)
                here = (rows == i)[:, None, :, None]
                own = tl.where(here, c, 0.0)
                present = (moving,) + chunks[1:]  # noqa: RUF005
                a = _weighted_sum(own, g, rows, present, CHUNK)
                moves = (rows == tl.where(half > 0, i, -1))[:, None, :, None]
                new = tl.where(moves, tl.maximum(a * inverse, 0.0), moving)
                d = new - moving
                lowered += tl.sum(d * (a - half * (new + moving)), axis=0)
                moving = new
            chunks = chunks[1:] + (moving,)  # noqa: RUF005
            if sweep == 0:
                old = tl.load(F + first * step, mask=inside, other=0)
                d = moving - old
                moved = tl.sum(tl.sum((d * d).to(tl.float64), axis=1), axis=2)
                tl.store(notes + first + rows, moved, mask=first + rows < r)
                d = moving + old
                total = tl.sum(tl.sum((d * d).to(tl.float64), axis=1), axis=2)
                tl.store(notes + r + first + rows, total, mask=first + rows < r)
        decrease += lowered.to(tl.float64)
    fit = tl.zeros([GROUPS, _LANES, _NEIGHBOURS], tl.float64)
    for j in tl.static_range(N):
        limits = tl.where(j * CHUNK + rows < r, p, 0)
        inside = columns < limits[:, None, :, None]
        f = chunks[j]
        c = tl.load(C + j * CHUNK * step, mask=inside, other=0)
        fit += tl.sum((c * f).to(tl.float64), axis=0)
        tl.store(F + j * CHUNK * step, f, mask=inside)
    tl.store(notes + 2 * r, tl.sum(decrease))
    tl.store(notes + 2 * r + 1, tl.sum(fit))


@triton.jit(do_not_specialize=["r", "p", "n_sweeps", "n_chunks"])
def _memory_kernel(
    F, G, C, active, notes, r, p, n_sweeps, n_chunks,
    CHUNK: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sweeps with the columns in memory and the residuals of a chunk in registers."""
    start = tl.program_id(1).to(tl.int64)
    width = n_chunks * CHUNK
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < p
    notes += (start * tl.num_programs(0) + tl.program_id(0)) * (2 * r + 2)
    if tl.load(active + start) == 0:
        for t in range(2 * r + 2):
            tl.store(notes + t, 0.0)
        return
    step = tl.full([], 1, tl.int64) * p  # from one component to the next
    F += start * r * step
    C += start * r * step
    G += start * (width + 2) * width
    rows = tl.arange(0, CHUNK)
    decrease = tl.zeros([COLUMNS], tl.float64)
    for sweep in range(n_sweeps):
        for chunk in range(n_chunks):
            first = chunk * CHUNK
            here = first + rows
            residual = tl.load(
                C + here[:, None] * step + columns[None, :],
                mask=(here < r)[:, None] & inside[None, :],
                other=0,
            )
            for block in range(0, r, _UNROLLED):
                for u in tl.static_range(_UNROLLED):
                    s = block + u  # from r on, −G is zero
                    f = tl.load(F + tl.minimum(s, r - 1) * step + columns, mask=inside, other=0)
                    g = tl.load(G + s * width + first + rows)
                    residual = tl.fma(g[:, None], f[None, :], residual)
            lowered = tl.zeros([COLUMNS], F.dtype.element_ty)
            for i in tl.static_range(CHUNK):
                t = first + i
                moves = columns < tl.where(t < r, p, 0)
                a = tl.sum(tl.where((rows == i)[:, None], residual, 0.0), axis=0)
                old = tl.load(F + t * step + columns, mask=moves, other=0)
                inverse = tl.load(G + width * width + t)
                half = tl.load(G + (width + 1) * width + t)
                new = tl.where(half > 0, tl.maximum(a * inverse, 0.0), old)
                d = new - old
                lowered += d * (a - half * (new + old))
                g = tl.load(G + t * width + first + rows)
                residual = tl.where(
                    (rows > i)[:, None], tl.fma(g[:, None], d[None, :], residual), residual
                )
                tl.store(F + t * step + columns, new, mask=moves)
                if (sweep == 0) & (t < r):
                    tl.store(notes + t, tl.sum((d * d).to(tl.float64), axis=0))
                    both = new + old
                    tl.store(notes + r + t, tl.sum((both * both).to(tl.float64), axis=0))
            decrease += lowered.to(tl.float64)
            tl.debug_barrier()  # the next chunk reads what this one has stored
    fit = tl.zeros([COLUMNS], tl.float64)
    for t in range(r):
        f = tl.load(F + t * step + columns, mask=inside, other=0)
        c = tl.load(C + t * step + columns, mask=inside, other=0)
        fit += (c * f).to(tl.float64)
    tl.store(notes + 2 * r, tl.sum(decrease, axis=0))
    tl.store(notes + 2 * r + 1, tl.sum(fit, axis=0))
