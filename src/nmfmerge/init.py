"""Initial factors: random, or from the singular vectors of X (Boutsidis & Gallopoulos 2008).

Comes in: a data matrix and a rank. Goes out: ``Wt`` (r × m) and ``H`` (r × n), nonnegative.
"""

from collections.abc import Callable

import numpy as np

from nmfmerge.data import Check, DataMatrix

Factors = tuple[np.ndarray, np.ndarray]


def random(
    data: DataMatrix, r: int, rng: np.random.Generator, check: Check | None = None
) -> Factors:
    """W uniform with columns scaled to sum 1, H uniform: the paper's random starts."""
    m, n = data.shape
    W = rng.random((m, r))
    W /= W.sum(axis=0)
    H = rng.random((r, n))
    return np.ascontiguousarray(W.T, dtype=data.dtype), H.astype(data.dtype, copy=False)


def nndsvd(
    data: DataMatrix, r: int, rng: np.random.Generator, check: Check | None = None
) -> Factors:
    """Nonnegative parts of the leading singular pairs; what is zero stays zero.

    X may need more components than it has singular values, so a component is never zero as a whole:
    no solver could revive it.
    """
    svd = data.svd(r, check)
    least = np.finfo(svd.s.dtype).eps * svd.s[0]
    return nonnegative_pairs(svd.Ut, svd.Vt, np.maximum(svd.s, least))


def nndsvda(
    data: DataMatrix, r: int, rng: np.random.Generator, check: Check | None = None
) -> Factors:
    """NNDSVD with zeros filled by the mean of X."""
    Wt, H = nndsvd(data, r, rng, check)
    for F in (Wt, H):
        F[F == 0] = data.mean
    return Wt, H


def nndsvdar(
    data: DataMatrix, r: int, rng: np.random.Generator, check: Check | None = None
) -> Factors:
    """NNDSVD with zeros filled by uniform numbers up to a hundredth of the mean of X."""
    Wt, H = nndsvd(data, r, rng, check)
    for F in (Wt, H):
        zero = F == 0
        F[zero] = rng.random(np.count_nonzero(zero)) * (data.mean / 100)
    return Wt, H


Init = Callable[[DataMatrix, int, np.random.Generator, Check | None], Factors]

INITS: dict[str, Init] = {
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
    Wt, H = np.empty_like(Ut), np.empty_like(Vt)
    tiny = np.finfo(Ut.dtype).tiny
    for t, (u, v) in enumerate(zip(Ut, Vt, strict=True)):
        parts = [(np.maximum(sign * u, 0), np.maximum(sign * v, 0)) for sign in (1, -1)]
        norms = [(_norm(a), _norm(b)) for a, b in parts]
        kept = 0 if np.prod(norms[0]) >= np.prod(norms[1]) else 1
        u_norm, v_norm = norms[kept]
        size = np.sqrt(s[t] * u_norm * v_norm)
        Wt[t] = parts[kept][0] * (size / max(u_norm, tiny))
        H[t] = parts[kept][1] * (size / max(v_norm, tiny))
    return Wt, H


def _norm(x: np.ndarray) -> np.floating:
    return np.sqrt(np.sum(x * x))
