"""Operations on the factors of a batch: starts selected and stacked, components mixed and scaled.

All factors have a first axis of starts; one that has a single start serves all.
"""

from collections.abc import Sequence

import numpy as np

from nmfmerge.backends.numba.blocks import kernel


def numbers(n_starts, value, like):
    """An array (n_starts,) of a number or truth value; ``like`` is a factor of the batch."""
    return np.full(n_starts, value, dtype=bool if isinstance(value, bool) else np.float64)


def empty(shape, like):
    """An array of the kind of ``like``."""
    return np.empty(shape, like.dtype)


def indices(array, like):
    """Indices for arrays of the kind of ``like``."""
    return array


def copy(A):
    """A copy."""
    return A.copy()


def take(A, rows):
    """A copy of some starts."""
    return A[rows]


def stack(factors: Sequence[np.ndarray]):
    """Factors of single starts as one batch; a single one is not copied."""
    return factors[0][None] if len(factors) == 1 else np.stack(factors)


def contiguous(A):
    """The array, or a copy that lies in one piece."""
    return np.ascontiguousarray(A)


def to_host(A):
    """The array in NumPy."""
    return A


def from_host(A, like):
    """An array of NumPy where ``like`` is."""
    return A


def mix(A, F):
    """A F: a small matrix for each start, times its factor."""
    return np.matmul(A.astype(F.dtype), F)


def products(F, others):
    """F Oᵀ, small, of each start."""
    return np.matmul(F, others.swapaxes(1, 2))


def scaled(F, scales):
    """Components times their scales (n_starts × r)."""
    return F * scales[:, :, None].astype(F.dtype)


def scaled_positive(F, scales):
    """Components times their scales, with zero for what is negative then."""
    product = scaled(F, scales)
    return np.maximum(product, 0, out=product)


def spread(A, F):
    """Standard deviation over starts of each entry of ``A F``."""
    mean, squares = np.zeros((2, A.shape[1], F.shape[2]), F.dtype)
    for i in range(len(F)):  # a running mean, so that nothing cancels
        mixed = mix(A[i], F[i])
        mixed -= mean
        mean += mixed / (i + 1)
        squares += mixed * mixed * (i / (i + 1))
    return np.sqrt(squares / len(F))


def joined(F, more):
    """Components of two factors, one after the other."""
    return np.concatenate([F, more], axis=1)


def with_zero_components(F, count):
    """More components, which are zero."""
    return np.pad(F, ((0, 0), (0, count), (0, 0)))


@kernel
def row_products(F, G):
    """⟨f_t, g_t⟩ of each component, in float64 and in an order that threads do not change."""
    total = np.empty(F.shape[:2], np.float64)
    for i in range(F.shape[0]):
        for t in range(F.shape[1]):
            f, g = F[i, t], G[i, t]
            row = 0.0
            for j in range(f.size):
                row += f[j] * g[j]
            total[i, t] = row
    return total


def inner_products(A, B):
    """⟨A, B⟩ of each start, in float64."""
    return row_products(A, B).sum(axis=1)


def part_norms(F):
    """Norms of the positive and of the negative part of each component, in float64."""
    parts = np.maximum(F, 0), np.minimum(F, 0)
    return np.sqrt(np.stack([row_products(one, one) for one in parts], axis=-1))
