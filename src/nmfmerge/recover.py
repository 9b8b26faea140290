"""GSVD feature recovery (Guo & Holy): components that X has and WH lacks.

Comes in: a data matrix and factors of rank r. Goes out: factors of rank r + k, whose new
components point along the generalized singular vectors of (X, WH) where WH misses most.
METHOD of the step: with U, Σ, V the leading singular triplets of X and B = (UᵀW)(HV), the SVD
B Σ⁻¹ = P S Qᵀ gives the generalized singular values 1/s² and the directions Σ⁻¹q.
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh, qr, solve_triangular
from scipy.linalg import svd as lapack_svd
from scipy.optimize import nnls

from nmfmerge.data import DataMatrix
from nmfmerge.init import Factors, nonnegative_pairs
from nmfmerge.merge import gram64


def recover(
    data: DataMatrix,
    Wt: np.ndarray,
    H: np.ndarray,
    k: int,
    refine: Callable[[np.ndarray, np.ndarray], Factors],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Add ``k`` components, in rounds if there are more than one round can give.

    Parameters
    ----------
    data : DataMatrix
        X.
    Wt, H : arrays (r, m) and (r, n)
        Component-major factors; not changed.
    k : int
        How many components to add.
    refine : callable
        ``Wt, H ↦ Wt, H``: a loose NMF, run between rounds.

    Returns
    -------
    Wt, H : arrays (r + k, m) and (r + k, n)
        The components that came in, rescaled, then the recovered ones.
    values : float64 array (k,)
        Generalized singular value of each recovered component; infinite where WH has nothing of
        the direction.
    """
    values = np.empty(0)
    while True:
        Wt, H, new = _recover_round(data, Wt, H, k - len(values))
        values = np.concatenate([values, new])
        if len(values) == k:
            return Wt, H, values
        Wt, H = refine(Wt, H)


def _recover_round(
    data: DataMatrix, Wt: np.ndarray, H: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Add up to ``k`` components: as many as X and WH have directions in common to compare."""
    values, H_add = missing_directions(data, Wt, H, k)
    if len(values) == 0:  # X = 0: nothing to point at
        empty = np.zeros((k, H.shape[1]), H.dtype)
        Wt = np.concatenate([Wt, np.zeros((k, Wt.shape[1]), H.dtype)])
        return Wt, np.concatenate([H, empty]), np.full(k, np.inf)
    a, Wt_add = _best_left_factor(data, Wt, H, H_add)
    ones = np.ones(len(values), dtype=H.dtype)
    Wt_add, H_add = nonnegative_pairs(Wt_add, H_add, ones)
    Wt_new = np.concatenate([Wt * a[:, None].astype(H.dtype), Wt_add])
    H_new = np.concatenate([H, H_add])
    return rescale(data, Wt_new, H_new), H_new, values


def missing_directions(
    data: DataMatrix, Wt: np.ndarray, H: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Up to ``k`` directions of the rows of X that WH lacks most, with their λ = 1/s².

    Works in the numerical rank of X, so at most that many come back.
    """
    svd = data.svd(len(H))
    rank = svd.rank(data.shape)
    svd = svd.head(rank)
    sigma = svd.s.astype(np.float64)
    B = (svd.Ut @ Wt.T).astype(np.float64) @ (H @ svd.Vt.T).astype(np.float64)
    _, s, Qt = lapack_svd(B / sigma)
    k = min(k, rank)
    smallest = np.arange(rank)[::-1][:k]
    s_k = s[smallest]
    noise = rank * np.finfo(H.dtype).eps * (s[0] if rank else 0.0)
    values = np.full(k, np.inf)
    clear = s_k > noise
    values[clear] = 1 / s_k[clear] ** 2
    directions = Qt[smallest] / sigma
    # Scale is of no matter below; unit rows keep every later product near 1.
    H_add = directions @ svd.Vt.astype(np.float64)
    H_add /= np.linalg.norm(H_add, axis=1, keepdims=True)
    return values, H_add.astype(H.dtype)


def _best_left_factor(
    data: DataMatrix, Wt: np.ndarray, H: np.ndarray, H_add: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise ‖X − W diag(a) H − W_add H_add‖² over a ≥ 0 and W_add of any sign.

    With H_addᵀ = QR, the best W_add leaves the rows of the residual orthogonal to Q, so a solves
    min ‖(X − W diag(a) H)(I − QQᵀ)‖².
    """
    Q, R = qr(H_add.T.astype(np.float64), mode="economic")
    Qt = np.ascontiguousarray(Q.T, dtype=H.dtype)
    HQ = H @ Qt.T
    H_rest = H - HQ @ Qt
    A = gram64(Wt) * gram64(H_rest)
    whole = np.diag(gram64(Wt)) * np.diag(gram64(H))
    a = np.ones(len(H))
    # H_add may span nearly all of H; then a is arbitrary, and 1 keeps a good fit good.
    if np.diag(A).max() > np.sqrt(np.finfo(H.dtype).eps) * whole.max():
        WtX = data.WtX(Wt, out=np.empty_like(H))
        a = nnls_gram(A, np.einsum("ij,ij->i", WtX, H_rest, dtype=np.float64))
    XQ = data.HXt(Qt, out=np.empty((len(Qt), Wt.shape[1]), Wt.dtype))
    rest = XQ - (HQ * a[:, None].astype(H.dtype)).T @ Wt
    return a, solve_triangular(R, rest.astype(np.float64)).astype(H.dtype)


def rescale(data: DataMatrix, Wt: np.ndarray, H: np.ndarray) -> np.ndarray:
    """Scale the columns of W by the c ≥ 0 that minimises ‖X − W diag(c) H‖²."""
    WtX = data.WtX(Wt, out=np.empty_like(H))
    c = nnls_gram(gram64(Wt) * gram64(H), np.einsum("ij,ij->i", WtX, H, dtype=np.float64))
    return Wt * c[:, None].astype(Wt.dtype)


def nnls_gram(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Minimise ½aᵀAa − bᵀa over a ≥ 0 for a small positive semidefinite A."""
    scale = np.sqrt(np.diag(A))
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    theta, Y = eigh(A * np.outer(inverse, inverse))
    keep = theta > len(b) * np.finfo(np.float64).eps * theta[-1]
    root = np.sqrt(theta[keep])
    M = root[:, None] * Y[:, keep].T
    y = (Y[:, keep].T @ (b * inverse)) / root
    size = np.abs(y).max(initial=0.0)  # SciPy's nnls has a tolerance that does not scale with y
    if size == 0:
        return np.zeros_like(b)
    return nnls(M, y / size, maxiter=30 * len(b) + 100)[0] * size * inverse
