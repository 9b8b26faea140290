"""Deterministic truncated SVD from cross products alone (block Lanczos, Golub et al. 1981).

Comes in: the two cross products of a data matrix. Goes out: its leading singular triplets, the
same every time, because the start is fixed and so are the signs.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, svd

Product = Callable[[np.ndarray, np.ndarray], np.ndarray]

_BLOCK = 8  # vectors multiplied at a time
_DEPTH = 6  # blocks added between restarts
_EXTRA = 10  # more vectors kept at a restart than asked for, so that the last converge as well
_RESTARTS = 200


@dataclass(frozen=True, eq=False)
class TruncatedSVD:
    """Singular triplets X ≈ U diag(s) Vᵀ, with the vectors as rows: ``Ut`` r × m, ``Vt`` r × n."""

    Ut: np.ndarray
    s: np.ndarray
    Vt: np.ndarray

    @classmethod
    def signed(cls, Ut: np.ndarray, s: np.ndarray, Vt: np.ndarray) -> "TruncatedSVD":
        """Fix the signs, in place: the entry of largest magnitude in each u is positive."""
        Ut, Vt = np.ascontiguousarray(Ut), np.ascontiguousarray(Vt)
        for u, v in zip(Ut, Vt, strict=True):
            if u[np.argmax(np.abs(u))] < 0:
                u *= -1
                v *= -1
        return cls(Ut, s, Vt)

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

    def times_XtX(Q: np.ndarray) -> np.ndarray:
        """Rows q ↦ rows XᵀX q, in float64."""
        XQ = HXt(Q.astype(dtype), np.empty((len(Q), m), dtype))
        return WtX(XQ, np.empty((len(Q), n), dtype)).astype(np.float64)

    Q = _leading_eigenvectors(times_XtX, n, r, float(np.finfo(dtype).eps) ** (2 / 3))
    XQ = HXt(Q.astype(dtype), np.empty((r, m), dtype)).astype(np.float64, copy=False)
    # The SVD of XQ mends what squaring X has cost: σ and U.
    U, s, Yt = svd(XQ.T, full_matrices=False, overwrite_a=True, check_finite=False)
    return TruncatedSVD.signed(
        U.T.astype(dtype, copy=False), s.astype(dtype), (Yt @ Q).astype(dtype)
    )


def _leading_eigenvectors(
    operator: Callable[[np.ndarray], np.ndarray], n: int, r: int, tolerance: float
) -> np.ndarray:
    """Orthonormal rows that span the leading ``r`` eigenvectors of a symmetric operator A.

    Thick-restart block Lanczos: blocks are added until the basis is full; then the leading Ritz
    vectors, and what A has of them outside their span, begin the next basis.
    """
    keep = min(n, r + _EXTRA)
    full = min(n, keep + _DEPTH * _BLOCK)
    basis, products = np.empty((full, n)), np.empty((full, n))
    outside = np.random.default_rng(0).standard_normal((min(_BLOCK, n), n))
    size = 0
    for _ in range(_RESTARTS):
        while size < full:
            new = _orthonormal_complement(outside, basis[:size], full - size)
            outside = operator(new)
            basis[size : size + len(new)], products[size : size + len(new)] = new, outside
            size += len(new)
        T = basis @ products.T
        theta, Y = eigh((T + T.T) / 2)
        theta, Y = theta[::-1][:keep], Y[:, ::-1][:, :keep]
        basis[:keep] = Y.T @ basis
        products[:keep] = Y.T @ products
        size = keep
        outside = products[:keep] - theta[:, None] * basis[:keep]
        error = np.linalg.norm(outside[:r], axis=1).max()
        if full == n or error <= tolerance * max(theta[0], 0.0):
            return basis[:r].copy()
    warnings.warn(
        f"the truncated SVD of X was off by {error / theta[0]:.1e} after {_RESTARTS} restarts",
        RuntimeWarning,
        stacklevel=3,
    )
    return basis[:r].copy()


def _orthonormal_complement(A: np.ndarray, basis: np.ndarray, room: int) -> np.ndarray:
    """A block, or ``room``, of orthonormal rows from the span of A, orthogonal to the basis.

    By eigenvectors of small Grams, again and again: all of it in matrix products. Where A has too
    few independent rows, others take their place.
    """
    rows = min(_BLOCK, len(A), room)
    for _ in range(4):  # twice is enough, unless A was rank deficient
        A = A - (A @ basis.T) @ basis
        theta, Y = eigh(A @ A.T)
        theta, Y = theta[-rows:], Y[:, -rows:]
        clear = theta > 1e-24 * theta[-1]
        A = (Y / np.sqrt(np.where(clear, theta, 1))).T @ A
        if not clear.all():
            rng = np.random.default_rng(len(basis))
            A[~clear] = rng.standard_normal((np.count_nonzero(~clear), A.shape[1]))
    return A
