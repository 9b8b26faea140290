"""Initial factors: random, or from the singular vectors of X (Boutsidis & Gallopoulos 2008).

Input: a data matrix and a rank. Output: ``Wt`` (r × m) and ``H`` (r × n), nonnegative.
"""

from collections.abc import Callable

import numpy as np

from nmfmerge.matrices import Array, Check, DataMatrix
from nmfmerge.matrices.pairs import nonnegative_pairs

Factors = tuple[Array, Array]


def random(
    data: DataMatrix, r: int, rng: np.random.Generator, check: Check | None = None
) -> Factors:
    """W uniform with columns scaled to sum 1, H uniform: the paper's random starts."""
    return data.random_start(r, rng)


def nndsvd(
    data: DataMatrix, r: int, rng: np.random.Generator, check: Check | None = None
) -> Factors:
    """Nonnegative parts of the leading singular pairs; what is zero stays zero.

    X may have fewer nonzero singular values than components; no component is left entirely zero,
    because no solver could revive it.
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
