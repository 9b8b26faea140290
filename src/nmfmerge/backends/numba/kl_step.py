"""One step of a coordinate under the Kullback–Leibler divergence, safe from wherever it is.

For a coordinate v beside the row f of the fixed factor let S = Σ f, ψ = Σ f x/y and η = Σ f² x/y²,
sums over stored entries; ψ(v) = S at the minimum. 1/ψ is concave, increasing and nearly linear in
v, so Newton's method is applied to it.
"""

import numpy as np

from nmfmerge.backends.numba.blocks import inlined


@inlined
def tangent_step(old, psi, eta, S, l2):
    """Where Newton's method for 1/ψ goes, and the least to go to; the first may be below zero.

    The tangent never goes beyond the minimum from below. From above it may, by far, so it is
    followed down to v/(1 + q)² at most, q = (S − ψ)/(ηv): the objective at v is a bound of that
    between the two, because ψ(u) ≤ ψ − ηv + ηv²/u for u < v. Where no value of X is beside the
    coordinate, both are 0. There are no branches, so that loops of it are vectors.
    """
    S_old = S + l2 * old
    up = psi * (psi - S_old)
    down = S_old * eta + l2 * psi
    new = old + 2 * up / (down + np.sqrt(down * down + 4 * l2 * eta * up))
    shrink = 1 + (S_old - psi) / ((eta + l2) * old)
    least = new if up >= 0 else old / (shrink * shrink)
    return (new, least) if down > 0 else (0.0, 0.0)


@inlined
def pull_at_zero(old, g, x, y, n, floor):
    """ψ of a coordinate at zero."""
    psi = x.dtype.type(0)
    v = y.dtype.type(old)
    for e in range(n):
        rest = y[e] - v * g[e]
        psi += g[e] * x[e] / (rest if rest > floor else floor)
    return psi
