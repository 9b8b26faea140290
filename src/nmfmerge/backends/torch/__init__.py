"""The kernels for PyTorch tensors, under the names that those for NumPy arrays have.

What a pass of a solver needs changes its arguments in place and never waits for the device, so
that passes can be queued, or recorded once and played again.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from nmfmerge.backends.interface import Capability
from nmfmerge.backends.torch.alspgrad import descend_
from nmfmerge.backends.torch.entrywise import component_sums, judge_values_, largest_ratio
from nmfmerge.backends.torch.gcd import gcd_sweep_
from nmfmerge.backends.torch.graphs import record
from nmfmerge.backends.torch.kernels import (
    extrapolate_,
    hals_sweep_,
    judge_,
    largest_step,
    mu_step_,
    note_steps_,
    rise,
    settle_,
)
from nmfmerge.backends.torch.kl_sums import (
    kl_divergences,
    kl_explained,
    kl_line_sums,
    kl_merge_rises,
    kl_mu_step_,
    kl_ratios,
    kl_x_log_y,
)
from nmfmerge.backends.torch.kl_sweep import kl_sweep_
from nmfmerge.backends.torch.weighted_sweep import missing_cross_, weighted_sweep_

__all__ = [
    "capabilities",
    "component_sums",
    "contiguous",
    "copy",
    "descend_",
    "diagonals",
    "empty",
    "extrapolate_",
    "fit_noted",
    "from_host",
    "gcd_sweep_",
    "gram64",
    "hals_sweep_",
    "indices",
    "inner_products",
    "joined",
    "judge_",
    "judge_values_",
    "kl_divergences",
    "kl_explained",
    "kl_line_sums",
    "kl_merge_rises",
    "kl_mu_step_",
    "kl_ratios",
    "kl_sweep_",
    "kl_x_log_y",
    "largest_ratio",
    "largest_step",
    "mean_sizes",
    "missing_cross_",
    "mix",
    "mu_step_",
    "note_steps_",
    "numbers",
    "part_norms",
    "products",
    "rise",
    "row_products",
    "scaled",
    "scaled_positive",
    "settle_",
    "several_passes",
    "spread",
    "stack",
    "sums",
    "take",
    "to_host",
    "weighted_sweep_",
    "with_zero_components",
    "worth_shrinking",
]

capabilities = frozenset(
    {
        Capability.MULTIPLICATIVE,
        Capability.SUBPROBLEMS,
        Capability.SPREAD,
        Capability.ENTRYWISE,
        Capability.QUEUE,
    }
)

_LEAST_SHARE = 0.75  # of starts that go on in a batch, below which it is shrunk to them
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


# Passes of a solver


def several_passes(solver: Any, batch: Any, tol: float, n: int) -> np.ndarray:
    """Iterate ``n`` times without waiting for the device, which is looked at once in the end.

    On a GPU a pass is recorded once as a graph, and played again: launching its operations one by
    one takes longer than they do. The pass before has compiled its kernels.
    """
    if batch.active is None:
        batch.active = numbers(batch.n_starts, True, batch.H)
    steps = numbers((n, batch.n_starts), np.nan, batch.H)
    for i in range(n):
        key = (id(batch), tol, solver.graph_key())
        if solver.graph is not None and solver.graph[0] == key:
            solver.graph[1].replay()
            steps[i] = solver.graph[2]
            continue
        steps[i] = _pass(solver, batch, tol)
        if batch.H.is_cuda and solver.can_be_recorded and solver.graph_key() == key[2]:
            solver.graph = key, *record(lambda: _pass(solver, batch, tol))
    return to_host(steps)


def _pass(solver: Any, batch: Any, tol: float) -> torch.Tensor:
    """One pass; starts that have reached ``tol`` are inactive in the next."""
    step = solver.iterate(batch)
    step = torch.where(batch.active, step, torch.nan)
    batch.active &= ~(step <= tol)
    return step


def worth_shrinking(batch: Any, n_live: int) -> bool:
    """True if removing the stopped starts pays for the copy and the new graph."""
    return n_live <= _LEAST_SHARE * batch.n_starts


def fit_noted(sweep: Any) -> torch.Tensor:
    """⟨C, F⟩ of each start, as a sweep has noted it."""
    return sweep.fit


def inner_products(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """⟨A, B⟩ of each start, in float64."""
    return (A * B).sum(dim=(1, 2), dtype=torch.float64)


def sums(F: torch.Tensor) -> torch.Tensor:
    """Sum of the factor of each start, in float64."""
    return F.sum(dim=(1, 2), dtype=torch.float64)


def diagonals(G: torch.Tensor) -> torch.Tensor:
    """The diagonal of each matrix of a stack, to be written to."""
    return G.diagonal(dim1=-2, dim2=-1)


def mean_sizes(C: torch.Tensor) -> torch.Tensor:
    """Mean of |C| of each start."""
    return C.abs().mean(dim=(1, 2), dtype=torch.float64)


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
