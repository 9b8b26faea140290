"""WH where X is missing: its cross product with a factor, and the sum of its squares.

With it a product with X becomes one with X completed by WH, and sweeps can be those without missing
values: the squared distance from the completed X bounds the loss and agrees with it at WH.
"""

import numpy as np

from nmfmerge.backends.numba.blocks import BLOCK, kernel
from nmfmerge.backends.numba.shares import add_blocks, over_blocks, start_of


def missing_cross_(F, fixed, C, lines, add=True):
    """Add Σ u y f of each line to C (n_starts × r × p), in place, if ``add`` says so.

    ``lines`` are sparse, of the u of each of the p lines that belong to F, and y = WH.

    Returns
    -------
    squares : float64 array (n_starts,)
        Σ u y².
    """
    flops = 4.0 * F.shape[0] * F.shape[1] * lines.values.size
    rows = np.ascontiguousarray(fixed.swapaxes(1, 2))
    notes = over_blocks(
        _missing_blocks_, F, 1, flops, rows, C, lines.indptr, lines.places, lines.values, add
    )
    return add_blocks(notes, len(F))[:, 0]


@kernel
def _missing_blocks_(F_all, rows_all, C_all, indptr, places, values, add, notes, first, last):
    _, r, p = F_all.shape
    v, total = np.empty(r, F_all.dtype), np.empty(r, F_all.dtype)
    for block in range(first, last):
        i, start = start_of(block, p, BLOCK)
        F, rows, C = F_all[i], rows_all[i], C_all[i]
        squares = 0.0
        for line in range(start, min(p, start + BLOCK)):
            for c in range(r):
                v[c] = F[c, line]
                total[c] = 0
            for at in range(indptr[line], indptr[line + 1]):
                f = rows[places[at]]
                y = v[0] * f[0]
                for c in range(1, r):
                    y += v[c] * f[c]
                part = values[at] * y
                squares += part * y
                if add:
                    for c in range(r):
                        total[c] += part * f[c]
            if add:
                for c in range(r):
                    C[c, line] += total[c]
        notes[block, 0] = squares
