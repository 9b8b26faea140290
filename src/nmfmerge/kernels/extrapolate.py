"""Extrapolation of a factor along its last move, cut off at zero (Ang & Gillis 2019)."""

from nmfmerge.kernels.blocks import kernel


@kernel
def extrapolate_(F, previous, beta):
    """Replace F by ``max(0, F + beta·(F − previous))`` and previous by F, both in place."""
    zero = F.dtype.type(0)
    for t in range(F.shape[0]):
        f = F[t]
        p = previous[t]
        for j in range(F.shape[1]):
            value = f[j]
            new = value + beta * (value - p[j])
            f[j] = new if new > zero else zero
            p[j] = value
