"""Mutual information of pairs of components: what merging them costs under Kullback–Leibler.

See `nmfmerge.losses.kl_merging` for a, b and z. The sum over all entries of a pair is replaced by
one over a histogram of a and one of b, whose bins cover the range of the posterior and narrow
towards 0 and 1. Each bin stands for two points, with its mean and its variance.
"""

import numpy as np

from nmfmerge.backends.numba.blocks import inlined, kernel, part

BINS = 32


@kernel
def pair_informations(w, h, mass, p, q):
    """I of the pairs of components (p, q), in O(m + n + BINS²) each.

    Parameters
    ----------
    w, h : float64 arrays (r, m) and (r, n)
        Rows that sum to 1, or to 0 for a component that is zero.
    mass : float64 array (r,)
        The sum of each component.
    p, q : int arrays (n_pairs,)
        Pairs.

    Returns
    -------
    information : float64 array (n_pairs,)
    """
    information = np.zeros(p.size)
    a_mass, a = np.empty(2 * BINS), np.empty(2 * BINS)
    b_mass, b = np.empty(2 * BINS), np.empty(2 * BINS)
    square = np.empty(BINS)
    for pair in range(p.size):
        i, j = p[pair], q[pair]
        if mass[i] > 0 and mass[j] > 0:
            share = mass[i] / (mass[i] + mass[j])
            _points_(w[i], w[j], share, a_mass, a, square)
            _points_(h[i], h[j], share, b_mass, b, square)
            information[pair] = _sum_over(a_mass, a, b_mass, b, share)
    return information


@inlined
def _place(a):
    """Where a posterior lies on the scale of bins, from 0 to 1."""
    return np.sqrt(0.5 * a) if a < 0.5 else 1 - np.sqrt(0.5 * max(1 - a, 0.0))


@part
def _points_(f, g, share, weight, point, square):
    """Two points for each bin of the posterior ``share·f / (share·f + (1 − share)·g)``."""
    low, high = 1.0, 0.0
    for i in range(f.size):
        first = share * f[i]
        both = first + (1 - share) * g[i]
        if both > 0:
            place = _place(first / both)
            low, high = min(low, place), max(high, place)
    weight[:] = 0
    point[:] = 0
    square[:] = 0
    scale = BINS / (high - low) if high > low else 0.0
    for i in range(f.size):
        first = share * f[i]
        both = first + (1 - share) * g[i]
        if both > 0:
            a = first / both
            b = min(int((_place(a) - low) * scale), BINS - 1)
            weight[b] += both
            point[b] += both * (a - share)
            square[b] += both * (a - share) ** 2
    for b in range(BINS):
        if weight[b] > 0:
            mean = point[b] / weight[b]
            spread = np.sqrt(max(square[b] / weight[b] - mean * mean, 0.0))
            mean += share
            spread = min(spread, mean, 1 - mean)
            weight[b] *= 0.5
            weight[BINS + b] = weight[b]
            point[b], point[BINS + b] = mean - spread, mean + spread


@inlined
def _sum_over(a_mass, a, b_mass, b, share):
    """Σ mass (z log z − z + 1) over the pairs of two sets of posteriors; the mean of z is 1."""
    total = 0.0
    for i in range(a_mass.size):
        if a_mass[i] > 0:
            first = (a[i] - share) / (share * (1 - share))
            row = 0.0
            for j in range(b_mass.size):
                if b_mass[j] > 0:
                    d = first * (b[j] - share)  # z − 1
                    if abs(d) < 1e-3:
                        row += b_mass[j] * d * d * (0.5 - d * (1 / 6 - d / 12))
                    elif d > -1:
                        row += b_mass[j] * ((1 + d) * np.log1p(d) - d)
                    else:
                        row += b_mass[j]
            total += a_mass[i] * row
    return total
