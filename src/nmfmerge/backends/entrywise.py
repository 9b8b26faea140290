"""The operations for losses that look at the entries of X, beyond `interface.Backend`."""

from typing import Any, Protocol

import numpy as np

from nmfmerge.backends.interface import Array, Backend


class EntrywiseBackend(Backend, Protocol):
    """`Capability.ENTRYWISE`.

    ``lines`` are the p lines of X that belong to F, as `DataMatrix.lines` makes them for the
    backend, and ``fixed`` (n_starts × r × q) is the other factor: y = WH is ``Fᵀ fixed`` at the
    entries x of the lines. A y below ``floor`` counts as ``floor``.
    """

    def component_sums(self, F: Array, /) -> Array:
        """Sum of each component, n_starts × r."""

    def kl_line_sums(self, lines: Any, n_lines: int, length: int, /) -> np.ndarray:
        """Σ x and Σ x log x of each line (n_lines × 2), a NumPy array."""

    def kl_sweep_(
        self,
        F: Array,
        fixed: Array,
        lines: Any,
        floor: float,
        n_sweeps: int = 1,
        value: bool = False,
        free: Array | None = None,
        l1: float = 0.0,
        l2: float = 0.0,
        active: Array | None = None,
        sums: Array | None = None,
    ) -> Any:
        """Sweep over the coordinates of F; see `nmfmerge.backends.numba.kl_sweep.kl_sweep_`.

        Where entries have weights m, ``lines`` are of m x and ``sums`` (n_starts × r × p) are
        Σ m f of each line, float64.
        """

    def kl_mu_step_(
        self,
        F: Array,
        fixed: Array,
        lines: Any,
        floor: float,
        tiny: float,
        l1: float = 0.0,
        l2: float = 0.0,
        sums: Array | None = None,
    ) -> Any:
        """Multiply F by ``(Σ f x/y) / (Σ f + l1 + l2 F)``; what falls below ``tiny`` is zero.

        ``sums`` are those of `kl_sweep_`, with weights.

        Returns ``‖new − old‖²`` and ``‖new + old‖²`` of each component (n_starts × r).
        """

    def weighted_sweep_(
        self,
        F: Array,
        fixed: Array,
        C: Array,
        G: Array | None,
        lines: Any,
        n_sweeps: int = 1,
        value: bool = False,
        free: Array | None = None,
        l1: float = 0.0,
        l2: float = 0.0,
        multiply: bool = False,
        active: Array | None = None,
    ) -> Any:
        """Sweep for the weighted squared error; ``lines`` are of the weights.

        See `nmfmerge.backends.numba.weighted_sweep.weighted_sweep_`.
        """

    def missing_cross_(
        self, F: Array, fixed: Array, C: Array, lines: Any, add: bool = True
    ) -> Array:
        """Add Σ u y f of each line to C, if ``add`` says so; return Σ u y² of each start.

        ``lines`` are of the u, which is 1 where X is missing, and y = WH.
        """

    def kl_explained(self, F: Array, fixed: Array, lines: Any, floor: float, /) -> Array:
        """Σ x w_k h_k / y of each component, n_starts × r."""

    def kl_x_log_y(self, F: Array, fixed: Array, lines: Any, floor: float, /) -> Array:
        """Σ x log y of each start."""

    def kl_divergences(self, F: Array, fixed: Array, lines: Any, floor: float, /) -> Array:
        """D(X‖WH) of each start, computed in float64 by a sum that does not cancel."""

    def kl_ratios(self, Wt: Array, H: Array, lines: Any, floor: float, /) -> Any:
        """X/WH of one start (Wt r × m, H r × n), dense or sparse as X is, with its zeros."""

    def kl_merge_rises(
        self,
        Wt: np.ndarray,
        H: np.ndarray,
        lines: Any,
        floor: float,
        w_steps: np.ndarray,
        h_steps: np.ndarray,
        /,
    ) -> np.ndarray:
        """By how much merges would raise D of one start; all are NumPy arrays on every backend.

        Merge c changes WH by ``−w_steps[c] h_steps[c]``, which has no mass.
        """
