"""Deterministic truncated SVD from cross products alone (block Lanczos, Golub et al. 1981).

Comes in: the two cross products of a data matrix. Goes out: its leading singular triplets, the
same every time, because the start is fixed and so are the signs.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, qr, svd

Product = Callable[[np.ndarray, np.ndarray], np.ndarray]

_BLOCKS = 4  # Krylov blocks before a restart
_RESTARTS = 100
_EXTRA = 10  # more vectors than asked for, so that the last ones converge as well


@dataclass(frozen=True, eq=False)
class TruncatedSVD:
    """Singular triplets X ≈ U diag(s) Vᵀ, with the vectors as rows: ``Ut`` r × m, ``Vt`` r × n."""

    Ut: np.ndarray
    s: np.ndarray
    Vt: np.ndarray

    @classmethod
    def signed(cls, Ut: np.ndarray, s: np.ndarray, Vt: np.ndarray) -> "TruncatedSVD":
        """Fix the signs: the entry of largest magnitude in each u is positive."""
        largest = np.argmax(np.abs(Ut), axis=1)
        sign = np.where(Ut[np.arange(len(Ut)), largest] < 0, -1, 1).astype(Ut.dtype)[:, None]
        return cls(np.ascontiguousarray(Ut * sign), s, np.ascontiguousarray(Vt * sign))

    def head(self, r: int) -> "TruncatedSVD":
        """The first ``r`` triplets."""
        return TruncatedSVD(self.Ut[:r], self.s[:r], self.Vt[:r])

    def rank(self, shape: tuple[int, int]) -> int:
        """Numerical rank among these triplets, for an X of this shape."""
        if len(self.s) == 0 or self.s[0] == 0:
            return 0
        noise = 10 * np.sqrt(max(shape)) * np.finfo(self.s.dtype).eps * self.s[0]
        return int(np.count_nonzero(self.s > noise))


def block_lanczos_svd(
    HXt: Product, WtX: Product, shape: tuple[int, int], dtype: np.dtype, r: int
) -> TruncatedSVD:
    """Leading ``r`` singular triplets of X by block Lanczos on the smaller of XᵀX and XXᵀ.

    Parameters
    ----------
    HXt, WtX : callable
        The cross products ``(H, out)`` and ``(Wt, out)`` of the data matrix.
    shape : tuple (m, n)
        Shape of X.
    dtype : dtype
        Kind of numbers in X; vectors come back in it.
    r : int
        How many triplets; fewer than min(m, n).
    """
    m, n = shape
    if n > m:  # work on Xᵀ: the products change places
        flipped = block_lanczos_svd(WtX, HXt, (n, m), dtype, r)
        return TruncatedSVD.signed(flipped.Vt, flipped.s, flipped.Ut)
    b = min(n, r + _EXTRA)
    tolerance = np.finfo(dtype).eps ** 0.75
    large = np.empty((b, m), dtype)
    small = np.empty((b, n), dtype)

    def times_XtX(Q: np.ndarray) -> np.ndarray:
        """Rows q ↦ rows XᵀX q, in float64."""
        k = len(Q)
        return WtX(HXt(Q.astype(dtype), large[:k]), small[:k]).astype(np.float64)

    Q = _orthonormal_rows(np.random.default_rng(0).standard_normal((b, n)))
    AQ = times_XtX(Q)
    converged = False
    for _ in range(_RESTARTS):
        basis, products = _krylov(times_XtX, Q, AQ)
        T = basis @ products.T
        theta, Y = eigh((T + T.T) / 2)
        theta, Y = theta[::-1][:b], Y[:, ::-1][:, :b]
        Q, AQ = Y.T @ basis, Y.T @ products
        error = np.linalg.norm(AQ[:r] - theta[:r, None] * Q[:r], axis=1).max()
        converged = error <= tolerance * max(theta[0], 0.0)
        if converged:
            break
    if not converged:
        warnings.warn(
            f"the truncated SVD of X was off by {error / theta[0]:.1e} after {_RESTARTS} restarts",
            RuntimeWarning,
            stacklevel=2,
        )
    XQ = HXt(Q.astype(dtype), large).astype(np.float64)  # rows X q: SVD of it mends σ and U
    U, s, Yt = svd(XQ.T, full_matrices=False)
    return TruncatedSVD.signed(
        U[:, :r].T.astype(dtype), s[:r].astype(dtype), (Yt[:r] @ Q).astype(dtype)
    )


def _krylov(
    operator: Callable[[np.ndarray], np.ndarray], Q: np.ndarray, AQ: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Orthonormal rows spanning Q, AQ, …, or the whole space, and their products with A."""
    b, n = Q.shape
    basis, products = Q, AQ
    while len(basis) < min(_BLOCKS * b, n):
        new = products[-b:]
        for _ in range(3):  # twice is enough, unless the block was rank deficient
            new = _orthonormal_rows(new - (new @ basis.T) @ basis)
        new = new[: n - len(basis)]
        basis = np.concatenate([basis, new])
        products = np.concatenate([products, operator(new)])
    return basis, products


def _orthonormal_rows(A: np.ndarray) -> np.ndarray:
    """Orthonormal rows that span those of A, the most independent first."""
    return qr(A.T, mode="economic", pivoting=True)[0].T
