"""Initial factors: random, or from the singular vectors of X (Boutsidis & Gallopoulos 2008).

Comes in: a data matrix and a rank. Goes out: ``Wt`` (r × m) and ``H`` (r × n), nonnegative.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from nmfmerge import kernels
from nmfmerge.data import Array, Check, DataMatrix

Factors = tuple[Array, Array]

_TIE = 1e-6  # relative: parts of a vector so near in size are equally strong, but for rounding


def random(
    data: DataMatrix, r: int, rng: np.random.Generator, check: Check | None = None
) -> Factors:
    """W uniform with columns scaled to sum 1, H uniform: the paper's random starts."""
    return data.random_start(r, rng)


def nndsvd(
    data: DataMatrix, r: int, rng: np.random.Generator, check: Check | None = None
) -> Factors:
    """Nonnegative parts of the leading singular pairs; what is zero stays zero.

    X may need more components than it has singular values, so a component is never zero as a whole:
    no solver could revive it.
    """
    svd = data.svd(r, check)
    least = np.finfo(svd.s.dtype).eps * svd.s[0]
    return nonnegative_pairs(svd.Ut, svd.Vt, np.maximum(svd.s, least), data.start_kernels)


def nndsvda(
    data: DataMatrix, r: int, rng: np.random.Generator, check: Check | None = None
) -> Factors:
    """NNDSVD with zeros filled by the mean of X."""
    Wt, H = nndsvd(data, r, rng, check)
    return data.filled(Wt, data.mean), data.filled(H, data.mean)


def nndsvdar(
    data: DataMatrix, r: int, rng: np.random.Generator, check: Check | None = None
) -> Factors:
    """NNDSVD with zeros filled by uniform numbers up to a hundredth of the mean of X."""
    Wt, H = nndsvd(data, r, rng, check)
    most = data.mean / 100
    return data.filled(Wt, most, rng), data.filled(H, most, rng)


Init = Callable[[DataMatrix, int, np.random.Generator, Check | None], Factors]

INITS: dict[str, Init] = {
    "random": random,
    "nndsvd": nndsvd,
    "nndsvda": nndsvda,
    "nndsvdar": nndsvdar,
}


def nonnegative_pairs(Ut: Array, Vt: Array, s: np.ndarray, kernels: Any = kernels) -> Factors:
    """Make each pair (row of Ut, row of Vt) nonnegative, keeping the stronger of its two signs.

    With u±, v± the positive and negative parts, the sign with the larger ‖u±‖‖v±‖ is kept (ties:
    positive) and scaled to √(s‖u±‖‖v±‖)·u±/‖u±‖, and the same for v.
    """
    Ut, Vt = Ut[None], Vt[None]
    u_scales, v_scales = pair_scales(kernels.part_norms(Ut), kernels.part_norms(Vt), s)
    return kernels.scaled_positive(Ut, u_scales)[0], kernels.scaled_positive(Vt, v_scales)[0]


def pair_scales(
    u_norms: np.ndarray, v_norms: np.ndarray, s: np.ndarray | float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """What to multiply pairs with, before negative entries become zero, to make them nonnegative.

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
