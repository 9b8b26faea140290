"""Kernels for a batch whose longer factor lies in shards (`nmfmerge.matrices.dask.factor`).

Every function does with a long factor what the function of the same name in
`nmfmerge.backends.numba` does with an array. The other factor is short: it is an array, and so are
all products.
"""

from typing import Any

import numpy as np

from nmfmerge.backends import numba as kernels
from nmfmerge.backends.interface import Capability
from nmfmerge.backends.numba import diagonals as diagonals
from nmfmerge.backends.numba import judge_ as judge_
from nmfmerge.backends.numba import judge_values_ as judge_values_
from nmfmerge.backends.numba import largest_ratio as largest_ratio
from nmfmerge.backends.numba import largest_step as largest_step
from nmfmerge.backends.numba import note_steps_ as note_steps_
from nmfmerge.backends.numba import numbers as numbers

capabilities = frozenset({Capability.FORESIGHT})


def is_long(F: Any) -> bool:
    """True if a factor, or one start of it, lies in shards."""
    return hasattr(F, "shards")


def empty(shape, like):
    """An array of the precision of ``like``, for something short."""
    return np.empty(shape, like.dtype)


def indices(array, like):
    """Indices for arrays."""
    return array


def copy(F):
    """A copy; of one long start itself, which never changes."""
    return F if is_long(F) and len(F.shape) == 2 else F.copy()


def take(F, rows):
    """A copy of some starts."""
    return F[rows]


def stack(factors):
    """Factors of single starts as one batch."""
    if not is_long(factors[0]):
        return kernels.stack(factors)
    batch = factors[0][None]
    batch.rows = list(factors)
    return batch


def contiguous(F):
    """The factor itself if it is sharded, else a contiguous array."""
    return F if is_long(F) else kernels.contiguous(F)


def to_host(F):
    """An array; of a long factor nothing, for it is found again from the short one."""
    return np.empty((*F.shape[:-1], 0), F.dtype) if is_long(F) else F


def from_host(A, like):
    """The same array."""
    return A


def gram64(F):
    """F Fᵀ in float64."""
    if not is_long(F):
        return kernels.gram64(F)
    return F.gram() if len(F.shape) == 2 else F.grams()


def mix(A, F):
    """A F: a small matrix for each start, times its factor."""
    if not is_long(F):
        return kernels.mix(A, F)
    return F.mixed(np.asarray(A, dtype=np.float64))


def products(F, others):
    """F Oᵀ, small, of each start."""
    return F.products(others) if is_long(F) else kernels.products(F, others)


def scaled(F, scales):
    """Components times their scales (n_starts × r)."""
    return F.mixed(_diagonal(scales)) if is_long(F) else kernels.scaled(F, scales)


def scaled_positive(F, scales):
    """Components times their scales, with zero for what is negative then."""
    if not is_long(F):
        return kernels.scaled_positive(F, scales)
    return F.mixed(_diagonal(scales), positive=True)


def _diagonal(scales):
    return np.asarray(scales, dtype=np.float64)[:, :, None] * np.eye(scales.shape[1])


def joined(F, more):
    """Components of two factors, one after the other."""
    return F.joined(more) if is_long(F) else kernels.joined(F, more)


def with_zero_components(F, count):
    """More components, which are zero."""
    if not is_long(F):
        return kernels.with_zero_components(F, count)
    r = F.shape[1]
    return F.mixed(np.broadcast_to(np.eye(r + count, r), (len(F), r + count, r)))


def part_norms(F):
    """Norms of the positive and of the negative part of each component."""
    return np.sqrt(F.part_squares()) if is_long(F) else kernels.part_norms(F)


def row_products(C, F):
    """⟨c_t, f_t⟩ of each component; C is a cross product with X."""
    return F.inner(C) if is_long(F) else kernels.row_products(C, F)


def inner_products(F, C):
    """⟨F, C⟩ of each start; C is a cross product with X, if F is long."""
    if not is_long(F):
        return kernels.inner_products(F, C)
    return F.inner(C).sum(axis=1)


def sums(F):
    """Sum of the factor of each start."""
    return F.sums() if is_long(F) else kernels.sums(F)


def extrapolate_(F, previous, beta):
    """Replace F by ``F + beta·(F − previous)`` and previous by F, both in place.

    Both are cut off at zero.
    """
    if not is_long(F):
        kernels.extrapolate_(F, previous, beta)
        return
    before = F.copy()
    F[:] = F.extrapolated(previous, beta)
    previous[:] = before


def hals_sweep_(F, G, C, n_sweeps=1, active=None):
    """Sweep over the components of F, in place; of a long one it is one pass over X.

    Returns what the kernel for arrays returns and, for a long factor, ⟨C, F⟩ too.
    """
    if not is_long(F):
        return kernels.hals_sweep_(F, G, C, n_sweeps)
    return F.sweep_(G, C, n_sweeps)


def foresee_(F, weights, sums_rise):
    """Announce the likely extrapolation of a long factor after its next sweep.

    The same pass then also computes the products of the extrapolated factor and, with
    ``sums_rise``, the rise of the objective.
    """
    F.foresee(weights, sums_rise)


def rise(F, G, C, old):
    """By how much the objective rose by extrapolation; of a long factor, as its sweep has noted."""
    return np.array([rows.rise for rows in F]) if is_long(F) else kernels.rise(F, G, C, old)


def fit_noted(sweep):
    """⟨C, F⟩ of each start, where a sweep has noted it."""
    return sweep[3] if len(sweep) > 3 else None


def settle_(first, second, accepted_first, accepted_second, taken_back):
    """Go back to the accepted point where a step was taken back; elsewhere accept the present."""
    back = np.flatnonzero(taken_back).tolist()
    on = np.flatnonzero(~taken_back).tolist()
    first[back] = accepted_first[back]
    second[back] = accepted_second[back]
    accepted_first[on] = first[on]
