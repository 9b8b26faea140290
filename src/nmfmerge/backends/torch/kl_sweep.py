"""Safeguarded coordinate descent for the Kullback–Leibler divergence on torch tensors.

The steps are those of `nmfmerge.backends.numba.kl_sweep`, all lines of a block side by side.
"""

import torch

from nmfmerge.backends.torch.kernels import all_of, by_triton, like
from nmfmerge.backends.torch.kl_sums import x_log_y
from nmfmerge.backends.torch.lines import blocks


def kl_sweep_(
    F, fixed, lines, floor, n_sweeps=1, value=False, free=None, l1=0.0, l2=0.0, active=None,
    sums=None,
):  # fmt: skip
    """Sweep over the coordinates of F, in place; see `nmfmerge.backends.numba.kl_sweep`.

    Starts that are not ``active`` stay, and have not moved.
    """
    active = all_of(F) if active is None else active
    sums = fixed.sum(dim=2, dtype=torch.float64)[:, :, None] if sums is None else sums
    sums = sums + l1
    moves = active[:, None].expand(F.shape[:2])
    if free is not None:
        moves = moves & free
    old = F.clone()
    if by_triton(F):
        from nmfmerge.backends.torch import triton_kl

        seen = triton_kl.kl_sweep_(F, fixed, lines, floor, n_sweeps, value, moves, sums, l2, active)
    else:
        seen = torch.zeros(len(F), dtype=torch.float64, device=F.device)
        for part in blocks(lines, len(F), F.dtype):
            y = _sweep_block_(part, F, fixed, floor, n_sweeps, moves, sums, l2)
            if value:
                seen += x_log_y(part, y, floor)
    moved, total = ((side**2).sum(dim=2, dtype=torch.float64) for side in (F - old, F + old))
    return moved, torch.where(like(active, total), total, 0), seen


def _sweep_block_(part, F, fixed, floor, n_sweeps, moves, sums, l2):
    """Sweep over a block of lines; return WH at its entries."""
    x, y = part.x, part.fit(F, fixed)
    sums = sums if sums.shape[2] == 1 else sums[:, :, part.columns]
    moves = moves[:, :, None] & (sums + l2 > 0)
    for _ in range(n_sweeps):
        for c in range(F.shape[1]):
            g, old = part.beside(fixed[:, c]), F[:, c, part.columns]
            inverse = 1 / y.clamp(min=floor)
            pull = g * (x * inverse)
            psi = part.over_lines(pull).double()
            eta = part.over_lines(pull * (g * inverse)).double()
            new, below = _moved(old.double(), psi, eta, sums[:, c], l2)
            if below.is_cuda or bool(below.any()):  # a GPU is not waited for
                rest = (y - part.spread(old) * g).clamp(min=floor)
                at_zero = part.over_lines(g * x / rest).double()
                new = torch.where(below & (at_zero <= sums[:, c]), 0, new)
            new = torch.where(moves[:, c], new.to(F.dtype), old)
            y += part.spread(new - old) * g
            F[:, c, part.columns] = new
    return y


def _moved(old, psi, eta, S, l2):
    """Where coordinates move, and whether it is to zero if that is the minimum."""
    S_old = S + l2 * old
    up = psi * (psi - S_old)
    down = S_old * eta + l2 * psi
    counts = down > 0  # else no value of X is beside this coordinate
    root = (down * down + 4 * l2 * eta * up).clamp(min=0).sqrt()
    new = old + 2 * up / torch.where(counts, down + root, 1)
    falls = counts & (up < 0) & (old > 0)
    shrink = 1 + (S_old - psi) / torch.where(falls, (eta + l2) * old, 1)
    least = old / (shrink * shrink)
    below = falls & (new <= 0)
    new = torch.where(falls, torch.maximum(new, least), new)
    stays = (old == 0) & (psi <= S)
    return torch.where(counts & ~stays, new, 0), below
