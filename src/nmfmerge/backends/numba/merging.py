"""The cheapest pairwise merges, one after another; see `nmfmerge.losses.frobenius_merging`."""

import numpy as np

from nmfmerge.backends.numba.blocks import inlined, kernel, part


@kernel
def merge_cheapest_(C, D, A, B, w_norm, w_exponent, ids, alive, held, n_merges):
    """Join the cheapest pair of components ``n_merges`` times, in place.

    Parameters
    ----------
    C, D : float64 arrays (r, r)
        Grams of W with unit columns, and of H with the scale.
    A, B : float64 arrays (r, r)
        What each component is of the leaves of W and H.
    w_norm, w_exponent, ids, alive : arrays (r,)
        Norms of columns of W and their powers of two, ids, and which slots hold a component.
    held : bool array (r,)
        Components that are never merged.

    Returns
    -------
    pairs : int array (n, 2)
        Ids joined, the smaller first; n is less than ``n_merges`` where all that is left is held.
    costs : float64 array (n,)
        Penalties, in the unit of D.
    """
    r = C.shape[0]
    pairs = np.empty((n_merges, 2), np.int64)
    costs = np.empty(n_merges, C.dtype)
    table = np.empty((r, r), C.dtype)
    for p in range(r):
        for q in range(r):
            table[p, q] = np.inf
            if p < q and not (held[p] or held[q]):
                table[p, q] = _penalty(C[p, q], D[p, p], D[q, q], D[p, q])
    for n in range(n_merges):
        p, q = 0, 0
        for i in range(r):
            for j in range(i + 1, r):
                if table[i, j] < table[p, q]:
                    p, q = i, j
        if p == q:  # nothing is left to merge
            return pairs[:n], costs[:n]
        costs[n] = table[p, q]
        _join_(C, D, A, B, p, q)
        _join_norms_(w_norm, w_exponent, p, q)
        pairs[n, 0], pairs[n, 1] = min(ids[p], ids[q]), max(ids[p], ids[q])
        ids[p] = r + n
        alive[q] = False
        for s in range(r):
            table[q, s] = table[s, q] = np.inf
        for s in range(r):
            if alive[s] and s != p and not (held[p] or held[s]):
                i, j = min(p, s), max(p, s)
                table[i, j] = _penalty(C[i, j], D[i, i], D[j, j], D[i, j])
    return pairs, costs


@part
def _penalty(c, a, d, g):
    """Penalty of a pair, as `frobenius_merging.pair_penalty`."""
    b = np.sqrt(((a - d) / 2) ** 2 + (g + c * a) * (g + c * d))
    lam_max = (a + d) / 2 + c * g + b
    if lam_max <= 0:
        return 0.0
    return max((1 - c * c) * (a * d - g * g) / lam_max, 0.0)


@inlined
def _join_(C, D, A, B, p, q):
    """Join slots p and q in p, with the weights of `frobenius_merging.merge_weights`."""
    c, a, d, g = C[p, q], D[p, p], D[q, q], D[p, q]
    b = np.sqrt(((a - d) / 2) ** 2 + (g + c * a) * (g + c * d))
    if a >= d:
        alpha, beta = a - d + 2 * b, 2 * (g + c * d)
    else:
        alpha, beta = 2 * (g + c * a), d - a + 2 * b
    size = max(alpha, beta)
    if size > 0:
        alpha, beta = alpha / size, beta / size  # squares of tiny numbers would vanish
    else:
        alpha, beta = 1.0, 0.0
    norm = np.sqrt(alpha * alpha + 2 * c * alpha * beta + beta * beta)
    alpha, beta = alpha / norm, beta / norm
    x, y = alpha + beta * c, alpha * c + beta
    _combine_(C, p, q, alpha, beta)
    _combine_(D, p, q, x, y)
    for t in range(A.shape[1]):
        A[p, t] = alpha * A[p, t] + beta * A[q, t]
        B[p, t] = x * B[p, t] + y * B[q, t]


@part
def _combine_(G, p, q, x, y):
    """Replace vector p by x·p + y·q in the Gram G."""
    own = x * x * G[p, p] + 2 * x * y * G[p, q] + y * y * G[q, q]
    for t in range(G.shape[0]):
        G[p, t] = x * G[p, t] + y * G[q, t]
    for t in range(G.shape[0]):
        G[t, p] = G[p, t]
    G[p, p] = own


@inlined
def _join_norms_(w_norm, w_exponent, p, q):
    """Give slot p the geometric mean of the norms of p and q; where one is zero, the other."""
    x, y = w_norm[p], w_norm[q]
    if x == 0 or y == 0:
        largest = p if x >= y else q
        w_norm[p] = w_norm[largest] if w_norm[largest] != 0 else 1.0
        w_exponent[p] = w_exponent[largest]
    else:
        exponent = (w_exponent[p] + w_exponent[q]) // 2  # both are even
        odd = exponent % 2
        w_norm[p] = np.sqrt(x) * np.sqrt(y) * 2.0**odd
        w_exponent[p] = exponent - odd
