"""The kernels for PyTorch tensors, under the names that those for NumPy arrays have.

What a pass of a solver needs changes its arguments in place and never waits for the device, so
that passes can be queued, or recorded once and played again.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from nmfmerge.kernels.momentum import BOUND_GROWTH, GROWTH, SHRINK
from nmfmerge.kernels.torch_hals import extrapolate_, hals_sweep_

__all__ = ["extrapolate_", "hals_sweep_"]

_CHUNK = 8192  # columns at a time, where float32 is summed in float64


# Arrays of a batch


def numbers(shape: Any, value: float | bool, like: torch.Tensor) -> torch.Tensor:
    """A tensor of numbers or truth values where ``like`` is."""
    dtype = torch.bool if isinstance(value, bool) else torch.float64
    return torch.full(np.atleast_1d(shape).tolist(), value, dtype=dtype, device=like.device)


def empty(shape: Sequence[int], like: torch.Tensor) -> torch.Tensor:
    """A tensor of the kind of ``like``."""
    return torch.empty(tuple(shape), dtype=like.dtype, device=like.device)


def indices(array: np.ndarray, like: torch.Tensor) -> torch.Tensor:
    """Indices, where ``like`` is."""
    return torch.from_numpy(array).to(like.device)


def copy(A: torch.Tensor) -> torch.Tensor:
    """A copy."""
    return A.clone()


def take(A: torch.Tensor, rows: Sequence[int]) -> torch.Tensor:
    """A copy of some starts."""
    return A[torch.tensor(rows, dtype=torch.long, device=A.device)]


def stack(factors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Factors of single starts as one batch; a single one is not copied."""
    return factors[0][None] if len(factors) == 1 else torch.stack(list(factors))


def contiguous(A: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy that lies in one piece."""
    return A.contiguous()


def to_host(A: torch.Tensor) -> np.ndarray:
    """The tensor in NumPy."""
    return A.detach().cpu().numpy()


def from_host(A: np.ndarray, like: torch.Tensor) -> torch.Tensor:
    """An array of NumPy as a tensor where ``like`` is."""
    return torch.from_numpy(A).to(like.device)


def nan_where(mask: torch.Tensor, A: torch.Tensor) -> torch.Tensor:
    """A with NaN where the mask is true."""
    return torch.where(mask, torch.nan, A)


def perhaps_any(mask: torch.Tensor) -> bool:
    """True: only waiting for the device could tell."""
    return True


# Passes of a solver


def several_passes(solver: Any, point: Any, tol: float, n: int) -> np.ndarray:
    """Iterate ``n`` times without waiting for the device, which is looked at once in the end."""
    if point.active is None:
        point.active = numbers(point.n_starts, True, point.H)
    if not point.H.is_cuda:
        return to_host(_passes(solver, point, tol, n))
    key = (id(point), n, tol, solver.graph_key())
    if solver.graph is not None and solver.graph[0] == key:
        solver.graph[1].replay()
    elif solver.passed == key:  # the kernels are compiled, and the point is as it will be
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            steps = _passes(solver, point, tol, n)
        solver.graph = key, graph, steps
        graph.replay()
    else:
        solver.passed = key
        return to_host(_passes(solver, point, tol, n))
    return to_host(solver.graph[2])


def _passes(solver: Any, point: Any, tol: float, n: int) -> torch.Tensor:
    steps = numbers((n, point.n_starts), np.nan, point.H)
    for i in range(n):
        step = solver.iterate(point)
        steps[i] = torch.where(point.active, step, torch.nan)
        point.active &= ~(steps[i] <= tol)
    return steps


def note_steps_(ratio: torch.Tensor, moved: torch.Tensor, total: torch.Tensor) -> None:
    """Raise ratio[i, t] to ‖new − old‖/‖new + old‖ of component t; 0 where it was and is zero."""
    step = torch.where(total > 0, (moved / total).sqrt(), 0.0)
    torch.maximum(ratio, step, out=ratio)


def largest_step(
    ratio: torch.Tensor, WtW: torch.Tensor, HHt: torch.Tensor, negligible: float
) -> torch.Tensor:
    """Largest ratio of a component whose share of ‖WH‖ is not negligible, for each start."""
    products = WtW.double() * HHt.double()
    own = products.diagonal(dim1=1, dim2=2)
    counts = own > negligible * negligible * products.sum(dim=(1, 2))[:, None]
    return torch.where(counts, ratio, 0.0).amax(dim=1)


def inner_products(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """⟨A, B⟩ of each start, in float64."""
    return (A * B).sum(dim=(1, 2), dtype=torch.float64)


def rise(F: torch.Tensor, G: torch.Tensor, C: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
    """½⟨F, G F⟩ − ⟨C, F⟩ less its value at ``old``: the gradient half-way, along the step."""
    gradient = torch.baddbmm(C, G, F + old, beta=-1, alpha=0.5)
    return inner_products(gradient, F - old)


def judge_(
    state: Any,
    now: torch.Tensor,
    rise: torch.Tensor | None,
    limit: float,
    active: torch.Tensor | None = None,
) -> None:
    """Accept the steps that did not raise the objective, and take back the others."""
    rose = now - state.objective
    if rise is not None:
        rose = torch.where(state.objective < limit, rise, rose)
    active = torch.ones_like(state.rest) if active is None else active
    back = (rose > 0) & ~state.rest & active
    kept = active & ~back
    last_weight = state.last_weight.clone()
    state.last_weight.copy_(torch.where(kept, state.weight, last_weight))
    grown = torch.minimum(state.bound, GROWTH * state.weight)
    shrunk = torch.where(back, state.weight / SHRINK, state.weight)
    state.weight.copy_(torch.where(kept, grown, shrunk))
    bound = torch.where(back, last_weight, state.bound)
    state.bound.copy_(torch.where(kept, (BOUND_GROWTH * bound).clamp(max=1.0), bound))
    state.objective.copy_(torch.where(kept, now, state.objective))
    state.rest.copy_(torch.where(active, back, state.rest))
    state.taken_back.copy_(back)


def settle_(
    first: torch.Tensor,
    second: torch.Tensor,
    accepted_first: torch.Tensor,
    accepted_second: torch.Tensor,
    taken_back: torch.Tensor,
    active: torch.Tensor | None = None,
) -> None:
    """Go back to the accepted point where a step was taken back; make it the present one elsewhere.

    The second factor of the accepted point is kept by the extrapolation itself.
    """
    back = taken_back[:, None, None]
    first.copy_(torch.where(back, accepted_first, first))
    second.copy_(torch.where(back, accepted_second, second))
    accepted_first.copy_(first)


def mean_sizes(C: torch.Tensor) -> torch.Tensor:
    """Mean of |C| of each start."""
    return C.abs().mean(dim=(1, 2), dtype=torch.float64)


def mu_step_(
    F: torch.Tensor, G: torch.Tensor, C: torch.Tensor, offset: torch.Tensor, tiny: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Update ``F ← F ∘ C / (G F + offset)`` in place; zeros stay zero, tiny values become it."""
    up = C.clamp(min=0)
    new = F * (up / (G @ F + offset.to(F.dtype)[:, None, None] + (up - C)))
    new[new <= tiny] = 0
    moved = (new - F).square().sum(dim=2, dtype=torch.float64)
    total = (new + F).square().sum(dim=2, dtype=torch.float64)
    F.copy_(new)
    return moved, total


# Small matrices times factors, and small numbers of factors


def gram64(F: torch.Tensor) -> torch.Tensor:
    """F Fᵀ of each start in float64."""
    if F.dtype == torch.float64:
        return F @ F.mT
    chunks = (chunk.double() for chunk in F.split(_CHUNK, dim=2))
    return sum(chunk @ chunk.mT for chunk in chunks)


def mix(A: np.ndarray, F: torch.Tensor) -> torch.Tensor:
    """A F: a small matrix for each start, times its factor."""
    return _placed(A, F) @ F


def products(F: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """F Oᵀ, small, of each start."""
    return F @ others.mT


def scaled(F: torch.Tensor, scales: np.ndarray) -> torch.Tensor:
    """Components times their scales (n_starts × r)."""
    return F * _placed(scales, F)[:, :, None]


def scaled_positive(F: torch.Tensor, scales: np.ndarray) -> torch.Tensor:
    """Components times their scales, with zero for what is negative then."""
    return scaled(F, scales).clamp_(min=0)


def joined(F: torch.Tensor, more: torch.Tensor) -> torch.Tensor:
    """Components of two factors, one after the other."""
    return torch.cat([F, more], dim=1)


def with_zero_components(F: torch.Tensor, count: int) -> torch.Tensor:
    """More components, which are zero."""
    return torch.nn.functional.pad(F, (0, 0, 0, count))


def row_products(F: torch.Tensor, G: torch.Tensor) -> torch.Tensor:
    """⟨f_t, g_t⟩ of each component, in float64."""
    return (F * G).sum(dim=2, dtype=torch.float64)


def part_norms(F: torch.Tensor) -> np.ndarray:
    """Norms of the positive and of the negative part of each component, in float64."""
    parts = [(sign * F).clamp(min=0).square().sum(dim=2, dtype=torch.float64) for sign in (1, -1)]
    return to_host(torch.stack(parts, dim=2).sqrt())


def spread(A: np.ndarray, F: torch.Tensor) -> torch.Tensor:
    """Standard deviation over starts of each entry of ``A F``."""
    return mix(A, F).std(dim=0, correction=0)


def _placed(A: np.ndarray, like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(A)).to(like.device, like.dtype)
