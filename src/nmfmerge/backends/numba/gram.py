"""Grams: in double precision whatever the precision of the factor, and by our own threads."""

import numpy as np

from nmfmerge.backends.numba.blocks import kernel
from nmfmerge.backends.numba.shares import add_blocks, over_blocks, start_of

_CHUNK = 8192
_WIDTH = 1024  # columns at a time


def gram64(F: np.ndarray) -> np.ndarray:
    """F Fᵀ in float64, for a component-major F; with axes before its last two, of each of these."""
    if F.dtype == np.float64:
        return F @ F.swapaxes(-1, -2)
    G = np.zeros((*F.shape[:-1], F.shape[-2]))
    for start in range(0, F.shape[-1], _CHUNK):
        chunk = F[..., start : start + _CHUNK].astype(np.float64)
        G += chunk @ chunk.swapaxes(-1, -2)
    return G


def diagonals(G: np.ndarray) -> np.ndarray:
    """The diagonal of each matrix of a stack, to be written to."""
    return np.einsum("...tt->...t", G)


def thin_gram(F: np.ndarray, out: np.ndarray) -> np.ndarray:
    """F Fᵀ of the factor of each start into ``out``, without waking the threads of BLAS."""
    n_starts, r, _ = F.shape
    notes = over_blocks(_gram_blocks_, F, r * r, 1.0 * r * F.size, width=_WIDTH)
    out[:] = add_blocks(notes, n_starts).reshape(n_starts, r, r)
    return out


@kernel
def _gram_blocks_(F_all, notes, first, last):
    _, r, p = F_all.shape
    for block in range(first, last):
        i, start = start_of(block, p, _WIDTH)
        F = F_all[i]
        stop = min(start + _WIDTH, p)
        for t in range(r):
            f = F[t, start:stop]
            for s in range(t + 1):
                g = F[s, start:stop]
                total = F.dtype.type(0)
                for b in range(stop - start):
                    total += f[b] * g[b]
                notes[block, t * r + s] = total
                notes[block, s * r + t] = total
