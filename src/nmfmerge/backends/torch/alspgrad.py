"""Projected gradients with Lin's step search on torch tensors, every start at its own pace.

All starts of a batch try a step length at once, each its own. What comes of a trial is written as
numbers of the start: the next length to try, or the one to take, or that it is done. So one round
of operations serves starts at different places of the search, and the host looks only now and then
whether some start still goes on.
"""

from typing import NamedTuple

import torch

from nmfmerge.backends.numba.alspgrad import SEARCH
from nmfmerge.backends.torch.graphs import record
from nmfmerge.backends.torch.kernels import all_of, by_triton, like

_ROUNDS = 8  # trials on a device between two looks at who goes on

# What a start does with its next trial.
DONE, FIRST, SHORTER, LONGER = range(4)


class Search(NamedTuple):
    """Where each start is in its search; all (S,), changed in place."""

    phase: torch.Tensor
    alpha: torch.Tensor
    """The length to try."""
    good: torch.Tensor
    """The last one that was good enough, where longer ones are tried."""
    take: torch.Tensor
    """The length to take a step of, or -1."""
    trials: torch.Tensor
    """Lengths tried for this step."""
    steps: torch.Tensor
    """Steps taken."""
    least: torch.Tensor
    """Square of the norm of the projected gradient at which to stop."""


class Room(NamedTuple):
    """The state of the searches of one factor, kept from one to the next."""

    search: Search
    F: torch.Tensor
    G: torch.Tensor
    gradient: torch.Tensor
    weights: torch.Tensor
    """1/G_tt of each component, (S, r)."""
    notes: torch.Tensor | None
    """Buffers that the kernels of a device write to; see `triton_alspgrad`."""
    graph: list
    """The rounds, once a GPU has recorded them."""


def descend_(F, G, C, room, active=None):
    """Projected-gradient steps on each start's F; see `nmfmerge.backends.numba.alspgrad`."""
    active = all_of(F) if active is None else active
    key = F.data_ptr(), F.shape
    if key not in room:
        room[key] = _new_room(F, G)
    own = room[key]
    old = F.clone()
    own.G.copy_(G)
    torch.baddbmm(C, G, F, beta=-1, out=own.gradient)
    _begin_(own, C, active)
    while bool((own.search.phase != DONE).any()):
        _play(own)
    return tuple(
        torch.where(like(active, part[:, 0, :1]), (part**2).sum(dim=2, dtype=torch.float64), 0)
        for part in (F - old, F + old)
    )


def _new_room(F, G):
    S, r, _ = F.shape
    numbers = [torch.zeros(S, dtype=torch.float64, device=F.device) for _ in range(4)]
    counts = [torch.zeros(S, dtype=torch.int32, device=F.device) for _ in range(3)]
    phase, trials, steps = counts
    alpha, good, take, least = numbers
    search = Search(phase, alpha, good, take, trials, steps, least)
    weights = torch.empty((S, r), dtype=torch.float64, device=F.device)
    notes = None
    if by_triton(F):
        from nmfmerge.backends.torch import triton_alspgrad

        if r <= triton_alspgrad.MOST_WIDTH:
            notes = triton_alspgrad.room_for_notes(F)
    return Room(search, F, torch.empty_like(G), torch.empty_like(F), weights, notes, [])


def _begin_(own, C, active):
    """Set the tolerance of each subproblem, and who takes part."""
    search = own.search
    curvature = torch.diagonal(own.G, dim1=1, dim2=2).double()
    counts = curvature > torch.finfo(torch.float64).tiny
    own.weights.copy_(torch.where(counts, 1 / torch.where(counts, curvature, 1), 0))
    norm2 = _projected_norm2(own.F, own.gradient, own.weights)
    at_zero2 = _weighted(C**2, own.weights)
    least = SEARCH.reduction**2 * torch.minimum(norm2, at_zero2)
    eps = torch.finfo(own.F.dtype).eps
    search.least.copy_(torch.maximum(least, eps**2 * at_zero2))
    search.phase.copy_(torch.where(active & (norm2 > search.least), FIRST, DONE))
    search.alpha.fill_(1.0)
    search.take.fill_(-1.0)
    for counter in (search.trials, search.steps):
        counter.zero_()


def _play(own):
    """Some rounds; Triton's are recorded once, after those that have compiled the kernels."""
    if own.graph:
        own.graph[0].replay()
        return
    _rounds(own)
    if own.F.is_cuda and own.notes is not None:
        own.graph.append(record(lambda: _rounds(own))[0])


def _rounds(own):
    one = _round_
    if own.notes is not None:
        from nmfmerge.backends.torch import triton_alspgrad

        one = triton_alspgrad.round_
    for _ in range(1 if own.F.is_cpu else _ROUNDS):
        one(own)


def _round_(own):
    """One trial of every start that goes on, by torch operations."""
    F, gradient, search = own.F, own.gradient, own.search
    new = _moved(own, search.alpha)
    step = new - F
    slope = (gradient * step).sum(dim=(1, 2), dtype=torch.float64)
    curve = (step * torch.bmm(own.G, step)).sum(dim=(1, 2), dtype=torch.float64)
    same = (new == _moved(own, search.good)).all(dim=2).all(dim=1)
    falls = (1 - SEARCH.sigma) * slope + 0.5 * curve < 0
    _decide_(search, falls, same)
    takes = search.take >= 0
    step = torch.where(like(takes, F), _moved(own, search.take) - F, 0)
    F += step
    gradient += torch.bmm(own.G, step)
    norm2 = _projected_norm2(F, gradient, own.weights)
    search.phase.copy_(torch.where(takes & (norm2 <= search.least), DONE, search.phase))


def _decide_(search, falls, same):
    """The decision of every start after its trial."""
    phase, alpha = search.phase.clone(), search.alpha.clone()
    last = search.trials + 1 == SEARCH.trials
    first, shorter, longer = phase == FIRST, phase == SHORTER, phase == LONGER
    goes_longer = (first & falls) | (longer & falls & ~same)
    takes_good = longer & (~falls | same)
    takes_this = (shorter & falls) | (goes_longer & last)
    fails = (shorter & ~falls) & last
    takes = takes_good | takes_this
    taken = torch.where(takes_good, search.good, alpha)
    search.take.copy_(torch.where(takes, taken, -1.0))
    search.good.copy_(torch.where(goes_longer, alpha, search.good))
    search.trials.copy_(torch.where(takes, 0, search.trials + 1))
    search.steps.add_(takes)
    following = torch.where(goes_longer, alpha / SEARCH.beta, alpha * SEARCH.beta)
    search.alpha.copy_(torch.where(takes, taken, torch.where(phase == DONE, alpha, following)))
    search.phase.copy_(torch.where(goes_longer, LONGER, torch.where(first, SHORTER, phase)))
    search.phase.masked_fill_(takes, FIRST)
    search.phase.masked_fill_(fails | (search.steps >= SEARCH.iterations) | (phase == DONE), DONE)


def _moved(own, alpha):
    """Where steps of these lengths lead."""
    lengths = (alpha[:, None] * own.weights).clamp_max(torch.finfo(own.F.dtype).max)
    return torch.clamp_min(own.F - lengths.to(own.F.dtype)[:, :, None] * own.gradient, 0)


def _projected_norm2(F, gradient, weights):
    """‖·‖² of the gradient where F may move against it; component t counts weights[t] times."""
    free = torch.where((gradient < 0) | (F > 0), gradient, 0)
    return _weighted(free**2, weights)


def _weighted(squares, weights):
    return (weights * squares.sum(dim=2, dtype=torch.float64)).sum(dim=1)
