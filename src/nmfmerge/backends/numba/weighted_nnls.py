"""Nonnegative least squares where each line has its own Gram, to the exact solution."""

import numpy as np

from nmfmerge.backends.numba.nnls import nnls_columns
from nmfmerge.backends.numba.weighted_sweep import line_grams

_LINES = 256  # whose Grams are in memory at once


def weighted_nnls(G, C, fixed, lines, sign, l1=0.0, l2=0.0):
    """Solve ``min ½ fᵀG f − (c − l1)ᵀf, f ≥ 0`` for each column c of C.

    Parameters
    ----------
    G : float64 array (r, r)
        The part of the Gram that all lines share.
    C : array (r, p)
        Cross product of the known factor with the data.
    fixed : array (r, q)
        The known factor.
    lines : Lines
        The u of each line: its Gram is ``G + sign · Σ u f fᵀ + l2·I``.
    sign : float
        1 or −1.

    Returns
    -------
    F : array (r, p)
        The solutions, of the kind of C.
    """
    r, p = C.shape
    F = np.empty_like(C)
    C = C - l1
    for start in range(0, p, _LINES):
        grams = line_grams(G, fixed, lines, sign, start, min(p, start + _LINES))
        grams[:, range(r), range(r)] += l2
        for j, own in enumerate(grams, start):
            F[:, j : j + 1] = nnls_columns(own, np.ascontiguousarray(C[:, j : j + 1]))
    return F
