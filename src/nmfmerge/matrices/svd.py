"""Deterministic truncated SVD from cross products alone (block Golub-Kahan, thick restarts).

Input: the two cross products of a data matrix. Output: its leading singular triplets, the
same every time, because the start is fixed and so are the signs. X itself is never squared, so
small singular values keep their digits (Baglama & Reichel 2005 describe the kin of this method).
Where X is too long for the left vectors, the same subspaces grow by products with XᵀX, each of
which is one pass over X.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import qr

Product = Callable[[np.ndarray, np.ndarray], np.ndarray]
Check = Callable[[], object]

# Residual of a triplet, relative to its singular value. The vectors only start a factorization and
# steer recovery: `python -m benchmarks svd tolerance` shows that ten times more changes no fit.
TOLERANCE = 1e-2

_EXTRA = 8  # more triplets kept than asked for, so that the last converge as well
_BLOCK = 12  # vectors multiplied at a time, or a quarter of those kept if these are more
_DEPTH = 3  # blocks added between restarts
_MOST_AT_ONCE = 28  # vectors in a product: bounds the memory of its result
_COLUMNS = 1024  # changed at a time where rows are changed in place
_RESTARTS = 1000
_BLOCKS_KEPT = 8  # of products with XᵀX, which are few: little is thrown away
_MOST_PASSES = 40
_NOISE = 1e-6  # of products with XᵀX, relative to its largest eigenvalue


@dataclass(frozen=True, eq=False)
class TruncatedSVD:
    """Singular triplets X ≈ U diag(s) Vᵀ, with the vectors as rows: ``Ut`` r × m, ``Vt`` r × n."""

    Ut: Any  # arrays, or where X is in chunks one of them in shards
    s: np.ndarray
    Vt: Any

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


def truncated_svd(
    HXt: Product,
    WtX: Product,
    shape: tuple[int, int],
    dtype: np.dtype,
    r: int,
    *,
    tolerance: float = TOLERANCE,
    check: Check | None = None,
) -> TruncatedSVD:
    """Leading ``r`` singular triplets of X.

    Parameters
    ----------
    HXt, WtX : callable
        The cross products ``(H, out)`` and ``(Wt, out)`` of the data matrix.
    shape : tuple (m, n)
        Shape of X.
    dtype : dtype
        Kind of numbers in X; vectors come back in it.
    r : int
        How many triplets, at most min(m, n). Beyond the rank of X the singular values are zero,
        or rounding errors, and the vectors are orthonormal all the same.
    tolerance : float
        Stop when ‖Xv − σu‖ and ‖Xᵀu − σv‖ are at most ``tolerance`` · σ for every triplet, or as
        small as rounding lets them be.
    check : callable, optional
        Called without arguments before every product; it raises to stop.
    """
    m, n = shape
    if n > m:  # work on Xᵀ: the products change places
        flipped = truncated_svd(WtX, HXt, (n, m), dtype, r, tolerance=tolerance, check=check)
        return TruncatedSVD.signed(flipped.Vt, flipped.s, flipped.Ut)
    spaces = _Subspaces(HXt, WtX, shape, dtype, r, check)
    excess = spaces.converge(r, tolerance, _RESTARTS)
    if excess > 1:
        warnings.warn(
            f"the truncated SVD of X was off by {excess:.1e} times what it may be after "
            f"{_RESTARTS} restarts",
            RuntimeWarning,
            stacklevel=3,
        )
    return spaces.leading(r)


def right_singular_vectors(
    XtX: Callable[[np.ndarray], np.ndarray],
    n: int,
    dtype: np.dtype,
    r: int,
    *,
    tolerance: float = TOLERANCE,
    check: Check | None = None,
) -> np.ndarray:
    """Leading ``r`` right singular vectors of X, as float64 rows, in few passes over X.

    Parameters
    ----------
    XtX : callable
        XᵀX times vectors, which are rows.
    n : int
        Length of these vectors.
    dtype : dtype
        Precision of X.
    r, tolerance, check
        As in `truncated_svd`. Singular values below the rounding of XᵀX do not count.
    """
    spaces = _GramSubspaces(XtX, n, dtype, r, check)
    spaces.converge(r, tolerance, _MOST_PASSES)
    return spaces.leading_right(r)


class _Subspaces:
    """Orthonormal rows V (of length n) and U (of length m ≥ n) with X Vᵀ = (T U)ᵀ, T small.

    V begins with random rows, as many as are kept at a restart: more than are asked for, so that no
    singular value is missed, however often it is repeated. Then V grows by what XᵀU has outside it.
    The SVD of T gives the triplets; ``XtU`` holds XᵀU, which tells how good they are.
    """

    def __init__(
        self,
        HXt: Product,
        WtX: Product,
        shape: tuple[int, int],
        dtype: np.dtype,
        r: int,
        check: Check | None,
    ) -> None:
        m, n = shape
        self.HXt, self.WtX = HXt, WtX
        kept = min(n, r + _EXTRA)
        block = max(_BLOCK, kept // 4)
        self._allocate(m, n, dtype, kept, kept, block, _DEPTH, check)
        self.noise = float(np.sqrt(m) * np.finfo(dtype).eps)  # of a product, relative to `size`

    def _allocate(
        self,
        m: int,
        n: int,
        dtype: np.dtype,
        first: int,
        kept: int,
        block: int,
        depth: int,
        check: Check | None,
    ) -> None:
        self.first, self.kept, self.block = first, kept, block
        self.at_once = max(block, _MOST_AT_ONCE)  # rows in a product
        self.check = check or (lambda: None)
        most = kept + depth * block
        self.complete = most >= n  # then V spans everything, and one SVD of T is exact
        if self.complete:
            self.kept = most = n
        self.V, self.XtU = np.empty((most, n), dtype), np.empty((most, n), dtype)
        self.U, self.T = np.empty((most, m), dtype), np.zeros((most, most))
        self.n_V = self.n_U = 0  # rows in use
        self.n_new = 0  # rows of V, after those in use, that X has not been multiplied with
        self.s = np.zeros(0)
        self.size = 0.0  # the largest ‖Xv‖ so far

    def converge(self, r: int, tolerance: float, rounds: int) -> float:
        """Multiply until the first ``r`` triplets are found; return their excess, at most 1 then.

        The excess is the largest residual, relative to what it may be.
        """
        self.begin()
        for left in range(rounds)[::-1]:
            residuals = self.restart()[:r]
            allowed = self.allowed(tolerance)[:r]
            if np.all(residuals <= allowed) or self.n_new == 0:
                return 1.0
            if left > 0:
                self.fill()
        return float(np.max(residuals / allowed))

    def allowed(self, tolerance: float) -> np.ndarray:
        """The residual that each triplet may have."""
        return np.maximum(tolerance * self.s, self.noise * self.size)

    def begin(self) -> None:
        """Fill V with its first rows, and multiply them."""
        n = self.V.shape[1]
        if self.complete:
            self.add(np.eye(n, dtype=self.V.dtype))
        else:
            rng = np.random.default_rng(0)
            self.add(rng.standard_normal((self.first, n)).astype(self.V.dtype))
        self.multiply()

    def add(self, rows: np.ndarray) -> None:
        """Extend V so that it spans these rows too; they are overwritten."""
        self.n_new = _extend(self.V, self.n_V, rows, self.noise * self.size)[2]

    def fill(self) -> None:
        """Extend V and U in turn until V is full or nothing new is found."""
        while self.n_new > 0:
            XtU = self.multiply()
            if 0 < len(XtU) <= len(self.V) - self.n_V:
                self.add(XtU.copy())

    def multiply(self) -> np.ndarray:
        """Multiply X with the new rows of V; return Xᵀ times the rows that U grows by."""
        first = self.n_U
        while self.n_new > 0:
            self._multiply(min(self.n_new, self.at_once))
        return self.XtU[first : self.n_U]

    def _multiply(self, count: int) -> None:
        self.check()
        n_V = self.n_V + count
        XV = self.HXt(self.V[self.n_V : n_V], np.empty((count, self.U.shape[1]), self.U.dtype))
        self.size = max(self.size, float(_norms(XV).max()))
        C, R, n_more = _extend(self.U, self.n_U, XV, self.noise * self.size)
        n_U = self.n_U + n_more
        self.T[self.n_V : n_V, : self.n_U], self.T[self.n_V : n_V, self.n_U : n_U] = C, R
        if n_more > 0:
            self.check()
            self.WtX(self.U[self.n_U : n_U], self.XtU[self.n_U : n_U])
        self.n_V, self.n_U, self.n_new = n_V, n_U, self.n_new - count

    def restart(self) -> np.ndarray:
        """Keep the leading triplets only; return the residual ‖Xᵀu − σv‖ of each.

        The directions that are strongest in Xᵀu − σv become the next new rows of V.
        """
        Y, s, Pt = np.linalg.svd(self.T[: self.n_V, : self.n_U], full_matrices=False)
        kept = min(self.kept, len(s))
        Yt, Pt = Y.T[:kept].astype(self.V.dtype), Pt[:kept].astype(self.V.dtype)
        for A, basis in ((Yt, self.V), (Pt, self.U), (Pt, self.XtU)):
            _mix_(A, basis)
        self.s = s[:kept]
        self.T[:] = 0
        np.fill_diagonal(self.T[:kept, :kept], self.s)
        self.n_V = self.n_U = kept
        outside = self.XtU[:kept] - self.s[:, None].astype(self.V.dtype) * self.V[:kept]
        if not self.complete:
            directions = np.linalg.eigh(outside @ outside.T)[1][:, ::-1][:, : self.block]
            self.add(directions.T @ outside)
        return _norms(outside)

    def _fill_up(self, r: int, *bases: np.ndarray) -> None:
        """Add random rows where fewer than ``r`` triplets were found."""
        lacking = r - len(self.s)
        if lacking > 0:
            rng = np.random.default_rng(1)
            for basis in bases:
                rows = rng.standard_normal((lacking, basis.shape[1])).astype(basis.dtype)
                _extend(basis, len(self.s), rows, 0.0)

    def leading(self, r: int) -> TruncatedSVD:
        """The first ``r`` triplets; where X has fewer, any orthonormal vectors with σ = 0."""
        s = np.zeros(r, self.V.dtype)
        s[: len(self.s)] = self.s[:r]
        self._fill_up(r, self.V, self.U)
        del self.XtU  # copies of the rest are made one by one, too, to save memory
        Vt = self.V[:r].copy()
        del self.V
        return TruncatedSVD.signed(self.U[:r].copy(), s, Vt)


class _GramSubspaces(_Subspaces):
    """The same from products with XᵀX, in float64, without the rows of U.

    V begins with few rows, and nearly all that it grows by is kept. As Uᵀ(XV) = (XᵀU)ᵀV, all that
    is needed of U is XᵀU: the part of XV outside U has the Gram VᵀXᵀXV less the square of that.
    """

    def __init__(
        self,
        XtX: Callable[[np.ndarray], np.ndarray],
        n: int,
        dtype: np.dtype,
        r: int,
        check: Check | None,
    ) -> None:
        self.XtX = XtX
        block = min(n, r + _EXTRA)
        kept = min(n, _BLOCKS_KEPT * block)
        self._allocate(0, n, np.dtype(float), block, kept, block, 1, check)
        self.complete = False  # all of V at once would be one large product
        self.noise = float(np.sqrt(np.finfo(dtype).eps))  # of a square root

    def allowed(self, tolerance: float) -> np.ndarray:
        """The residuals, which come from XᵀX, are of its precision."""
        noise = _NOISE * self.size**2 / np.where(self.s > 0, self.s, 1)
        return np.maximum(tolerance * self.s, noise)

    def fill(self) -> None:
        """Multiply the new rows of V: one pass."""
        self.multiply()

    def leading_right(self, r: int) -> np.ndarray:
        """The first ``r`` rows of V."""
        self._fill_up(r, self.V)
        return self.V[:r].copy()

    def _multiply(self, count: int) -> None:
        self.check()
        n_V = self.n_V + count
        V, XtU = self.V[self.n_V : n_V], self.XtU[: self.n_U]
        product = self.XtX(V).astype(np.float64, copy=False)
        squares = V @ product.T
        self.size = max(self.size, float(np.sqrt(max(0.0, np.diag(squares).max()))))
        C = V @ XtU.T
        outside = squares - C @ C.T
        values, Q = np.linalg.eigh((outside + outside.T) / 2)
        found = values > (self.noise * self.size) ** 2
        lengths, Q = np.sqrt(values[found]), Q[:, found]
        n_U = self.n_U + len(lengths)
        self.T[self.n_V : n_V, : self.n_U] = C
        self.T[self.n_V : n_V, self.n_U : n_U] = Q * lengths
        self.XtU[self.n_U : n_U] = (Q / lengths).T @ (product - C @ XtU)
        self.n_V, self.n_U, self.n_new = n_V, n_U, self.n_new - count


def _extend(
    basis: np.ndarray, size: int, A: np.ndarray, floor: float
) -> tuple[np.ndarray, np.ndarray, int]:
    """Append orthonormal rows Q to the ``size`` rows B of ``basis``, so that both span the rows A.

    Returns C, R and the number of rows in Q, with A = C B + R Q. What is below ``floor`` gets no
    row in Q. A is used as scratch.
    """
    B = basis[:size]
    C, R = np.zeros((len(A), size)), np.eye(len(A))
    # The first pass gives unit rows. Those that are short after the second are rounding errors.
    for least in (floor, 0.5):
        D = A @ B.T
        for part in _column_parts(A):
            A[:, part] -= D @ B[:, part]
        Q, S, order = qr(A.T, mode="economic", pivoting=True, overwrite_a=True, check_finite=False)
        count = int(np.count_nonzero(np.abs(np.diag(S)) > least))
        C += R @ D
        R = R @ S[:count, np.argsort(order)].T
        A = Q.T[:count]
    basis[size : size + count] = A
    return C, R, count


def _norms(rows: np.ndarray) -> np.ndarray:
    """Euclidean norms of rows, without a copy of their squares."""
    return np.sqrt(np.einsum("ij,ij->i", rows, rows))


def _mix_(A: np.ndarray, rows: np.ndarray) -> None:
    """Replace the first len(A) rows by A times the first A.shape[1] rows."""
    for part in _column_parts(rows):
        rows[: len(A), part] = A @ rows[: A.shape[1], part]


def _column_parts(rows: np.ndarray) -> Iterator[slice]:
    """Yield a few columns at a time, so that temporary arrays are small."""
    for start in range(0, rows.shape[1], _COLUMNS):
        yield slice(start, start + _COLUMNS)
