"""Greedy coordinate descent on torch tensors, all columns of all starts side by side."""

import torch

from nmfmerge.backends.torch.kernels import all_of, by_triton, least_curvature, like


def gcd_sweep_(F, G, C, tolerance, active=None):
    """Take greedy steps in each column of F, in place; see `nmfmerge.backends.numba.gcd`.

    Within, a column lies in one piece: the components are the last axis of what is worked on.
    """
    active = all_of(F) if active is None else active
    columns = F.mT.contiguous()
    gradient = torch.baddbmm(C.mT, columns, G, beta=-1).contiguous()
    if by_triton(F):
        from nmfmerge.backends.torch import triton_gcd

        notes = triton_gcd.gcd_steps_(columns, gradient, G, tolerance, active, least_curvature(F))
    else:
        notes = _steps_(columns, gradient, G, tolerance, active)
    F.copy_(columns.mT)
    return notes


def _steps_(F, gradient, G, tolerance, active):
    """The steps by torch operations, one of every column that goes on at a time."""
    old = F.clone()
    curvature = torch.diagonal(G, dim1=1, dim2=2)[:, None]
    bends = curvature > least_curvature(F)
    inverse = torch.where(bends, 1 / torch.where(bends, curvature, 1), 0)
    threshold = None
    for _ in range(F.shape[2] ** 2):
        step = torch.clamp_min(F - gradient * inverse, 0) - F
        decrease = -step * (gradient + 0.5 * curvature * step)
        best, place = decrease.max(dim=2, keepdim=True)
        if threshold is None:
            largest = best.amax(dim=(1, 2)).double().clamp_min(0)
            threshold = like(tolerance * largest, best).to(F.dtype)
        goes_on = (best > threshold) & like(active, best)
        if not goes_on.any():
            break
        taken = torch.where(goes_on, step.gather(2, place), 0)
        F.scatter_add_(2, place, taken)
        rows = G.gather(1, place.expand(-1, -1, G.shape[2]))
        gradient += taken * rows
    return tuple(
        torch.where(like(active, G[:, 0]), (part**2).sum(dim=1, dtype=torch.float64), 0)
        for part in (F - old, F + old)
    )
