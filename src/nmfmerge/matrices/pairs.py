"""Pairs of vectors of any sign, as singular vectors are, made nonnegative (as NNDSVD does).

Input: rows u of length m and v of length n, pair by pair. Output: the same with the stronger
of the two signs of each pair, and zero where that is negative.
"""

import numpy as np

from nmfmerge.backends import numba
from nmfmerge.backends.interface import Array, Backend

_TIE = 1e-6  # relative: parts of a vector so near in size are equally strong, but for rounding


def nonnegative_pairs(
    Ut: Array, Vt: Array, s: np.ndarray, backend: Backend = numba
) -> tuple[Array, Array]:
    """Make each pair (row of Ut, row of Vt) nonnegative, keeping the stronger of its two signs.

    With u±, v± the positive and negative parts, the sign with the larger ‖u±‖‖v±‖ is kept (ties:
    positive) and scaled to √(s‖u±‖‖v±‖)·u±/‖u±‖, and the same for v.
    """
    Ut, Vt = Ut[None], Vt[None]
    u_scales, v_scales = pair_scales(backend.part_norms(Ut), backend.part_norms(Vt), s)
    return backend.scaled_positive(Ut, u_scales)[0], backend.scaled_positive(Vt, v_scales)[0]


def pair_scales(
    u_norms: np.ndarray, v_norms: np.ndarray, s: np.ndarray | float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Factors for the vectors of pairs, so that setting negative entries to zero then suffices.

    Parameters
    ----------
    u_norms, v_norms : float64 arrays (…, r, 2)
        Norms of the positive and negative parts of each vector.
    s : array (r,) or float
        Sizes that the pairs should have together, before a part of them is dropped.
    """
    products = u_norms * v_norms
    kept = ((1 + _TIE) * products[..., 0] < products[..., 1]).astype(int)[..., None]
    u, v = (np.take_along_axis(norms, kept, axis=-1)[..., 0] for norms in (u_norms, v_norms))
    size = np.sqrt(s * u * v) * (1 - 2 * kept[..., 0])
    u, v = (np.divide(size, x, out=np.zeros_like(size), where=x > 0) for x in (u, v))
    return u, v
