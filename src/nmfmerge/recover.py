"""GSVD feature recovery (Guo & Holy): components that X has and WH lacks.

Comes in: a data matrix and factors of rank r. Goes out: factors of rank r + k, whose new
components point along the generalized singular vectors of (X, WH) where WH misses most.
With U, Σ, V the leading singular triplets of X and B = (UᵀW)(HV), the SVD
B Σ⁻¹ = P S Qᵀ gives the generalized singular values 1/s² and the directions Σ⁻¹q.
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.linalg import svd as lapack_svd

from nmfmerge.data import Check, DataMatrix
from nmfmerge.init import Factors, nonnegative_pairs
from nmfmerge.kernels import gram64, nnls_columns


def recover(
    data: DataMatrix,
    Wt: np.ndarray,
    H: np.ndarray,
    k: int,
    refine: Callable[[np.ndarray, np.ndarray], Factors],
    check: Check | None = None,
    held: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Add ``k`` components, in rounds if there are more than one round can give.

    When a round does not improve the fit, WH already has all that X has, and the components that
    are left to add are zero.

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
    check : callable, optional
        Called now and then; may raise to stop.
    held : bool array (r,), optional
        Columns of W that are not rescaled.

    Returns
    -------
    Wt, H : arrays (r + k, m) and (r + k, n)
        The components that came in, rescaled, then the recovered ones.
    values : float64 array (k,)
        Generalized singular value of each recovered component; infinite where WH has nothing of
        the direction, 1 for components that are zero because WH already had all of X.
    """
    check = check or (lambda: None)
    values = np.empty(0)
    held = np.zeros(len(H), dtype=bool) if held is None else held
    while True:
        held = np.pad(held, (0, len(H) - len(held)))
        Wt, H, new, gain = _recover_round(data, Wt, H, k - len(values), check, held)
        values = np.concatenate([values, new])
        rest = k - len(values)
        if rest == 0:
            return Wt, H, values
        if gain <= np.finfo(H.dtype).eps * data.norm2:
            zeros = ((0, rest), (0, 0))
            return np.pad(Wt, zeros), np.pad(H, zeros), np.pad(values, (0, rest), constant_values=1)
        Wt, H = refine(Wt, H)


def _recover_round(
    data: DataMatrix, Wt: np.ndarray, H: np.ndarray, k: int, check: Check, held: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Add up to ``k`` components, at most one for each singular triplet of X that is compared.

    Returns Wt, H, the generalized singular values, and by how much ½‖X − WH‖² fell.

    The fit never gets worse. Where H_add spans nearly all of H, the best scales ``a`` of the old
    components may be zero although the new pairs, once made nonnegative, cannot replace them. If
    that makes the fit worse the old components are kept as they are (a = 1); the scaling of all
    components at the end can then only improve it.
    """
    values, H_add = missing_directions(data, Wt, H, k, check)
    if len(values) == 0:  # X is zero and has no directions
        return Wt, H, values, 0.0
    data.forget_svd()  # frees memory; a next round needs more triplets
    check()
    WtX = data.WtX(Wt, out=np.empty_like(H))
    now = _change(gram64(Wt) * gram64(H), _diagonal(WtX, H), np.ones(len(H)))
    check()
    project = _Projection(data, Wt, H, H_add)
    scales = project.old_scales(WtX, held)
    del WtX
    for a in (scales, np.ones(len(H))):
        Wt_add, H_plus = nonnegative_pairs(project.new_left(a), H_add, np.ones_like(H_add[:, 0]))
        Wt_new = np.concatenate([Wt * a[:, None].astype(H.dtype), Wt_add])
        H_new = np.concatenate([H, H_plus])
        check()
        c, change = best_scales(data, Wt_new, H_new, held)
        if change <= now:
            break
    return Wt_new * c[:, None].astype(H.dtype), H_new, values, now - change


def missing_directions(
    data: DataMatrix, Wt: np.ndarray, H: np.ndarray, k: int, check: Check | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Up to ``k`` directions of the rows of X that WH lacks most, with their λ = 1/s².

    Works in the numerical rank of X, so at most that many come back.
    """
    svd = data.svd(len(H), check)
    rank = svd.rank(data.shape)
    if rank == 0:
        return np.empty(0), np.empty((0, H.shape[1]), H.dtype)
    svd = svd.head(rank)
    sigma = svd.s.astype(np.float64)
    B = (svd.Ut @ Wt.T).astype(np.float64) @ (H @ svd.Vt.T).astype(np.float64)
    _, s, Qt = lapack_svd(B / sigma)
    k = min(k, rank)
    smallest = np.arange(rank)[::-1][:k]
    s_k = s[smallest]
    noise = rank * np.finfo(H.dtype).eps * s[0]
    values = np.full(k, np.inf)
    clear = s_k > noise
    values[clear] = 1 / s_k[clear] ** 2
    directions = Qt[smallest] / sigma
    # The scale does not matter below; with unit rows all later products are near 1.
    H_add = directions @ svd.Vt.astype(np.float64, copy=False)
    H_add /= np.linalg.norm(H_add, axis=1, keepdims=True)
    return values, H_add.astype(H.dtype)


class _Projection:
    """The problem min ‖X − W diag(a) H − W_add H_add‖² over a ≥ 0 and W_add of any sign.

    With H_addᵀ = QR, the best W_add leaves the rows of the residual orthogonal to Q, so a solves
    min ‖(X − W diag(a) H)(I − QQᵀ)‖².
    """

    def __init__(self, data: DataMatrix, Wt: np.ndarray, H: np.ndarray, H_add: np.ndarray) -> None:
        Q, R = qr(H_add.T.astype(np.float64), mode="economic")
        self.R_inverse = solve_triangular(R, np.eye(len(R)))
        self.Qt = np.ascontiguousarray(Q.T, dtype=H.dtype)
        self.Wt, self.H = Wt, H
        self.HQ = H @ self.Qt.T
        self.XQ = data.HXt(self.Qt, out=np.empty((len(self.Qt), Wt.shape[1]), Wt.dtype))

    def old_scales(self, WtX: np.ndarray, held: np.ndarray) -> np.ndarray:
        """The best a, with 1 for components that are held."""
        H_rest = self.H - self.HQ @ self.Qt
        A = gram64(self.Wt) * gram64(H_rest)
        return _nnls(A, _diagonal(WtX, H_rest), held)

    def new_left(self, a: np.ndarray) -> np.ndarray:
        """The best W_addᵀ for this a."""
        rest = self.XQ - (self.HQ * a[:, None].astype(self.Wt.dtype)).T @ self.Wt
        return (self.R_inverse @ rest).astype(self.Wt.dtype)


def best_scales(
    data: DataMatrix, Wt: np.ndarray, H: np.ndarray, held: np.ndarray
) -> tuple[np.ndarray, float]:
    """The c ≥ 0 that minimises ½‖X − W diag(c) H‖², and that minimum less ½‖X‖².

    The first components may be ``held``, which means that their c is 1.
    """
    WtX = data.WtX(Wt, out=np.empty_like(H))
    A, b = gram64(Wt) * gram64(H), _diagonal(WtX, H)
    c = _nnls(A, b, np.pad(held, (0, len(H) - len(held))))
    return c, _change(A, b, c)


def _nnls(A: np.ndarray, b: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Minimise ½aᵀAa − bᵀa over a ≥ 0 for a small positive semidefinite A; held entries are 1."""
    if not held.any():
        return nnls_columns(A, b[:, None])[:, 0]
    a = np.ones(len(b))
    rest = b - A[:, held].sum(axis=1)
    a[~held] = nnls_columns(A[np.ix_(~held, ~held)], rest[~held, None])[:, 0]
    return a


def _change(A: np.ndarray, b: np.ndarray, c: np.ndarray) -> float:
    return float(0.5 * c @ A @ c - b @ c)


def _diagonal(P: np.ndarray, F: np.ndarray) -> np.ndarray:
    """diag(P Fᵀ) in float64."""
    return np.einsum("ij,ij->i", P, F, dtype=np.float64)
