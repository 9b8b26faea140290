r"""The divergence where entries have weights, for missing values and counts of unequal certainty.

.. math:: \sum_{ij} m_{ij} \Bigl( x \log\frac{x}{y} - x + y \Bigr), \qquad y = (WH)_{ij}

Up to a constant it is Σ m y − m x log y: the divergence of m x in which the sums of a factor are
Σ m f, and differ from line to line. No majorizer is needed.
"""

from functools import cached_property
from typing import Any
from weakref import proxy

import numpy as np

from nmfmerge.losses.kl_divergence import Divergence
from nmfmerge.matrices import Array, Side


class WeightedDivergence(Divergence):
    """The weighted divergence of a matrix with weights: that of M∘X, with the sums of M."""

    def __init__(self, data: Any) -> None:
        super().__init__(data.product)
        self.weights = data.weights
        self.matrix: Any = proxy(data)  # which keeps this

    def sums(self, side: Side, fixed: np.ndarray) -> np.ndarray:
        """Σ m f of each line of a side (r × p)."""
        return np.asarray(self.weights.cross(side, fixed[None])[0], dtype=np.float64)

    def for_passes(self, r: int) -> None:
        """Sums differ from line to line, so passes are single operations."""

    def sweep_(
        self, side: Side, F: Array, fixed: Array, **options: Any
    ) -> tuple[Array, Array, Array]:
        """Update one side by coordinate descent; see `kl_sweep_`."""
        return super().sweep_(side, F, fixed, sums=self.weights.sums(side, fixed), **options)

    def mu_step_(self, side: Side, F: Array, fixed: Array, **options: Any) -> tuple[Array, Array]:
        """Update one side by multiplication; see `kl_mu_step_`."""
        return super().mu_step_(side, F, fixed, sums=self.weights.sums(side, fixed), **options)

    def observed_sizes(self, Wt: Array, H: Array) -> Array:
        """Σ m w_k h_k of each component (n_starts × r)."""
        return self.kernels.row_products(Wt, self.weights.cross("W", H))

    @cached_property
    def x_log_x(self) -> float:
        """Σ m x log x."""
        from scipy.special import xlogy

        host = self.matrix.on_host()
        none = np.zeros((1, self.shape[0])), np.zeros((1, self.shape[1]))
        return float(host.weighted_sum(lambda x, y, _: xlogy(x, x), 0.0, *none))

    @cached_property
    def size(self) -> float:
        """The divergence that is 100 %: that from the rank 1 with the margins of what is there."""
        from scipy.special import xlogy

        w, h = (F[0].astype(np.float64) for F in self.matrix.margins())
        rows, columns = self.margins
        fitted = float(np.vdot(w, self.sums("W", h.astype(self.dtype)[None])[0]))
        by_margins = float((_log(w) * rows).sum() + (_log(h) * columns).sum())
        noise = 16 * np.finfo(self.dtype).eps * abs(float(xlogy(self.total, self.total)))
        size = self.x_log_x - self.total - by_margins + fitted
        return size if size > noise else 0.0

    def exact_values(self, Wt: Array, H: Array) -> np.ndarray:
        """The loss of each start, summed in parts that do not cancel."""
        everywhere = self.masses(Wt, H).sum(axis=1)
        starts = zip(everywhere.tolist(), Wt, H, strict=True)
        return np.array([self.matrix.weighted_sum(self._terms, *start) for start in starts])

    def _terms(self, x: Array, y: Array, xp: Any) -> Array:
        """The divergence of each entry, x log(x/y) − x + y."""
        safe = xp.where(x > 0, x, 1)
        more = xp.where(x > 0, y / safe - 1, 0)
        far = x * xp.log(safe / y.clip(min=self.floor)) - x + y
        near = xp.abs(more) < 0.5
        return xp.where(near & (x > 0), x * (more - xp.log1p(xp.where(near, more, 0))), far)

    def rises(
        self, Wt: np.ndarray, H: np.ndarray, w_steps: np.ndarray, h_steps: np.ndarray
    ) -> np.ndarray:
        """By how much some merges would raise the loss: what they change has mass, too."""
        steps = np.ascontiguousarray(h_steps, dtype=self.dtype)[None]
        mass = (w_steps * self.weights.cross("W", steps)[0]).sum(axis=1)
        return np.asarray(super().rises(Wt, H, w_steps, h_steps) - mass)


def _log(values: np.ndarray) -> np.ndarray:
    """Logarithms, zero where there is nothing."""
    return np.log(np.where(values > 0, values, 1))
