"""Coordinate descent for the weighted squared error on torch tensors.

A device has flops to spare and little patience with gathering: the Gram ``Σ m f fᵀ`` of every line
comes from one product of the weights with the pairs of components, and all lines of a block are
swept side by side.
"""

import torch

from nmfmerge.backends.torch.kernels import all_of

_GRAM_ENTRIES = 2**25  # of Grams, and of products of components, at a time
_FIT_ENTRIES = 2**25  # of WH at a time, over all starts


def weighted_sweep_(
    F, fixed, C, G, lines, n_sweeps=1, value=False, free=None, l1=0.0, l2=0.0, multiply=False,
    active=None,
):  # fmt: skip
    """Sweep over the coordinates of F, in place; see `nmfmerge.backends.numba.weighted_sweep`.

    ``lines`` (p × q) are the weights, or 1 less them where there is a G.
    """
    S, r, p = F.shape
    active = all_of(F) if active is None else active
    moves = active[:, None].expand(S, r)
    moves = (moves if free is None else moves & free)[:, :, None]
    i, j = torch.triu_indices(r, r, device=F.device)
    pair = torch.empty((r, r), dtype=torch.long, device=F.device)
    pair[i, j] = pair[j, i] = torch.arange(len(i), device=F.device)
    moved, total = (torch.zeros((S, r), dtype=torch.float64, device=F.device) for _ in "12")
    fit = torch.zeros(S, dtype=torch.float64, device=F.device)
    step = multiplied if multiply else swept
    n_together = max(1, _GRAM_ENTRIES // (len(i) * fixed.shape[2]))
    for first in range(0, S, n_together):
        own = slice(first, first + n_together)
        products = fixed[own, i] * fixed[own, j]
        width = max(1, _GRAM_ENTRIES // (len(products) * len(i)))
        for start in range(0, p, width):
            part = slice(start, start + width)
            grams = (products @ lines[part].T).double()
            if G is not None:
                grams = G[own, i, j, None] - grams
            old, target = (A[own, :, part].to(torch.float64, copy=True) for A in (F, C))
            new = old.clone()
            for _ in range(1 if multiply else n_sweeps):
                new = step(new, target, grams, pair, moves[own], l1, l2, torch.finfo(F.dtype).tiny)
            new = new.to(F.dtype).double()
            F[own, :, part] = new.to(F.dtype)
            moved[own] += (new - old).square().sum(dim=2)
            total[own] += (new + old).square().sum(dim=2)
            if value:
                model = sum(_times(grams, pair[c], new) * new[:, c] for c in range(r))
                fit[own] += (new * target).sum(dim=(1, 2)) - 0.5 * model.sum(dim=1)
    return moved, torch.where(active[:, None], total, 0), fit


def missing_cross_(F, fixed, C, lines, add=True):
    """Add Σ u y f of each line to C, in place; return Σ u y² of each start."""
    squares = torch.zeros(len(F), dtype=torch.float64, device=F.device)
    width = max(1, _FIT_ENTRIES // (len(F) * fixed.shape[2]))
    for start in range(0, F.shape[2], width):
        part = slice(start, start + width)
        y = F[:, :, part].mT @ fixed
        missing = y * lines[part]
        squares += (missing * y).sum(dim=(1, 2), dtype=torch.float64)
        if add:
            C[:, :, part] += fixed @ missing.mT
    return squares


def swept(v, target, grams, pair, moves, l1, l2, tiny):
    """Move each coordinate to its minimum, in place; one without any observation rests."""
    for c in range(v.shape[1]):
        curvature = grams[:, c * len(pair) - c * (c - 1) // 2] + l2
        slope = target[:, c] - _times(grams, pair[c], v) - l1 - l2 * v[:, c]
        bends = curvature > tiny
        new = (v[:, c] + slope / torch.where(bends, curvature, 1)).clamp(min=0)
        rest = v[:, c] if l1 == 0 else torch.zeros_like(new)
        v[:, c] = torch.where(moves[:, c], torch.where(bends, new, rest), v[:, c])
    return v


def multiplied(v, target, grams, pair, moves, l1, l2, tiny):
    """Multiply each coordinate by its part of X over that of WH; zeros stay zero."""
    model = torch.stack([_times(grams, row, v) for row in pair], dim=1)
    down = model + l1 + l2 * v
    new = v * (target / torch.where(down > tiny, down, 1))
    return torch.where(moves & (down > tiny), new, v)


def _times(grams, row, v):
    """A row of the Gram of each line times v, n_starts × b."""
    return (grams[:, row] * v).sum(dim=1)
