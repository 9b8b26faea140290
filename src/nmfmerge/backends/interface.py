"""The interface of batches of factors for solvers, losses and the method, for every library.

`Backend` is the contract. Three modules fulfil it: `numba` for NumPy arrays, `torch` for tensors
and `shards` for a batch whose longer factor lies in shards; mypy checks each of them where
`nmfmerge.backends` names them, and one test runs every operation of each against `reference`.

Factors are component-major, with the starts first: ``F`` is n_starts × r × p. Some words recur:

- ``G`` (n_starts × r × r) is the Gram of the other factor and ``C`` (n_starts × r × p) its cross
  product with the data: the subproblem is ``min ½⟨F, G F⟩ − ⟨C, F⟩, F ≥ 0``;
- ``like`` is a factor of the batch, and says where an array belongs and in which precision;
- arrays called *small* have no axis as long as a row or a column of X. Those that the method
  computes (``A``, ``scales``) are NumPy arrays on every backend; those that come out stay with the
  backend until `to_host`, and are float64 unless their docstring says otherwise;
- a name that ends in ``_`` changes its first arguments in place.

What only some backends can do is a protocol of its own (`entrywise` has the longest) with a
`Capability`, which they list in ``capabilities``: a solver can be refused before it has begun.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any, Protocol

import numpy as np

Array = Any  # of the library that the backend is for, or a long factor in shards


class Capability(Enum):
    """Optional capabilities of a backend, beyond `Backend`."""

    HOST = "factors are NumPy arrays, which compiled loops may be called with directly"
    MULTIPLICATIVE = "multiplicative updates"
    SUBPROBLEMS = "greedy steps, and projected gradients with a step search"
    SPREAD = "entries of factors can be compared between starts"
    ENTRYWISE = "passes over the entries of X, for losses that look at them"
    QUEUE = "passes are queued, and starts that have converged wait for the others"
    FORESIGHT = "products of an extrapolated factor come with the sweep before it"


class Backend(Protocol):
    """The operations of every backend."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Its optional capabilities."""

    # Arrays of a batch

    def numbers(self, shape: Any, value: float | bool, like: Array, /) -> Array:
        """A small float64 array of a number, or a boolean one of a truth value."""

    def empty(self, shape: Sequence[int], like: Array, /) -> Array:
        """An array in the precision of ``like``, for something short; its values are undefined."""

    def indices(self, array: np.ndarray, like: Array, /) -> Array:
        """Numbers of components, to index factors and small arrays with."""

    def copy(self, A: Array, /) -> Array:
        """A copy, of factors or small arrays."""

    def take(self, A: Array, rows: Sequence[int], /) -> Array:
        """A copy of some starts."""

    def stack(self, factors: Sequence[Array], /) -> Array:
        """Factors of single starts (r × p) as one batch; a single one is not copied."""

    def contiguous(self, F: Array, /) -> Array:
        """The factor itself, or a copy that is contiguous in memory."""

    def to_host(self, A: Array, /) -> np.ndarray:
        """A NumPy array; not a copy if it already is one.

        A long factor is not brought here: it comes back with no columns (n_starts × r × 0) and is
        solved for again from the short one.
        """

    def from_host(self, A: np.ndarray, like: Array, /) -> Array:
        """Undo `to_host`."""

    # Small products

    def gram64(self, F: Array, /) -> Array:
        """F Fᵀ, small, computed in float64 whatever the precision of F."""

    def products(self, F: Array, others: Array, /) -> Array:
        """F Oᵀ, small; both or one of them may have a single start, which then serves all.

        In the precision of the factors.
        """

    def row_products(self, F: Array, G: Array, /) -> Array:
        """⟨f_t, g_t⟩ of each component, n_starts × r."""

    def inner_products(self, A: Array, B: Array, /) -> Array:
        """⟨A, B⟩ of each start."""

    def sums(self, F: Array, /) -> Array:
        """Sum of the factor of each start, small."""

    def diagonals(self, G: Array, /) -> Array:
        """The diagonals (n_starts × r) of small square matrices, which may be written to."""

    def part_norms(self, F: Array, /) -> np.ndarray:
        """Norms of the positive and the negative part of each component, n_starts × r × 2."""

    # Small matrices times factors

    def mix(self, A: np.ndarray, F: Array, /) -> Array:
        """A F, with A n_starts × k × r; an F of a single start serves all."""

    def scaled(self, F: Array, scales: np.ndarray, /) -> Array:
        """Components times their scales (n_starts × r)."""

    def scaled_positive(self, F: Array, scales: np.ndarray, /) -> Array:
        """`scaled`, with negative results set to zero."""

    def joined(self, F: Array, more: Array, /) -> Array:
        """The components of F, then those of ``more``."""

    def with_zero_components(self, F: Array, count: int, /) -> Array:
        """The components of F, then ``count`` that are zero."""

    # An iteration of a solver

    def hals_sweep_(
        self, F: Array, G: Array, C: Array, n_sweeps: int = 1, active: Array | None = None
    ) -> Any:
        """Sweep ``n_sweeps`` times over the components of F.

        Component by component, ``f_t ← max(0, f_t + (c_t − G_t F) / G_tt)``; one whose ``G_tt`` is
        zero or nearly so is skipped. Starts that are not ``active`` do not change; there are
        such starts only where passes are queued.

        Returns at least three arrays: ``‖new − old‖²`` and ``‖new + old‖²`` of each component
        (n_starts × r) in the first sweep, and the decrease of the subproblem's objective
        (n_starts), a sum of terms that are never negative.
        """

    def fit_noted(self, sweep: Any, /) -> Array | None:
        """⟨C, F⟩ of each start after a sweep, if `hals_sweep_` computed it."""

    def extrapolate_(self, F: Array, previous: Array, beta: Array, /) -> None:
        """Replace F by ``max(0, F + beta·(F − previous))``, and ``previous`` by the old F.

        ``previous`` is what F was before its last sweep. Shards that have lost it do not change F.
        """

    def rise(self, F: Array, G: Array, C: Array, old: Array, /) -> Array:
        """½⟨F, G F⟩ − ⟨C, F⟩ minus its value at ``old``; rounding is relative to the step."""

    def note_steps_(self, ratio: Array, moved: Array, total: Array, /) -> None:
        """Raise ``ratio`` (n_starts × r) to √(moved/total); components with total 0 keep theirs."""

    def largest_step(self, ratio: Array, WtW: Array, HHt: Array, negligible: float, /) -> Array:
        """Largest ratio of each start, among components with more than this share of ‖WH‖."""

    def largest_ratio(self, ratio: Array, sizes: Array, negligible: float, /) -> Array:
        """Largest ratio of each start, among components with more than this share of the sizes."""

    def judge_(
        self,
        state: Any,
        fit: Array,
        WtW: Array,
        HHt: Array,
        ratio: Array,
        constant: float,
        rise: Array | None,
        limit: float,
        negligible: float,
        active: Array | None = None,
    ) -> Array:
        """Accept extrapolated steps that did not raise the objective, take back the others.

        See `nmfmerge.backends.numba.momentum.judge_`.
        """

    def judge_values_(
        self, state: Any, now: Array, step: Array, noise: float, active: Array | None = None
    ) -> Array:
        """`judge_` for objectives at hand: take back what raised one by more than ``noise``.

        Returns ``step``, of each start, as `judge_` does.
        """

    def settle_(
        self,
        first: Array,
        second: Array,
        accepted_first: Array,
        accepted_second: Array,
        taken_back: Array,
        /,
    ) -> None:
        """Return to the accepted point where a step was taken back; elsewhere accept ``first``."""


class MultiplicativeBackend(Backend, Protocol):
    """`Capability.MULTIPLICATIVE`."""

    def mean_sizes(self, C: Array, /) -> Array:
        """Mean of |C| of each start."""

    def mu_step_(self, F: Array, G: Array, C: Array, offset: Array, tiny: float) -> Any:
        """Update ``F ← F ∘ max(C, 0) / (G F + offset + max(−C, 0))``; up to ``tiny`` is zero.

        Returns ``‖new − old‖²`` and ``‖new + old‖²`` of each component (n_starts × r).
        """


class SubproblemBackend(Backend, Protocol):
    """`Capability.SUBPROBLEMS`."""

    def gcd_sweep_(
        self, F: Array, G: Array, C: Array, tolerance: float, active: Array | None = None
    ) -> Any:
        """Take greedy steps in each column of F while one brings enough, at most r².

        Enough is more than ``tolerance`` times what one step can bring at the most in any column of
        the same start. Starts that are not ``active`` stay as they are. Returns ``‖new − old‖²``
        and ``‖new + old‖²`` of each component (n_starts × r).
        """

    def descend_(
        self,
        F: Array,
        G: Array,
        C: Array,
        room: dict[Any, Any],
        active: Array | None = None,
    ) -> Any:
        """Projected-gradient steps on F until the norm has come down, as if G had a unit diagonal.

        ``room`` is empty at first, and for the backend to keep arrays in from call to call. Starts
        that are not ``active`` stay as they are. Returns ``‖new − old‖²`` and ``‖new + old‖²`` of
        each component (n_starts × r). See `nmfmerge.backends.numba.alspgrad.descend_`.
        """


class SpreadBackend(Backend, Protocol):
    """`Capability.SPREAD`."""

    def spread(self, A: np.ndarray, F: Array, /) -> Array:
        """Standard deviation over the starts of each entry of ``A F``, k × p."""


class ForesightBackend(Backend, Protocol):
    """`Capability.FORESIGHT`."""

    def foresee_(self, F: Array, weights: np.ndarray, sums_rise: bool, /) -> None:
        """Say how F will probably be extrapolated after its next sweep.

        The sweep then computes the products of the extrapolated factor in the same pass over X
        and, with ``sums_rise``, by how much the extrapolation raises the objective.
        """
