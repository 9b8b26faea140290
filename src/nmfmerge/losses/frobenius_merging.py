"""Optimal pairwise merge of components, on Grams alone (the paper's section on pairwise merge).

Only the r × r Grams WᵀW and HHᵀ are looked at: the Gram rows of a merged component are linear
combinations of its parents' rows, and the merged factors are one product at the end. `Leaves` are
factors of any size.
"""

from math import sqrt
from typing import Any

import numpy as np

from nmfmerge.backends.numba import gram64
from nmfmerge.losses.greedy import Components

_LARGEST_EXPONENT = 100  # of two, of a factor that needs no scaling


def pair_penalty(c: np.ndarray, a: np.ndarray, d: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Penalty of merging pairs, eq. (minimum_P), without cancellation.

    Parameters
    ----------
    c, g : arrays
        w_pᵀw_q for unit columns of W, and h_pᵀh_q.
    a, d : arrays
        ‖h_p‖² and ‖h_q‖².

    Returns
    -------
    penalty : array
        λ_min of eq. (eigen_values), the second squared singular value of the pair.
    """
    b = np.sqrt(((a - d) / 2) ** 2 + (g + c * a) * (g + c * d))
    lam_max = (a + d) / 2 + c * g + b
    delta = (1 - c * c) * (a * d - g * g)
    safe = np.where(lam_max > 0, lam_max, 1)
    return np.maximum(np.where(lam_max > 0, delta / safe, 0), 0)


def merge_weights(
    c: np.ndarray, a: np.ndarray, d: np.ndarray, g: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (α, β) of the merged column ``α w_p + β w_q``, eq. (u_vec), always finite.

    Numbers, or arrays of pairs. The paper's ξ divides by zero for a pair disjoint in both factors;
    this form does not.
    """
    b = np.sqrt(((a - d) / 2) ** 2 + (g + c * a) * (g + c * d))
    first = np.greater_equal(a, d)
    alpha = np.where(first, a - d + 2 * b, 2 * (g + c * a))
    beta = np.where(first, 2 * (g + c * d), d - a + 2 * b)
    size = np.maximum(alpha, beta)
    alpha, beta = np.where(size > 0, alpha, 1), np.where(size > 0, beta, 0)
    size = np.where(size > 0, size, 1)
    alpha, beta = alpha / size, beta / size  # squares of tiny numbers would vanish
    norm = np.sqrt(alpha * alpha + 2 * c * alpha * beta + beta * beta)
    return alpha / norm, beta / norm


class GramComponents(Components):
    """Components by their Grams; the penalty of a pair is the squared distance that WH moves by.

    ``C`` is the Gram of W with unit columns, ``D`` that of H with the scale, in ``unit``s of
    ``4**exponent``. The size of a component is the squared norm of its row of H for unit columns
    of W.

    Parameters
    ----------
    WtW, HHt : float64 arrays (r, r)
        Grams of the factors, whose rows may have been divided by powers of two.
    held : bool array (r,), optional
        Components that are never merged.
    w_exponent, h_exponent : int arrays (r,), optional
        These powers, which are even.
    """

    def __init__(
        self,
        WtW: np.ndarray,
        HHt: np.ndarray,
        held: np.ndarray | None = None,
        w_exponent: np.ndarray | None = None,
        h_exponent: np.ndarray | None = None,
    ) -> None:
        none = np.zeros(len(WtW), dtype=np.int64)
        self.w_exponent = none if w_exponent is None else w_exponent.copy()
        h_exponent = none if h_exponent is None else h_exponent
        norm = np.sqrt(np.diag(WtW))
        inverse = np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > 0)
        power = self.w_exponent + h_exponent
        present = (norm > 0) & (np.diag(HHt) > 0)
        self.exponent = int(power[present].max()) if present.any() else 0
        scaled = np.ldexp(norm, np.where(present, power - self.exponent, 0))
        self.C = WtW * inverse[:, None] * inverse
        self.D = HHt * scaled[:, None] * scaled
        self.unit = float(np.diag(self.D).max()) or 1.0  # products of squares keep their range
        self.D /= self.unit
        super().__init__(np.diag(inverse), np.diag(scaled), norm, held)

    def sizes(self) -> np.ndarray:
        """‖h‖² of each slot, in units."""
        return np.diag(self.D)

    def penalties(self, p: np.ndarray, q: np.ndarray) -> np.ndarray:
        """Penalties of pairs of slots, in units."""
        h2 = np.diag(self.D)
        return pair_penalty(self.C[p, q], h2[p], h2[q], self.D[p, q])

    def in_full(self, value: Any) -> Any:
        """Squares in the scale of W and H; infinite or zero where that leaves the range."""
        with np.errstate(over="ignore", under="ignore"):
            return np.ldexp(self.unit * value, 2 * self.exponent)

    def combine_(self, p: int, q: int) -> None:
        """Put the merged component in slot p, eqs. (linear_merge_model) and (optimal_h_m).

        Its norm in W is the geometric mean of its parents'.
        """
        c, g = self.C[p, q], self.D[p, q]
        alpha, beta = map(float, merge_weights(c, self.D[p, p], self.D[q, q], g))
        _combine_(self.C, p, q, alpha, beta)
        _combine_(self.D, p, q, alpha + beta * c, alpha * c + beta)
        self.A[p] = alpha * self.A[p] + beta * self.A[q]
        self.B[p] = (alpha + beta * c) * self.B[p] + (alpha * c + beta) * self.B[q]
        self._join_norms(p, q)

    def _join_norms(self, p: int, q: int) -> None:
        """Give slot p the geometric mean of the norms of p and q; where one is zero, the other."""
        x, y = self.w_size[p], self.w_size[q]
        if x == 0 or y == 0:
            largest = p if x >= y else q
            self.w_size[p] = self.w_size[largest] or 1.0
            self.w_exponent[p] = self.w_exponent[largest]
            return
        self.w_size[p] = sqrt(x) * sqrt(y)
        exponent = int(self.w_exponent[p] + self.w_exponent[q]) // 2  # both are even
        odd = exponent % 2
        self.w_size[p] *= 2**odd
        self.w_exponent[p] = exponent - odd


class Leaves:
    """Factors of any size before merging; rows whose squares would leave the range are scaled."""

    def __init__(self, Wt: np.ndarray, H: np.ndarray) -> None:
        self.whole = Wt, H
        self.Wt, self.w_exponent = _rows_in_range(Wt)
        self.H, self.h_exponent = _rows_in_range(H)

    def components(self, held: np.ndarray | None = None) -> GramComponents:
        """The components before the first merge."""
        grams = gram64(self.Wt), gram64(self.H)
        return GramComponents(*grams, held, self.w_exponent, self.h_exponent)

    def merged(self, components: GramComponents) -> tuple[np.ndarray, np.ndarray]:
        """Component-major factors after the merges: leaves first, then merged."""
        leaves, merged = components.slots()
        norm, exponent = components.w_size[merged, None], components.w_exponent[merged, None]

        def gather(
            whole: np.ndarray, F: np.ndarray, weights: np.ndarray, exponents: np.ndarray
        ) -> np.ndarray:
            out = np.empty((len(leaves) + len(merged), F.shape[1]), F.dtype)
            np.take(whole, leaves, axis=0, out=out[: len(leaves)], mode="clip")  # unbuffered
            for target, row in zip(out[len(leaves) :], weights, strict=True):
                own = np.flatnonzero(row)  # few: only the leaves of this component
                np.dot(row[own].astype(F.dtype), F[own], out=target)
            if exponents.any():
                np.ldexp(out[len(leaves) :], exponents, out=out[len(leaves) :])
            return out

        A, B = components.A[merged] * norm, components.B[merged] / norm
        return (
            gather(self.whole[0], self.Wt, A, exponent),
            gather(self.whole[1], self.H, B, components.exponent - exponent),
        )


def _rows_in_range(F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """F with rows whose squares keep their range, and the power of two each was divided by.

    The powers are even, and zero where F needs no scaling: always, for float32.
    """
    largest = F.max(axis=1, initial=0).astype(np.float64)
    exponents = np.frexp(largest)[1].astype(np.int64)
    if F.dtype == np.float32 or np.abs(exponents).max(initial=0) <= _LARGEST_EXPONENT:
        return F, np.zeros_like(exponents)
    exponents += exponents % 2
    return np.ldexp(F, -exponents[:, None]), exponents


def _combine_(G: np.ndarray, p: int, q: int, x: float, y: float) -> None:
    """Replace vector p by x·p + y·q in the Gram G."""
    own = x * x * G[p, p] + 2 * x * y * G[p, q] + y * y * G[q, q]
    G[p] = x * G[p] + y * G[q]
    G[:, p] = G[p]
    G[p, p] = own
