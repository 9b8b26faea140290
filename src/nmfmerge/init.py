"""Initial factors: random, or from the singular vectors of X (Boutsidis & Gallopoulos 2008).

Comes in: a data matrix and a rank. Goes out: ``Wt`` (r × m) and ``H`` (r × n), nonnegative.
"""

from collections.abc import Callable

import numpy as np

from nmfmerge.data import DataMatrix

Factors = tuple[np.ndarray, np.ndarray]


def random(data: DataMatrix, r: int, rng: np.random.Generator) -> Factors:
    """W uniform with columns scaled to sum 1, H uniform: the paper's random starts."""
    m, n = data.shape
    W = rng.random((m, r))
    W /= W.sum(axis=0)
    H = rng.random((r, n))
    return np.ascontiguousarray(W.T, dtype=data.dtype), H.astype(data.dtype, copy=False)


def nndsvd(data: DataMatrix, r: int, rng: np.random.Generator) -> Factors:
    """Nonnegative parts of the leading singular pairs; what is zero stays zero."""
    svd = data.svd(r)
    return nonnegative_pairs(svd.Ut, svd.Vt, svd.s)


def nndsvda(data: DataMatrix, r: int, rng: np.random.Generator) -> Factors:
    """NNDSVD with zeros filled by the mean of X."""
    Wt, H = nndsvd(data, r, rng)
    for F in (Wt, H):
        F[F == 0] = data.mean
    return Wt, H


def nndsvdar(data: DataMatrix, r: int, rng: np.random.Generator) -> Factors:
    """NNDSVD with zeros filled by uniform numbers up to a hundredth of the mean of X."""
    Wt, H = nndsvd(data, r, rng)
    for F in (Wt, H):
        zero = F == 0
        F[zero] = rng.random(np.count_nonzero(zero)) * (data.mean / 100)
    return Wt, H


INITS: dict[str, Callable[[DataMatrix, int, np.random.Generator], Factors]] = {
    "random": random,
    "nndsvd": nndsvd,
    "nndsvda": nndsvda,
    "nndsvdar": nndsvdar,
}


def nonnegative_pairs(Ut: np.ndarray, Vt: np.ndarray, s: np.ndarray) -> Factors:
    """Make each pair (row of Ut, row of Vt) nonnegative, keeping the stronger of its two signs.

    With u±, v± the positive and negative parts, the sign with the larger ‖u±‖‖v±‖ is kept (ties:
    positive) and scaled to √(s‖u±‖‖v±‖)·u±/‖u±‖, and the same for v.
    """
    up, vp = np.maximum(Ut, 0), np.maximum(Vt, 0)
    un, vn = up - Ut, vp - Vt
    norms = [np.linalg.norm(part, axis=1) for part in (up, vp, un, vn)]
    positive = (norms[0] * norms[1] >= norms[2] * norms[3])[:, None]
    u, v = np.where(positive, up, un), np.where(positive, vp, vn)
    u_norm, v_norm = np.linalg.norm(u, axis=1), np.linalg.norm(v, axis=1)
    size = np.sqrt(s * u_norm * v_norm)
    tiny = np.finfo(Ut.dtype).tiny
    return (
        u * (size / np.maximum(u_norm, tiny))[:, None],
        v * (size / np.maximum(v_norm, tiny))[:, None],
    )
