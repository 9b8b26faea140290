"""GSVD feature recovery (Guo & Holy): components that X has and WH lacks.

Input: a data matrix and factors of rank r. Output: factors of rank r + k, whose new
components point along the generalized singular vectors of (X, WH) where WH misses most.
With U, Σ, V the leading singular triplets of X and B = (UᵀW)(HV), the SVD
B Σ⁻¹ = P S Qᵀ gives the generalized singular values 1/s² and the directions Σ⁻¹q.

Of each start, only small matrices are looked at: Grams, and products of the factors with U, V and
XV. What comes out of them are recipes, small matrices too, by which factors are mixed.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.linalg import svd as lapack_svd

from nmfmerge.backends.numba import nnls_vector, of_each
from nmfmerge.losses.base import Recovered
from nmfmerge.matrices import Array, Check, DataMatrix
from nmfmerge.matrices.pairs import pair_scales


def recover_round(
    data: DataMatrix, Wt: Array, H: Array, k: int, check: Check, held: np.ndarray
) -> Recovered:
    """Add up to ``k`` components, at most one for each singular triplet of X that is compared.

    The fit never gets worse. Where H_add spans nearly all of H, the best scales ``a`` of the old
    components may be zero although the new pairs, once made nonnegative, cannot replace them. If
    that makes the fit worse the old components are kept as they are (a = 1); the scaling of all
    components at the end can then only improve it.

    Parameters
    ----------
    data : DataMatrix
        X.
    Wt, H : arrays (n_starts, r, m) and (n_starts, r, n)
        Component-major factors; not changed.
    k : int
        How many components to add.
    check : callable
        Called now and then; may raise to stop.
    held : bool array (r,)
        Columns of W that are not rescaled.

    Returns
    -------
    Recovered
        With the generalized singular values as strengths.
    """
    kernels, n_starts = data.kernels, len(H)
    space = _SingularSpace.of(data, H.shape[1], check)
    if space.rank == 0:  # X is zero and has no directions
        return Recovered(Wt, H, np.empty((n_starts, 0)), np.zeros(n_starts))
    views = _look(data, Wt, H, space, check)
    plans = of_each(lambda view: view.plan(space.sigma, k, held), views)
    H_add = space.along_V(np.stack([plan.directions for plan in plans]))
    scales = np.stack([plan.old_scales for plan in plans])
    new = _extended(data, Wt, H, H_add, space, plans, scales, held, check)
    now = np.array([view.change for view in views])
    worse = np.flatnonzero(new.change > now).tolist()
    if worse:
        Wt_old, H_old, H_more = (kernels.take(F, worse) for F in (Wt, H, H_add))
        ones = np.ones((len(worse), H.shape[1]))
        kept = [plans[i] for i in worse]
        new.put(worse, _extended(data, Wt_old, H_old, H_more, space, kept, ones, held, check))
    values = np.stack([plan.values for plan in plans])
    return Recovered(new.Wt, new.H, values, now - new.change)


class _SingularSpace:
    """The leading singular triplets of X as far as they are not rounding errors, and XV."""

    def __init__(self, data: DataMatrix, Ut: Array, Vt: Array, sigma: np.ndarray) -> None:
        self.kernels, self.rank, self.sigma = data.kernels, len(sigma), sigma
        self.Ut, self.Vt = data.place(Ut[None], "W"), data.place(Vt[None], "H")
        self.XVt = data.cross("W", self.Vt)

    @classmethod
    def of(cls, data: DataMatrix, r: int, check: Check) -> "_SingularSpace":
        """The space of up to r triplets; the singular vectors kept by X itself are freed."""
        svd = data.svd(r, check)
        svd = svd.head(svd.rank(data.shape))
        data.forget_svd()
        check()
        return cls(data, svd.Ut, svd.Vt, svd.s.astype(np.float64))

    def along_V(self, recipes: np.ndarray) -> Array:
        """Rows in the space of V."""
        return self.kernels.mix(recipes, self.Vt)


@dataclass(eq=False)
class _View:
    """The input of recovery for one start, in float64."""

    eps: float  # of the factors
    WtW: np.ndarray
    HHt: np.ndarray
    WtU: np.ndarray
    HV: np.ndarray
    WtXV: np.ndarray
    fit: np.ndarray  # ⟨w_t, X h_t⟩

    @property
    def change(self) -> float:
        """½‖X − WH‖² less ½‖X‖²."""
        return _change(self.WtW * self.HHt, self.fit, np.ones(len(self.fit)))

    def plan(self, sigma: np.ndarray, k: int, held: np.ndarray) -> "_Plan":
        """Up to ``k`` directions of the rows of X that WH lacks most, with their λ = 1/s²."""
        rank = len(sigma)
        B = self.WtU.T @ self.HV
        _, s, Qt = lapack_svd(B / sigma)
        k = min(k, rank)
        smallest = np.arange(rank)[::-1][:k]
        s_k = s[smallest]
        values = np.full(k, np.inf)
        clear = s_k > rank * self.eps * s[0]
        values[clear] = 1 / s_k[clear] ** 2
        directions = Qt[smallest] / sigma
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)  # any scale would do
        return _Plan.of(self, values, directions, held)


@dataclass(eq=False)
class _Plan:
    """The problem min ‖X − W diag(a) H − W_add H_add‖² over a ≥ 0 and W_add of any sign.

    With H_addᵀ = QR, the best W_add leaves the rows of the residual orthogonal to Q, so a solves
    min ‖(X − W diag(a) H)(I − QQᵀ)‖². Q lies in the space of V: it is V times ``q``.
    """

    values: np.ndarray
    directions: np.ndarray  # H_add is this times Vᵀ
    q: np.ndarray
    R_inverse: np.ndarray
    HQ: np.ndarray
    old_scales: np.ndarray  # the best a, with 1 for components that are held

    @classmethod
    def of(
        cls, view: _View, values: np.ndarray, directions: np.ndarray, held: np.ndarray
    ) -> "_Plan":
        q, R = qr(directions.T, mode="economic")
        HQ = view.HV @ q
        A = view.WtW * (view.HHt - HQ @ HQ.T)
        a = _nnls(A, view.fit - np.sum((view.WtXV @ q) * HQ, axis=1), held)
        return cls(values, directions, q, solve_triangular(R, np.eye(len(R))), HQ, a)

    def left(self, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The best W_addᵀ for this a, as recipes for (XV)ᵀ and Wᵀ."""
        return self.R_inverse @ self.q.T, -self.R_inverse @ (self.HQ * a[:, None]).T


def _look(
    data: DataMatrix, Wt: Array, H: Array, space: _SingularSpace, check: Check
) -> list[_View]:
    """Collect what recovery looks at, for each start."""
    k = data.kernels
    WtX = data.cross("H", Wt)
    check()
    small = (
        k.gram64(Wt), k.gram64(H), k.products(Wt, space.Ut), k.products(H, space.Vt),
        k.products(Wt, space.XVt), k.row_products(WtX, H),
    )  # fmt: skip
    eps = float(np.finfo(data.dtype).eps)
    arrays = [k.to_host(A).astype(np.float64, copy=False) for A in small]
    return [_View(eps, *of_start) for of_start in zip(*arrays, strict=True)]


@dataclass(eq=False)
class _Extended:
    """Factors with the new components, and ½‖X − WH‖² less ½‖X‖² of each start."""

    Wt: Array
    H: Array
    change: np.ndarray

    def put(self, rows: list[int], other: "_Extended") -> None:
        """Replace some starts."""
        self.Wt[rows], self.H[rows], self.change[rows] = other.Wt, other.H, other.change


def _extended(
    data: DataMatrix,
    Wt: Array,
    H: Array,
    H_add: Array,
    space: _SingularSpace,
    plans: list[_Plan],
    a: np.ndarray,
    held: np.ndarray,
    check: Check,
) -> _Extended:
    """The old components times ``a`` and the new ones, made nonnegative, each at its best scale."""
    k = data.kernels
    recipes = [plan.left(scales) for plan, scales in zip(plans, a, strict=True)]
    from_XV, from_W = (np.stack(parts) for parts in zip(*recipes, strict=True))
    Wt_add = k.mix(from_XV, space.XVt) + k.mix(from_W, Wt)
    w_scales, h_scales = pair_scales(k.part_norms(Wt_add), k.part_norms(H_add))
    Wt_new = k.joined(k.scaled(Wt, a), k.scaled_positive(Wt_add, w_scales))
    del Wt_add  # room for the scaled copy below
    H_new = k.joined(H, k.scaled_positive(H_add, h_scales))
    check()
    c, change = best_scales(data, Wt_new, H_new, held)
    return _Extended(k.scaled(Wt_new, c), H_new, change)


def best_scales(
    data: DataMatrix, Wt: Array, H: Array, held: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The c ≥ 0 that minimises ½‖X − W diag(c) H‖² of each start, and that minimum less ½‖X‖².

    The first components may be ``held``, which means that their c is 1.
    """
    k = data.kernels
    WtX = data.cross("H", Wt)
    A = k.to_host(k.gram64(Wt)) * k.to_host(k.gram64(H))
    b = k.to_host(k.row_products(WtX, H))
    held = np.pad(held, (0, b.shape[1] - len(held)))
    c = np.stack([_nnls(A_i, b_i, held) for A_i, b_i in zip(A, b, strict=True)])
    return c, np.array([_change(*parts) for parts in zip(A, b, c, strict=True)])


def _nnls(A: np.ndarray, b: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Minimise ½aᵀAa − bᵀa over a ≥ 0 for a small positive semidefinite A; held entries are 1."""
    if not held.any():
        return nnls_vector(A, b)
    a = np.ones(len(b))
    rest = b - A[:, held].sum(axis=1)
    a[~held] = nnls_vector(A[np.ix_(~held, ~held)], rest[~held])
    return a


def _change(A: np.ndarray, b: np.ndarray, c: np.ndarray) -> float:
    return float(0.5 * c @ A @ c - b @ c)
