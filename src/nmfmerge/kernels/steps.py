"""The step rule on what the sweeps noted, and the objective's inner product."""

import numpy as np

from nmfmerge.kernels.blocks import kernel


@kernel
def note_steps_(ratio, moved, total):
    """Raise ratio[t] to ‖new − old‖/‖new + old‖ of component t; 0 where it was and is zero."""
    for t in range(ratio.size):
        if total[t] > 0:
            ratio[t] = max(ratio[t], np.sqrt(moved[t] / total[t]))


@kernel
def largest_step(ratio, WtW, HHt, negligible):
    """Largest ratio of a component whose share of ‖WH‖ is not negligible.

    A component that is rounding noise beside the rest never settles, and need not.
    """
    r = ratio.size
    whole = 0.0
    for t in range(r):
        for s in range(r):
            whole += WtW[t, s] * HHt[t, s]
    largest = 0.0
    for t in range(r):
        if WtW[t, t] * HHt[t, t] > negligible * negligible * whole:
            largest = max(largest, ratio[t])
    return largest


@kernel
def inner_product(A, B, start=0, stop=-1):
    """⟨A, B⟩ over columns start to stop, in float64 and in an order that threads do not change."""
    stop = A.shape[1] if stop < 0 else stop
    total = 0.0
    for t in range(A.shape[0]):
        a = A[t, start:stop]
        b = B[t, start:stop]
        row = 0.0
        for j in range(stop - start):
            row += a[j] * b[j]
        total += row
    return total
