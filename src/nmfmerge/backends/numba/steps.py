"""The step rule on what the sweeps noted, and inner products; all for each start of a batch."""

import numpy as np

from nmfmerge.backends.numba.blocks import inlined, kernel


@kernel
def note_steps_(ratio, moved, total):
    """Raise ratio[i, t] to ‖new − old‖/‖new + old‖ of component t; 0 where it was and is zero."""
    for i in range(ratio.shape[0]):
        for t in range(ratio.shape[1]):
            if total[i, t] > 0:
                ratio[i, t] = max(ratio[i, t], np.sqrt(moved[i, t] / total[i, t]))


@kernel
def largest_step(ratio, WtW, HHt, negligible):
    """Largest ratio of a component whose share of ‖WH‖ is not negligible, for each start.

    A component that is rounding noise beside the rest never settles, and need not.
    """
    largest = np.empty(ratio.shape[0])
    for i in range(ratio.shape[0]):
        whole = model_norm2(WtW[i], HHt[i])
        largest[i] = largest_of(ratio[i], WtW[i], HHt[i], negligible * negligible * whole)
    return largest


@kernel
def largest_ratio(ratio, sizes, negligible):
    """Largest ratio of a component with more than a negligible part of the sizes of its start."""
    largest = np.zeros(ratio.shape[0])
    for i in range(ratio.shape[0]):
        least = 0.0
        for t in range(ratio.shape[1]):
            least += negligible * sizes[i, t]
        for t in range(ratio.shape[1]):
            if sizes[i, t] > least:
                largest[i] = max(largest[i], ratio[i, t])
    return largest


@inlined
def model_norm2(WtW, HHt):
    """‖WH‖² of one start, from its Grams."""
    total = 0.0
    for t in range(WtW.shape[0]):
        for s in range(WtW.shape[0]):
            total += WtW[t, s] * HHt[t, s]
    return total


@inlined
def largest_of(ratio, WtW, HHt, least):
    """Largest ratio of a component of one start whose square is more than ``least``."""
    largest = 0.0
    for t in range(ratio.size):
        if WtW[t, t] * HHt[t, t] > least:
            largest = max(largest, ratio[t])
    return largest


@kernel
def inner_product(A, B, start=0, stop=-1):
    """⟨A, B⟩ over columns start to stop, in float64 and in an order that threads do not change."""
    end = A.shape[1] if stop < 0 else stop
    total = 0.0
    for t in range(A.shape[0]):
        a, b = A[t, start:end], B[t, start:end]
        row = 0.0
        for j in range(end - start):
            row += a[j] * b[j]
        total += row
    return total


def component_sums(F):
    """Sum of each component, in float64."""
    return F.sum(axis=-1, dtype=np.float64)


def sums(F):
    """Sum of the factor of each start, in float64."""
    return F.sum(axis=(1, 2), dtype=np.float64)
