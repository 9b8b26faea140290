"""Products of a compressed sparse matrix with a dense factor, in Numba.

A CSR matrix is lines (rows) of stored values, each at a place (column); a CSC matrix is the same of
its transpose. Factors come row-major here, one row of r numbers per line or place, so that each
stored value touches contiguous memory. Every output row is summed in the order of the lines,
whatever the share of the work that it is computed in: the bits do not depend on threads.
"""

from nmfmerge.backends.numba.blocks import inlined, kernel


@kernel
def gather_(indptr, places, values, F, out, first, last):
    """Put into out[i] the sum over the stored values of line i of value·F[place]."""
    gather_lines_(indptr, places, values, F, out, first, last)


@inlined
def gather_lines_(indptr, places, values, F, out, first, last):
    """`gather_`, as a part of kernels."""
    r = F.shape[1]
    for i in range(first, last):
        row = out[i]
        row[:] = 0
        low, high = indptr[i], indptr[i + 1]
        fours = low + (high - low) // 4 * 4
        for k in range(low, fours, 4):  # else each value waits until the one before is stored
            v0, v1, v2, v3 = values[k], values[k + 1], values[k + 2], values[k + 3]
            f0, f1 = F[places[k]], F[places[k + 1]]
            f2, f3 = F[places[k + 2]], F[places[k + 3]]
            for t in range(r):
                row[t] = row[t] + v0 * f0[t] + v1 * f1[t] + v2 * f2[t] + v3 * f3[t]
        for k in range(fours, high):
            value, source = values[k], F[places[k]]
            for t in range(r):
                row[t] += value * source[t]


@kernel
def scatter_(indptr, places, values, F, out, first, last):
    """Put into out[j], first ≤ j < last, the sum over stored values at place j of value·F[line].

    Places are sorted within a line.
    """
    scatter_places_(indptr, places, values, F, out, first, last)


@inlined
def scatter_places_(indptr, places, values, F, out, first, last):
    """`scatter_`, as a part of kernels."""
    r = F.shape[1]
    out[first:last] = 0
    for i in range(indptr.size - 1):
        low, high = indptr[i], indptr[i + 1]
        if first > 0:
            low = first_from(places, low, high, first)
        source = F[i]
        for k in range(low, high):
            j = places[k]
            if j >= last:
                break
            value = values[k]
            target = out[j]
            for t in range(r):
                target[t] += value * source[t]


@inlined
def first_from(places, low, high, first):
    """Where in [low, high) the first place is that is at least ``first``, by bisection."""
    while low < high:
        middle = (low + high) >> 1
        if places[middle] < first:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def residual_sums_(indptr, places, values, scale, F_lines, F_places, sums, first, last):
    """Put Σ(scale·x − fit)² and Σ fit² over the stored values of some lines into sums[line]."""
    r = F_lines.shape[1]
    for i in range(first, last):
        line = F_lines[i]
        squares = 0.0
        fits = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            place = F_places[places[k]]
            fit = 0.0
            for t in range(r):
                fit += line[t] * place[t]
            difference = scale * values[k] - fit
            squares += difference * difference
            fits += fit * fit
        sums[i, 0] = squares
        sums[i, 1] = fits
