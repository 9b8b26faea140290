"""HALS sweeps and extrapolation for PyTorch tensors, on any device."""

import torch


def hals_sweep_(F, G, C, n_sweeps=1, active=None):
    """Sweep ``n_sweeps`` times over the components of F, in place; see `kernels.hals`."""
    info = torch.finfo(F.dtype)
    curvature = G.diagonal(dim1=1, dim2=2)
    counts = curvature > info.tiny / info.eps
    if active is not None:
        counts = counts & active[:, None]
    inverse = torch.where(counts, 1 / curvature, 0)
    before = F.clone()
    start = F.clone()
    for sweep in range(n_sweeps):
        for t in range(F.shape[1]):
            residual = C[:, t] - (G[:, t, None] @ F)[:, 0]
            F[:, t] = torch.where(
                counts[:, t, None], (F[:, t] + residual * inverse[:, t, None]).clamp(min=0), F[:, t]
            )
        if sweep == 0:
            moved = (F - before).square().sum(dim=2, dtype=torch.float64)
            total = (F + before).square().sum(dim=2, dtype=torch.float64)
    gradient = torch.baddbmm(C, G, F + start, beta=-1, alpha=0.5)
    decrease = (gradient * (start - F)).sum(dim=(1, 2), dtype=torch.float64)
    return moved, total, decrease


def extrapolate_(F, previous, beta):
    """Replace F by ``max(0, F + beta·(F − previous))`` and previous by F, both in place."""
    pushed = (F + beta.to(F.dtype)[:, None, None] * (F - previous)).clamp_(min=0)
    previous.copy_(F)
    F.copy_(pushed)
