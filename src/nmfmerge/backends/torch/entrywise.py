"""Acceptance, sizes and steps for the solvers of losses that look at entries, on torch tensors."""

import torch

from nmfmerge.backends.numba.momentum import RULE
from nmfmerge.backends.torch.kernels import all_of


def component_sums(F):
    """Sum of each component, in float64."""
    return F.sum(dim=2, dtype=torch.float64)


def largest_ratio(ratio, sizes, negligible):
    """Largest ratio of a component with more than a negligible part of the sizes of its start."""
    counts = sizes > negligible * sizes.sum(dim=1, keepdim=True)
    return torch.where(counts, ratio, 0).amax(dim=1)


def judge_values_(state, now, step, noise, active=None):
    """Take back the steps that raised an objective by more than noise; see `numba.momentum`.

    The step of a start that is not active is NaN, and nothing of it changes.
    """
    active = all_of(now) if active is None else active
    rose = active & ~state.rest & (now > state.objective)
    back = rose & (now > state.objective + noise)
    accepted = active & ~back
    grown = torch.minimum(state.bound, RULE.growth * state.weight)
    bound = torch.clamp_max(RULE.bound_growth * state.bound, 1)
    climbs = active & ~rose
    new = {
        "bound": torch.where(rose, state.last_weight, torch.where(climbs, bound, state.bound)),
        "last_weight": torch.where(accepted, state.weight, state.last_weight),
        "weight": torch.where(
            rose, state.weight / RULE.shrink, torch.where(climbs, grown, state.weight)
        ),
        "objective": torch.where(accepted, torch.minimum(state.objective, now), state.objective),
    }
    for name, values in new.items():
        getattr(state, name).copy_(values)
    state.rest.copy_((state.rest & ~accepted) | back)
    state.taken_back.copy_(back)
    return torch.where(accepted, step / RULE.step_scale, torch.nan)
