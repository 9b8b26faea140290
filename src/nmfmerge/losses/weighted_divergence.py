r"""The divergence where entries have weights, for missing values and counts of unequal certainty.

.. math:: \sum_{ij} m_{ij} \Bigl( x \log\frac{x}{y} - x + y \Bigr), \qquad y = (WH)_{ij}

Up to a constant it is Σ m y − m x log y: the divergence of m x in which the sums of a factor are
Σ m f, and differ from line to line. No majorizer is needed.
"""

from functools import cached_property
from typing import Any
from weakref import proxy

import numpy as np

from nmfmerge.backends.numba.kl_sums import kl_weighted_mu_step_
from nmfmerge.backends.numba.kl_sweep import kl_weighted_sweep_
from nmfmerge.losses.kl_divergence import Divergence
from nmfmerge.matrices import Side


class WeightedDivergence(Divergence):
    """The weighted divergence of a `WeightedData`: that of M∘X, with the sums of M."""

    def __init__(self, data: Any) -> None:
        super().__init__(data.product)
        self.weights = data.weights
        self.matrix: Any = proxy(data)  # which keeps this

    def sums(self, side: Side, fixed: np.ndarray) -> np.ndarray:
        """Σ m f of each line of a side (r × p)."""
        return np.asarray(self.weights.cross(side, fixed[None])[0], dtype=np.float64)

    def _line_sums(self, side: Side, fixed: np.ndarray) -> np.ndarray:
        """The same of all starts, line by line (n_starts × p × r)."""
        sums = self.weights.cross(side, fixed).swapaxes(1, 2)
        return np.ascontiguousarray(sums, dtype=np.float64).clip(min=0)

    def for_passes(self, r: int) -> None:
        """Sums differ from line to line, so passes are single operations."""

    def sweep_(
        self, side: Side, F: np.ndarray, fixed: np.ndarray, active: None = None, **options: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Update one side by coordinate descent; see `kl_weighted_sweep_`."""
        sums = self._line_sums(side, fixed)
        moved, total, seen = kl_weighted_sweep_(
            F, fixed, sums, self.lines[side], self.floor, **options
        )
        return moved, total, seen

    def mu_step_(
        self, side: Side, F: np.ndarray, fixed: np.ndarray, **options: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Update one side by multiplication; see `kl_weighted_mu_step_`."""
        sums = self._line_sums(side, fixed)
        moved, total = kl_weighted_mu_step_(
            F, fixed, sums, self.lines[side], self.floor, self.tiny, **options
        )
        return moved, total

    def observed_sizes(self, Wt: np.ndarray, H: np.ndarray) -> np.ndarray:
        """Σ m w_k h_k of each component (n_starts × r)."""
        sums = self.weights.cross("W", H)
        return np.asarray(np.einsum("skp,skp->sk", Wt, sums, dtype=np.float64))

    @cached_property
    def x_log_x(self) -> float:
        """Σ m x log x."""
        from scipy.special import xlogy

        none = np.zeros((1, self.shape[0])), np.zeros((1, self.shape[1]))
        return float(self.matrix.weighted_sum(lambda x, y: xlogy(x, x), 0.0, *none))

    @cached_property
    def size(self) -> float:
        """The divergence that is 100 %: that from the rank 1 with the margins of what is there."""
        from scipy.special import xlogy

        w, h = (F[0].astype(np.float64) for F in self.matrix.margins())
        rows, columns = self.margins
        fitted = float(self.observed_sizes(w[None, None], h[None, None])[0, 0])
        by_margins = float((_log(w) * rows).sum() + (_log(h) * columns).sum())
        noise = 16 * np.finfo(self.dtype).eps * abs(float(xlogy(self.total, self.total)))
        size = self.x_log_x - self.total - by_margins + fitted
        return size if size > noise else 0.0

    def exact_values(self, Wt: np.ndarray, H: np.ndarray) -> np.ndarray:
        """The loss of each start, summed in parts that do not cancel."""
        values = []
        for pair in zip(Wt.astype(np.float64), H.astype(np.float64), strict=True):
            everywhere = float(np.vdot(*(F.sum(axis=1) for F in pair)))
            values.append(self.matrix.weighted_sum(self._terms, everywhere, *pair))
        return np.array(values)

    def _terms(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The divergence of each entry, x log(x/y) − x + y."""
        safe = np.where(x > 0, x, 1)
        more = np.where(x > 0, y / safe - 1, 0)
        far = x * np.log(safe / np.maximum(y, self.floor)) - x + y
        near = np.abs(more) < 0.5
        return np.where(near & (x > 0), x * (more - np.log1p(np.where(near, more, 0))), far)

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
