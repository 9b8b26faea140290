"""Accept or undo an extrapolated step, for each start of a batch."""

from typing import NamedTuple

import numpy as np

from nmfmerge.backends.numba.blocks import kernel, part
from nmfmerge.backends.numba.steps import inner_product, largest_of, model_norm2

_COLUMNS = 1024  # at a time, so that what is computed of them is small beside a factor


class Rule(NamedTuple):
    """How extrapolation is weighted."""

    growth: float = 1.05  # of the weight, after a step that was accepted
    bound_growth: float = 1.01  # of its bound
    shrink: float = 1.5  # of the weight, after a step that was taken back
    step_scale: float = 2.0  # a displacement over this compares with one of plain HALS


RULE = Rule()


def fit_noted(sweep):
    """Nothing: sweeps on a CPU do not note ⟨C, F⟩."""


def rise(F, G, C, old):
    """½⟨F, G F⟩ − ⟨C, F⟩ less its value at ``old``: the gradient between the two, along the step.

    Rounding is relative to the step here, not to the objective.
    """
    total = np.zeros(len(F))
    for i in range(len(F)):
        for start in range(0, F.shape[2], _COLUMNS):
            part = slice(start, start + _COLUMNS)
            new, before = F[i, :, part], old[i, :, part]
            gradient = G[i] @ (F.dtype.type(0.5) * (new + before)) - C[i, :, part]
            total[i] += inner_product(gradient, new - before)
    return total


def judge_(state, fit, WtW, HHt, ratio, constant, rise, limit, negligible, active=None):
    """Accept the steps that did not raise the objective, and take back the others.

    Parameters
    ----------
    state : object
        Arrays over starts, changed in place: ``objective`` of the last accepted point; ``weight``
        of the next extrapolation, its ``bound`` and the ``last_weight`` that was accepted;
        ``rest``, where the step was not extrapolated and is always accepted; ``taken_back``, the
        verdict.
    fit : float64 array (n_starts,)
        ⟨C, F⟩ of the factor that was swept last.
    WtW, HHt : arrays (n_starts, r, r)
        Grams of the factors, with which ``fit`` gives the objective.
    ratio : float64 array (n_starts, r)
        How far components have moved.
    constant : float
        Twice what the objective adds to the terms that depend on the factors: ‖X‖².
    rise : float64 array (n_starts,) or None
        By how much the objective rose, summed from its parts, which counts where the objective is
        below ``limit``: there it is too inexact to compare.
    limit, negligible : float
        Components below ``negligible`` of ‖WH‖ do not count, as in `largest_step`.
    active : None
        For starts that wait, which there are on a device only.

    Returns
    -------
    step : float64 array (n_starts,)
        Largest displacement that counts, NaN where the step was taken back.
    """
    rise = np.zeros_like(fit) if rise is None else rise
    return _judge_(
        state.objective, state.weight, state.bound, state.last_weight, state.rest,
        state.taken_back, fit, WtW, HHt, ratio, constant, rise, limit, negligible, RULE,
    )  # fmt: skip


@kernel
def _judge_(
    objective, weight, bound, last_weight, rest, taken_back,
    fit, WtW, HHt, ratio, constant, rise, limit, negligible, rule,
):  # fmt: skip
    step = np.full(ratio.shape[0], np.nan)
    for i in range(ratio.shape[0]):
        whole = model_norm2(WtW[i], HHt[i])
        now = max(0.0, 0.5 * constant - fit[i] + 0.5 * whole)
        rose = rise[i] if objective[i] < limit else now - objective[i]
        taken_back[i] = rose > 0 and not rest[i]
        rest[i] = taken_back[i]
        if taken_back[i]:
            bound[i] = last_weight[i]
            weight[i] /= rule.shrink
            continue
        objective[i] = now
        last_weight[i] = weight[i]
        weight[i] = min(bound[i], rule.growth * weight[i])
        bound[i] = min(1.0, rule.bound_growth * bound[i])
        largest = largest_of(ratio[i], WtW[i], HHt[i], negligible * negligible * whole)
        step[i] = largest / rule.step_scale
    return step


def judge_values_(state, now, step, noise, active=None):
    """`judge_` for objectives at hand: take back the steps that raised one by more than noise.

    A rise that may be rounding is accepted, but the weight shrinks as if it were not: on a plateau
    of float32 the components would never settle otherwise. Returns ``step``, scaled as in `judge_`.
    """
    return judge_by_value_(
        state.objective, state.weight, state.bound, state.last_weight, state.rest,
        state.taken_back, now, step, noise, RULE,
    )  # fmt: skip


@kernel
def judge_by_value_(
    objective, weight, bound, last_weight, rest, taken_back, now, step, noise, rule
):  # fmt: skip
    """`judge_values_` of the arrays of a state."""
    shown = np.full(now.size, np.nan)
    for i in range(now.size):
        rose = now[i] > objective[i] and not rest[i]
        back = rose and now[i] > objective[i] + noise
        tried = weight[i]
        rest[i] = taken_back[i] = back
        if rose:
            bound[i] = last_weight[i]
            weight[i] /= rule.shrink
        else:
            weight[i] = min(bound[i], rule.growth * weight[i])
            bound[i] = min(1.0, rule.bound_growth * bound[i])
        if not back:
            objective[i] = min(objective[i], now[i])
            last_weight[i] = tried
            shown[i] = step[i] / rule.step_scale
    return shown


def settle_(first, second, accepted_first, accepted_second, taken_back):
    """Go back to the accepted point where a step was taken back; make it the present one elsewhere.

    The second factor of the accepted point is kept by the extrapolation itself.
    """
    settle_each_(first, second, accepted_first, accepted_second, taken_back)


@part
def copy_(source, out):
    """Copy a factor; compiling ``out[:] = source`` takes seconds."""
    for t in range(len(out)):
        for j in range(out.shape[1]):
            out[t, j] = source[t, j]


@kernel
def settle_each_(first, second, accepted_first, accepted_second, taken_back):
    """`settle_` for arrays."""
    for i in range(taken_back.size):
        if taken_back[i]:
            copy_(accepted_first[i], first[i])
            copy_(accepted_second[i], second[i])
        else:
            copy_(first[i], accepted_first[i])
