"""What becomes of an extrapolated step: kept, or taken back; for each start of a batch."""

import numpy as np

from nmfmerge.kernels.blocks import kernel

GROWTH = 1.05  # of the weight, after a step that was accepted
BOUND_GROWTH = 1.01  # of its bound
SHRINK = 1.5  # of the weight, after a step that was taken back


def judge_(state, now, rise, limit, active=None):
    """Accept the steps that did not raise the objective, and take back the others.

    Parameters
    ----------
    state : object
        Arrays over starts, changed in place: ``objective`` of the last accepted point; ``weight``
        of the next extrapolation, its ``bound`` and the ``last_weight`` that was accepted;
        ``rest``, where the step was not extrapolated and is accepted as it is; ``taken_back``, the
        verdict.
    now : float64 array (n_starts,)
        The objective after the step.
    rise : float64 array (n_starts,) or None
        By how much it rose, summed from its parts, which counts where the objective is below
        ``limit``: there it is too inexact to compare.
    limit : float
    active : None
        For starts that wait, which there are on a device only.
    """
    rise = np.zeros_like(now) if rise is None else rise
    _judge_(
        state.objective, state.weight, state.bound, state.last_weight, state.rest,
        state.taken_back, now, rise, limit,
    )  # fmt: skip


@kernel
def _judge_(objective, weight, bound, last_weight, rest, taken_back, now, rise, limit):
    for i in range(objective.size):
        rose = rise[i] if objective[i] < limit else now[i] - objective[i]
        taken_back[i] = rose > 0 and not rest[i]
        rest[i] = taken_back[i]
        if taken_back[i]:
            bound[i] = last_weight[i]
            weight[i] /= SHRINK
        else:
            objective[i] = now[i]
            last_weight[i] = weight[i]
            weight[i] = min(bound[i], GROWTH * weight[i])
            bound[i] = min(1.0, BOUND_GROWTH * bound[i])


def settle_(first, second, accepted_first, accepted_second, taken_back, active=None):
    """Go back to the accepted point where a step was taken back; make it the present one elsewhere.

    The second factor of the accepted point is kept by the extrapolation itself.
    """
    _settle_(first, second, accepted_first, accepted_second, taken_back)


@kernel
def _settle_(first, second, accepted_first, accepted_second, taken_back):
    for i in range(taken_back.size):
        if taken_back[i]:
            first[i] = accepted_first[i]
            second[i] = accepted_second[i]
        else:
            accepted_first[i] = first[i]
