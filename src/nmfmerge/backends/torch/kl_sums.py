"""Passes over all lines of X for the Kullback–Leibler divergence, on torch tensors.

As in `nmfmerge.backends.numba.kl_sums`; WH is computed for a block of lines at a time.
"""

import numpy as np
import torch

from nmfmerge.backends.torch.lines import blocks


def kl_line_sums(lines, n_lines, length):
    """Σ x and Σ x log x of each line (n_lines × 2), in float64, on the host."""
    sums = [
        torch.stack([part.over_lines(x)[0] for x in (part.x[None], _x_log_x(part.x)[None])], dim=1)
        for part in blocks(lines, 1, torch.float64)
    ]
    return torch.cat(sums).cpu().numpy() if sums else np.zeros((n_lines, 2))


def kl_mu_step_(F, fixed, lines, floor, tiny, l1=0.0, l2=0.0, sums=None):
    """Multiply F by ``(Σ f x/y) / (Σ f + l1 + l2 F)`` in place; zeros stay zero."""
    S = fixed.sum(dim=2, dtype=torch.float64)[:, :, None] if sums is None else sums
    S = S + l1
    moved, total = (torch.zeros(F.shape[:2], dtype=torch.float64, device=F.device) for _ in "12")
    for part in blocks(lines, len(F), F.dtype):
        old = F[:, :, part.columns].double()
        down = (S if S.shape[2] == 1 else S[:, :, part.columns]) + l2 * old
        up = part.products(fixed, part.x / part.fit(F, fixed).clamp(min=floor)).double()
        new = torch.where(down > 0, old * (up / torch.where(down > 0, down, 1)), old).to(F.dtype)
        new = torch.where(new >= tiny, new, 0)
        moved += (new - old).square().sum(dim=2)
        total += (new + old).square().sum(dim=2)
        F[:, :, part.columns] = new
    return moved, total


def kl_explained(F, fixed, lines, floor):
    """The part of each component in Σ X: its mass after an EM step."""
    total = torch.zeros(F.shape[:2], dtype=torch.float64, device=F.device)
    for part in blocks(lines, len(F), F.dtype):
        psi = part.products(fixed, part.x / part.fit(F, fixed).clamp(min=floor))
        total += (F[:, :, part.columns] * psi).sum(dim=2, dtype=torch.float64)
    return total


def kl_x_log_y(F, fixed, lines, floor):
    """Σ x log y over the entries of each start."""
    total = torch.zeros(len(F), dtype=torch.float64, device=F.device)
    for part in blocks(lines, len(F), F.dtype):
        total += x_log_y(part, part.fit(F, fixed), floor)
    return total


def x_log_y(part, y, floor):
    """Σ x log y over a block of lines, in float64."""
    return (part.x.double() * y.clamp(min=floor).double().log()).flatten(1).sum(dim=1)


def kl_divergences(F, fixed, lines, floor):
    """D(X‖WH) of each start in float64, a sum of x log(x/y) − x + y that does not cancel."""
    F, fixed = F.double(), fixed.double()
    stored, fitted = (torch.zeros(len(F), dtype=torch.float64, device=F.device) for _ in "12")
    for part in blocks(lines, len(F), F.dtype):
        x, y = torch.where(part.x > 0, part.x, 1), part.fit(F, fixed)
        more = (y - x) / x
        near = x * (more - more.clamp(-0.5, 0.5).log1p())
        terms = torch.where(more.abs() < 0.5, near, y - x - x * (y.clamp(min=floor) / x).log())
        stored += torch.where(part.x > 0, terms, 0).flatten(1).sum(dim=1)
        fitted += torch.where(part.x > 0, y, 0).flatten(1).sum(dim=1)
    everywhere = (F.sum(dim=2) * fixed.sum(dim=2)).sum(dim=1)
    return stored + (everywhere - fitted).clamp(min=0)


def kl_ratios(Wt, H, lines, floor):
    """X/WH of one start, with the zeros of X: a dense tensor, or a CSR one of a sparse X."""
    parts = [
        (part.x / part.fit(Wt[None], H[None]).clamp(min=floor))[0]
        for part in blocks(lines, 1, Wt.dtype)
    ]
    ratios = torch.cat(parts)
    if lines.sparse is None:
        return ratios
    indptr, places = lines.sparse[:2]
    return torch.sparse_csr_tensor(indptr, places, ratios, size=lines.shape, check_invariants=False)


def kl_merge_rises(Wt, H, lines, floor, w_steps, h_steps):
    """By how much each of some merges would raise the divergence of one start; see `numba`."""
    device = lines.values.device
    Wt, H = (torch.from_numpy(F).to(device)[None] for F in (Wt, H))
    w_steps, h_steps = (torch.from_numpy(F).to(device, Wt.dtype) for F in (w_steps, h_steps))
    rises = torch.zeros(len(w_steps), dtype=torch.float64, device=device)
    for part in blocks(lines, 1 + len(w_steps), Wt.dtype):
        y = part.fit(Wt, H)
        steps = part.spread(w_steps[:, part.columns]) * part.beside(h_steps)
        log = ((y - steps).clamp(min=floor) / y.clamp(min=floor)).double().log()
        rises -= (part.x.double() * log).flatten(1).sum(dim=1)
    return rises.cpu().numpy()


def _x_log_x(x):
    return x * torch.where(x > 0, x, 1).log()
