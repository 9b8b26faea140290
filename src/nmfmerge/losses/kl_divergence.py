r"""The generalised Kullback–Leibler divergence, for counts and intensities.

.. math:: D(X \| WH) = \sum_{ij} x \log(x/y) - x + y, \qquad y = (WH)_{ij}

An entry that is zero costs y alone, and Σ y comes from the sums of the factors, so that only stored
entries are visited. Fitting errors are percent of D(X‖r cᵀ/N), the divergence from the product of
the marginals: what rank 1 leaves.
"""

from functools import cached_property
from typing import Any

import numpy as np

from nmfmerge.backends.interface import Capability
from nmfmerge.backends.numba.shares import LEAST_FLOPS
from nmfmerge.matrices import Array, DataMatrix, Side

_LEAST = {np.dtype(np.float32): 1e-10, np.dtype(np.float64): 1e-16}  # y, relative to the mean of X
_TINY = 50_000  # m·n·r


class Divergence:
    """The divergence of one data matrix, with the passes over X that its methods are made of.

    It has the lines of X for the update of each side, as the backend of the matrix reads them, but
    does not refer to the matrix, which may keep it.
    """

    def __init__(self, data: DataMatrix) -> None:
        self.kind, self.kernels = type(data), data.kernels
        self.shape, self.dtype = data.shape, data.dtype
        self.floor = _LEAST[data.dtype] * data.mean or np.finfo(data.dtype).tiny
        self.tiny = float(np.finfo(data.dtype).tiny / np.finfo(data.dtype).eps)
        self.lines: dict[Side, Any] = {"W": data.lines("W"), "H": data.lines("H")}

    @cached_property
    def _sums(self) -> dict[Side, np.ndarray]:
        """Σ x and Σ x log x of the lines of each side."""
        m, n = self.shape
        return {
            "W": self.kernels.kl_line_sums(self.lines["W"], m, n),
            "H": self.kernels.kl_line_sums(self.lines["H"], n, m),
        }

    @property
    def margins(self) -> tuple[np.ndarray, np.ndarray]:
        """Sums of the rows and of the columns of X."""
        return self._sums["W"][:, 0], self._sums["H"][:, 0]

    @cached_property
    def total(self) -> float:
        """N, the sum of X."""
        return float(self.margins[0].sum())

    @cached_property
    def x_log_x(self) -> float:
        """Σ x log x."""
        return float(self._sums["W"][:, 1].sum())

    @cached_property
    def size(self) -> float:
        """The divergence that is 100 %: D(X‖r cᵀ/N)."""
        from scipy.special import xlogy  # which takes long to load

        rows, columns = (float(xlogy(sums, sums).sum()) for sums in self.margins)
        whole = float(xlogy(self.total, self.total))
        return max(0.0, self.x_log_x - rows - columns + whole)

    def sweep_(
        self, side: Side, F: Array, fixed: Array, **options: Any
    ) -> tuple[Array, Array, Array]:
        """Update one side by coordinate descent; see `kl_sweep_`."""
        sweep_: Any = self.kernels.kl_sweep_
        moved, total, seen = sweep_(F, fixed, self.lines[side], self.floor, **options)
        return moved, total, seen

    def n_sweeps(self, r: int) -> int:
        """Sweeps per pass: two on tiny data, where products are most of the cost of a pass."""
        m, n = self.shape
        return 2 if m * n * r <= _TINY else 1

    def mu_step_(self, side: Side, F: Array, fixed: Array, **options: Any) -> tuple[Array, Array]:
        """Update one side by multiplication; see `kl_mu_step_`."""
        step_: Any = self.kernels.kl_mu_step_
        moved, total = step_(F, fixed, self.lines[side], self.floor, self.tiny, **options)
        return moved, total

    def for_passes(self, r: int) -> tuple[dict[Side, Any], float, float] | None:
        """The lines of both sides, the least WH and Σ x log x − x, if X is in memory and small."""
        if Capability.HOST not in self.kernels.capabilities:
            return None
        lines = self.lines["W"]
        if 8.0 * r * lines.values.size >= LEAST_FLOPS:
            return None
        return self.lines, self.floor, self.x_log_x - self.total

    def sizes(self, Wt: Array, H: Array) -> Array:
        """The sum of each component (n_starts × r)."""
        sums = self.kernels.component_sums
        return sums(Wt) * sums(H)

    def observed_sizes(self, Wt: Array, H: Array) -> Array:
        """The sum of each component where X is observed, which is everywhere."""
        return self.sizes(Wt, H)

    def sums(self, side: Side, fixed: np.ndarray) -> np.ndarray:
        """Σ f of each line of a side, for one start on the host (r × 1 if all are the same)."""
        return fixed.sum(axis=1, dtype=np.float64)[:, None]

    def value(self, Wt: Array, H: Array, seen: Array | None = None) -> Array:
        """D of each start; ``seen`` is Σ x log y, if a sweep has it; cancels near an exact fit."""
        if seen is None:
            seen = self.kernels.kl_x_log_y(Wt, H, self.lines["W"], self.floor)
        fitted = self.observed_sizes(Wt, H).sum(axis=1)
        return self.x_log_x - self.total - seen + fitted

    def exact_values(self, Wt: Array, H: Array) -> np.ndarray:
        """D of each start on the host, accurate near an exact fit too."""
        values = self.kernels.kl_divergences(Wt, H, self.lines["W"], self.floor)
        return np.asarray(self.kernels.to_host(values))

    def masses(self, Wt: Array, H: Array) -> np.ndarray:
        """`sizes` on the host; they add up to Σ WH, and are the shares."""
        return np.asarray(self.kernels.to_host(self.sizes(Wt, H)))

    def explained(self, Wt: Array, H: Array) -> np.ndarray:
        """The part of each component in the total of X, on the host; see `kl_explained`."""
        parts = self.kernels.kl_explained(Wt, H, self.lines["W"], self.floor)
        return np.asarray(self.kernels.to_host(parts))

    def ratios(self, Wt: Array, H: Array) -> DataMatrix:
        """X/WH of one start, with the zeros of X."""
        return self.kind(self.kernels.kl_ratios(Wt, H, self.lines["W"], self.floor), 0)

    def kkt_residual(self, Wt: Array, H: Array) -> float:
        """How far one start is from a stationary point; see `nmfmerge.metrics.kkt_residual`."""
        ratios = self.ratios(Wt, H)
        HXt, WtX = ratios.products_on_host()
        Wt, H = self.kernels.to_host(Wt), self.kernels.to_host(H)
        residual, pull = 0.0, 0.0
        sides: tuple[tuple[Side, Any, Any, Any], ...] = (("W", Wt, H, HXt), ("H", H, Wt, WtX))
        for side, F, fixed, product in sides:
            sums = self.sums(side, fixed)
            psi = product(fixed, np.empty_like(F)).astype(np.float64)
            mass = float((sums * F).sum()) or 1.0
            residual += float((np.abs(psi - sums) * F).sum()) / mass
            wanted = np.divide(psi, sums, out=np.zeros_like(psi), where=(F == 0) & (sums > 0))
            pull = max(pull, float(wanted.max(initial=1.0)) - 1)
        return residual + pull

    def rises(
        self, Wt: np.ndarray, H: np.ndarray, w_steps: np.ndarray, h_steps: np.ndarray
    ) -> np.ndarray:
        """By how much some merges would raise D of one start; see `kl_merge_rises`."""
        Wt, H = (np.ascontiguousarray(F, dtype=self.dtype) for F in (Wt, H))
        rises = self.kernels.kl_merge_rises(Wt, H, self.lines["W"], self.floor, w_steps, h_steps)
        return np.asarray(rises)
