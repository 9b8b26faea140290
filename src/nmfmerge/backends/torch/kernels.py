"""The kernels on torch tensors, for many starts at once and on any device.

As in `nmfmerge.backends.numba`, but with the starts before the other axes: ``F`` and ``C`` are
(S, r, p), ``G`` is (S, r, r), all contiguous; sums over starts' own numbers are (S,) or (S, r)
and float64. On CUDA the work is done by Triton kernels, elsewhere by torch operations.

Nothing here waits for the device or allocates by what it finds there, and all state is changed in
place: a pass over these functions can be captured as a CUDA graph. ``active`` (S,) says which
starts take part; the others are left as they are, and their sums are zero.

Import this only where torch is there.
"""

import importlib.util
import os
from typing import NamedTuple

import torch

from nmfmerge.backends.numba.momentum import RULE

_HAS_TRITON = importlib.util.find_spec("triton") is not None
_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


class Sweep(NamedTuple):
    """The sums noted by a sweep; see `nmfmerge.backends.numba.hals.hals_sweep_`."""

    moved: torch.Tensor
    """``‖new − old‖²`` of each component in the first sweep, (S, r)."""
    total: torch.Tensor
    """``‖new + old‖²`` of each component in the first sweep, (S, r)."""
    decrease: torch.Tensor
    """By how much ``½⟨F, G F⟩ − ⟨C, F⟩`` fell, (S,)."""
    fit: torch.Tensor
    """``⟨C, F⟩`` after the sweeps, (S,)."""


def hals_sweep_(F, G, C, n_sweeps=1, active=None):
    """Sweep ``n_sweeps`` times over the components of each start's F, in place.

    Parameters
    ----------
    F, C : tensors (S, r, p)
    G : tensor (S, r, r)
    n_sweeps : int
    active : bool tensor (S,), optional
        The starts to sweep over; all by default.

    Returns
    -------
    Sweep
    """
    r = F.shape[1]
    active = all_of(F) if active is None else active
    least = least_curvature(F)
    if by_triton(F):
        from nmfmerge.backends.torch import triton_hals

        notes = triton_hals.hals_sweep_(F, G, C, n_sweeps, active, least)
        return Sweep(notes[:, :r], notes[:, r : 2 * r], notes[:, 2 * r], notes[:, 2 * r + 1])
    swept = _sweep(F, G, C, n_sweeps, least)
    sums = Sweep(*(torch.where(like(active, x), x, 0) for x in swept[1:]))
    F.copy_(torch.where(like(active, F), swept[0], F))
    return sums


def _sweep(F, G, C, n_sweeps, least):
    """The swept factor and what a `Sweep` notes, by torch operations."""
    new = F.clone()
    curvature = torch.diagonal(G, dim1=1, dim2=2)[:, :, None]
    bends = curvature > least
    inverse = torch.where(bends, 1 / torch.where(bends, curvature, 1), 0)
    moved = total = None
    decrease = torch.zeros(len(F), dtype=torch.float64, device=F.device)
    for _ in range(n_sweeps):
        old = new.clone()
        for t in range(F.shape[1]):
            residual = C[:, t] - torch.bmm(G[:, t : t + 1], new)[:, 0]
            value = torch.clamp_min(new[:, t] + residual * inverse[:, t], 0)
            step = value - new[:, t]
            lowered = step * (residual - 0.5 * curvature[:, t] * step)
            decrease += torch.where(bends[:, t], lowered, 0).sum(dim=1, dtype=torch.float64)
            new[:, t] = value
        if moved is None:
            moved = ((new - old) ** 2).sum(dim=2, dtype=torch.float64)
            total = ((new + old) ** 2).sum(dim=2, dtype=torch.float64)
    return new, moved, total, decrease, _inner_products(C, new)


def mu_step_(F, G, C, offset, tiny, active=None):
    """Multiplicative update, as `numba.mu.mu_step_`; return moved and total (S, r)."""
    active = all_of(F) if active is None else active
    up = torch.clamp_min(C, 0)
    new = F * (up / (torch.bmm(G, F) + like(offset, F).to(F.dtype) + (up - C)))
    new = torch.where(like(active, F), torch.where(new > tiny, new, 0), F)
    sums = tuple((part**2).sum(dim=2, dtype=torch.float64) for part in (new - F, new + F))
    F.copy_(new)
    return tuple(torch.where(like(active, x), x, 0) for x in sums)


def extrapolate_(F, previous, beta, active=None):
    """Replace F by ``max(0, F + beta·(F − previous))`` and previous by F, both in place."""
    active = all_of(F) if active is None else active
    if by_triton(F):
        from nmfmerge.backends.torch import triton_steps

        triton_steps.extrapolate_(F, previous, beta, active)
        return
    weight, takes_part = like(beta, F).to(F.dtype), like(active, F)
    pushed = torch.clamp_min(F + weight * (F - previous), 0)
    previous.copy_(torch.where(takes_part, F, previous))
    F.copy_(torch.where(takes_part, pushed, F))


def rise(F, G, C, old):
    """½⟨F, G F⟩ − ⟨C, F⟩ less its value at ``old``, (S,): the gradient between, along the step.

    Rounding is relative to the step here, not to the objective.
    """
    return _inner_products(torch.bmm(G, 0.5 * (F + old)) - C, F - old)


def note_steps_(ratio, moved, total):
    """Raise ratio (S, r) to ‖new − old‖/‖new + old‖; 0 where a component was and is zero."""
    if by_triton(ratio):
        from nmfmerge.backends.torch import triton_steps

        triton_steps.note_steps_(ratio, moved, total)
        return
    counts = total > 0
    step = torch.sqrt(moved / torch.where(counts, total, 1))
    torch.maximum(ratio, torch.where(counts, step, 0), out=ratio)


def largest_step(ratio, WtW, HHt, negligible):
    """Largest ratio (S,) of a component whose share of ‖WH‖ is not negligible."""
    shares, whole = _shares(WtW, HHt)
    counts = shares > negligible * negligible * whole[:, None]
    return torch.where(counts, ratio, 0).amax(dim=1)


def judge_(state, fit, WtW, HHt, ratio, constant, rise, limit, negligible, active=None):
    """Accept the steps that did not raise the objective; see `numba.momentum.judge_`.

    The step of a start that is not active is NaN, and nothing of it changes.
    """
    active = all_of(fit) if active is None else active
    if by_triton(WtW):
        from nmfmerge.backends.torch import triton_steps

        return triton_steps.judge_(
            state, fit, WtW, HHt, ratio, constant, rise, limit, negligible, active
        )  # fmt: skip
    _, whole = _shares(WtW, HHt)
    now = torch.clamp_min(0.5 * constant - fit + 0.5 * whole, 0)
    rose = now - state.objective
    if rise is not None:
        rose = torch.where(state.objective < limit, rise, rose)
    state.taken_back.copy_(active & ~state.rest & (rose > 0))
    accepted = active & ~state.taken_back
    grown = torch.minimum(state.bound, RULE.growth * state.weight)
    bound = torch.clamp_max(RULE.bound_growth * state.bound, 1)
    bound = torch.where(accepted, bound, state.bound)
    state.bound.copy_(torch.where(state.taken_back, state.last_weight, bound))
    state.last_weight.copy_(torch.where(accepted, state.weight, state.last_weight))
    weight = torch.where(accepted, grown, state.weight)
    state.weight.copy_(torch.where(state.taken_back, state.weight / RULE.shrink, weight))
    state.objective.copy_(torch.where(accepted, now, state.objective))
    state.rest.copy_((state.rest & ~accepted) | state.taken_back)
    step = largest_step(ratio, WtW, HHt, negligible) / RULE.step_scale
    return torch.where(accepted, step, torch.nan)


def settle_(first, second, accepted_first, accepted_second, taken_back):
    """Go back to the accepted point where a step was taken back; else the present one is it."""
    if by_triton(first):
        from nmfmerge.backends.torch import triton_steps

        triton_steps.settle_(first, second, accepted_first, accepted_second, taken_back)
        return
    taken_back = taken_back[:, None, None]
    first.copy_(torch.where(taken_back, accepted_first, first))
    second.copy_(torch.where(taken_back, accepted_second, second))
    accepted_first.copy_(first)


def _shares(WtW, HHt):
    """‖w_t‖²‖h_t‖² of each component (S, r), and ‖WH‖² (S,), in float64."""
    products = WtW.double() * HHt.double()
    return torch.diagonal(products, dim1=1, dim2=2), products.sum(dim=(1, 2))


def _inner_products(A, B):
    return (A * B).sum(dim=(1, 2), dtype=torch.float64)


def least_curvature(F):
    """Curvature up to which a component rests, in the precision of F."""
    info = torch.finfo(F.dtype)
    return info.tiny / info.eps


def all_of(F):
    """Every start takes part."""
    return torch.ones(len(F), dtype=torch.bool, device=F.device)


def like(per_start, other):
    """Numbers of starts, shaped to go with the numbers of ``other``."""
    return per_start.reshape(-1, *(1,) * (other.ndim - 1))


def by_triton(tensor):
    """True if Triton runs the kernels: on CUDA, or anywhere in its interpreter."""
    return _HAS_TRITON and (tensor.is_cuda or _INTERPRETED)
