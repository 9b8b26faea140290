"""Grams: in double precision whatever the precision of the factor, and by our own threads."""

import numpy as np

from nmfmerge.kernels.blocks import kernel
from nmfmerge.kernels.parallel import add_blocks, over_blocks

_CHUNK = 8192
_WIDTH = 1024  # columns at a time


def gram64(F: np.ndarray) -> np.ndarray:
    """F Fᵀ in float64, for a component-major F."""
    if F.dtype == np.float64:
        return F @ F.T
    G = np.zeros((len(F), len(F)))
    for start in range(0, F.shape[1], _CHUNK):
        chunk = F[:, start : start + _CHUNK].astype(np.float64)
        G += chunk @ chunk.T
    return G


def thin_gram(F: np.ndarray, out: np.ndarray) -> np.ndarray:
    """F Fᵀ of a factor with few components into ``out``, without waking the threads of BLAS."""
    r = len(F)
    sums = add_blocks(over_blocks(_gram_blocks_, F, r * r, 1.0 * r * F.size, width=_WIDTH))
    out[:] = sums.reshape(r, r)
    return out


@kernel
def _gram_blocks_(F, notes, first, last):
    r, p = F.shape
    for block in range(first, last):
        start = block * _WIDTH
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
