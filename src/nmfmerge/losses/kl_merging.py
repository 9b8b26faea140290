r"""Optimal pairwise merge under the Kullback–Leibler divergence.

With columns of W of unit sum, N_p the sum of h_p, N = N_p + N_q and π = N_p/N, the product of the
marginals is the best single component: ``w_m = π w_p + (1 − π) w_q``, ``h_m = h_p + h_q``. It keeps
the mass, and costs

.. math:: D(w_p h_p + w_q h_q \| w_m h_m) = N \, I,

I the mutual information of row and column in the pair. With the posteriors
``a_i = π w_p(i)/w_m(i)``, ``b_j = N_p h̄_p(j)/h_m(j)`` and
``z = ab/π + (1 − a)(1 − b)/(1 − π)``, I is the mean of z log z over ``w_m(i) h̄_m(j)``, for which
histograms of a and b suffice.

Pairs of little N·I are not always those whose merge leaves the best fit, so with X at hand the few
cheapest are compared by the exact rise of D(X‖WH).
"""

from collections.abc import Callable

import numpy as np

from nmfmerge.backends.numba.kl_information import pair_informations
from nmfmerge.losses.greedy import Components

SHORTLIST = 8  # pairs of least N·I whose exact rise is computed

Rises = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]


class MassComponents(Components):
    """Components by their vectors of unit sum and their masses; the penalty of a pair is N·I.

    The size of a component is its mass. The column of W of a merged one sums to the geometric mean
    of its parents' sums.

    Parameters
    ----------
    Wt, H : arrays (r, m) and (r, n)
        Component-major factors; not changed.
    held : bool array (r,), optional
        Components that are never merged.
    rises : callable, optional
        ``rises(Wt, H, w_steps, h_steps)``: by how much D(X‖WH) rises when WH changes by
        −w_step h_step, for several, at the factors given. Without it, pairs are merged by their
        penalty alone.
    """

    def __init__(
        self,
        Wt: np.ndarray,
        H: np.ndarray,
        held: np.ndarray | None = None,
        rises: Rises | None = None,
    ) -> None:
        Wt, H = Wt.astype(np.float64), H.astype(np.float64)
        w_sums, h_sums = Wt.sum(axis=1), H.sum(axis=1)
        inverse = _inverse(w_sums)
        self.w = Wt * inverse[:, None]
        self.h = H * _inverse(h_sums)[:, None]
        self.mass = w_sums * h_sums
        self.rises, self.shortlist = rises, 1 if rises is None else SHORTLIST
        super().__init__(np.diag(inverse), np.diag(w_sums), w_sums, held)

    def sizes(self) -> np.ndarray:
        """The mass in each slot."""
        return self.mass

    def penalties(self, p: np.ndarray, q: np.ndarray) -> np.ndarray:
        """N·I of pairs of slots."""
        information = pair_informations(self.w, self.h, self.mass, p, q)
        return np.asarray((self.mass[p] + self.mass[q]) * information)

    def best_of(self, p: np.ndarray, q: np.ndarray) -> int:
        """The pair of least exact rise."""
        if self.rises is None:
            return 0
        size = self.mass[p] * self.mass[q] * _inverse(self.mass[p] + self.mass[q])
        w_steps = size[:, None] * (self.w[p] - self.w[q])
        Wt, H = self.w[self.alive], self.mass[self.alive, None] * self.h[self.alive]
        return int(np.argmin(self.rises(Wt, H, w_steps, self.h[p] - self.h[q])))

    def combine_(self, p: int, q: int) -> None:
        """Put the sum of the masses of p and q in slot p, with the mean of their vectors."""
        mass = self.mass[p] + self.mass[q]
        share = self.mass[p] / mass if mass > 0 else 1.0
        for rows in (self.w, self.h, self.A):  # h̄ is a mean with the same weights
            rows[p] = share * rows[p] + (1 - share) * rows[q]
        self.B[p] += self.B[q]
        self.mass[p] = mass
        sums = self.w_size[p], self.w_size[q]
        self.w_size[p] = np.sqrt(sums[0]) * np.sqrt(sums[1]) or max(sums) or 1.0


def _inverse(values: np.ndarray) -> np.ndarray:
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)
