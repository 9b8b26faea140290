"""The step rule on what the sweeps noted, and inner products; all for each start of a batch."""

import numpy as np

from nmfmerge.kernels.blocks import inlined, kernel


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
    n_starts, r = ratio.shape
    largest = np.zeros(n_starts)
    for i in range(n_starts):
        whole = 0.0
        for t in range(r):
            for s in range(r):
                whole += WtW[i, t, s] * HHt[i, t, s]
        for t in range(r):
            if WtW[i, t, t] * HHt[i, t, t] > negligible * negligible * whole:
                largest[i] = max(largest[i], ratio[i, t])
    return largest


@inlined
def _inner(A, B, start, stop):
    total = 0.0
    for t in range(A.shape[0]):
        a = A[t, start:stop]
        b = B[t, start:stop]
        row = 0.0
        for j in range(stop - start):
            row += a[j] * b[j]
        total += row
    return total


@kernel
def inner_product(A, B, start=0, stop=-1):
    """⟨A, B⟩ over columns start to stop, in float64 and in an order that threads do not change."""
    return _inner(A, B, start, A.shape[1] if stop < 0 else stop)


@kernel
def inner_products(A, B):
    """⟨A, B⟩ of each start, in float64 and in an order that threads do not change."""
    total = np.zeros(A.shape[0])
    for i in range(A.shape[0]):
        total[i] = _inner(A[i], B[i], 0, A.shape[2])
    return total
