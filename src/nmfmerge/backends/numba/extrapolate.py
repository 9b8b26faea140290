"""Extrapolation of a factor along its last move, cut off at zero (Ang & Gillis 2019)."""

from nmfmerge.backends.numba.blocks import kernel


@kernel
def extrapolate_(F, previous, beta):
    """Replace F by ``max(0, F + beta·(F − previous))`` and previous by F, both in place.

    Each start, along the first axis, has its own ``beta``.
    """
    zero = F.dtype.type(0)
    for s in range(F.shape[0]):
        weight = F.dtype.type(beta[s])
        for t in range(F.shape[1]):
            f = F[s, t]
            p = previous[s, t]
            for j in range(F.shape[2]):
                value = f[j]
                new = value + weight * (value - p[j])
                f[j] = new if new > zero else zero
                p[j] = value


@kernel
def extrapolated_(out, F, previous, beta):
    """Put ``max(0, F + beta·(F − previous))`` into ``out``; all are r × p."""
    zero = F.dtype.type(0)
    weight = F.dtype.type(beta)
    for t in range(F.shape[0]):
        f, p, o = F[t], previous[t], out[t]
        for j in range(f.size):
            new = f[j] + weight * (f[j] - p[j])
            o[j] = new if new > zero else zero
