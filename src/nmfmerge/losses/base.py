"""The interface of a loss: all that depends on what a fit minimises.

A value is what is minimised, for one start. Everything is of X / unit² (see
`nmfmerge.matrices.base`) until `Problem.in_full` puts the scale of X back.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from nmfmerge.losses.greedy import Order
from nmfmerge.losses.merging import MergePlan, MergeTree
from nmfmerge.losses.penalties import Penalty
from nmfmerge.losses.previews import MeasuredPreviews, Previews
from nmfmerge.losses.words import Words
from nmfmerge.matrices import Array, Check, DataMatrix, Side
from nmfmerge.matrices.offers import Need

if TYPE_CHECKING:
    from nmfmerge.losses.problem import Problem

Factors = tuple[Array, Array]


class BatchView(Protocol):
    """The view of a batch of starts for a loss; `nmfmerge.solvers.Batch` computes it on demand."""

    problem: "Problem"
    Wt: Array
    H: Array

    def factor(self, side: Side) -> Array:
        """The factors of one side, component-major."""

    def gram(self, side: Side) -> Array:
        """WᵀW or HHᵀ, with the L2 penalty of the other side on its diagonal."""

    def subproblem(self, side: Side) -> tuple[Array, Array, Array]:
        """F, G and C of ``min ½⟨F, G F⟩ − ⟨C, F⟩, F ≥ 0`` for one side."""

    def cheapest_fit(self) -> Array:
        """⟨F, C⟩ of each start, less the L1 penalties, of the side that costs least."""


@dataclass(frozen=True, eq=False)
class Recovered:
    """Factors with recovered components at the end.

    Attributes
    ----------
    Wt, H : arrays (n_starts, r + k, m) and (n_starts, r + k, n)
        The components that came in, rescaled, then the recovered ones.
    strengths : float64 array (n_starts, k)
        How much more X has than WH of each new component; ∞ where WH has nothing of it.
    gain : float64 array (n_starts,)
        By how much the loss fell.
    """

    Wt: Array
    H: Array
    strengths: np.ndarray
    gain: np.ndarray


class Form(Enum):
    """A form of losses that solvers are made for; a solver requires one of them."""

    GRAMS = "its subproblems are known by Grams and cross products, as those of Frobenius"
    ENTRIES = "it gives sweeps over the entries of X, as Kullback–Leibler does"


class Entrywise(Protocol):
    """The passes over X of a loss of the form `Form.ENTRIES`, for batches of starts."""

    @property
    def total(self) -> float:
        """The size of the numbers that a value is the difference of."""

    def n_sweeps(self, r: int) -> int:
        """How many sweeps over a side pay in one pass of an extrapolated iteration at rank r."""

    def sweep_(
        self, side: Side, F: Array, fixed: Array, *, n_sweeps: int = 1, value: bool = False,
        free: Any = None, l1: float = 0.0, l2: float = 0.0, active: Any = None,
    ) -> tuple[Array, Array, Array]:  # fmt: skip
        """Update the factor of one side by coordinate descent, which cannot raise the objective.

        Returns ‖new − old‖² and ‖new + old‖² of each component (n_starts × r), and of each start
        what `value` needs to know of X, if ``value`` asks for it. Components that are not ``free``
        stay, as do starts that are not ``active``.
        """

    def mu_step_(
        self, side: Side, F: Array, fixed: Array, *, l1: float = 0.0, l2: float = 0.0
    ) -> tuple[Array, Array]:
        """Update the factor of one side by multiplication; returns the same two norms."""

    def sizes(self, Wt: Array, H: Array) -> Array:
        """How much each component contributes (n_starts × r), up to a factor."""

    def value(self, Wt: Array, H: Array, seen: Array | None = None) -> Array:
        """The loss of each start, from what a sweep has ``seen`` or by a pass; may cancel."""

    def for_passes(self, r: int) -> tuple[dict[Side, Any], float, float] | None:
        """X for compiled passes at rank r; None where single operations are faster."""


class Loss(ABC):
    """A distance between X and WH that a fit minimises.

    A new loss is one file with a subclass of this, given to `losses.register`. The solvers that
    require one of its ``forms`` can minimise it.
    """

    name: ClassVar[str]
    degree: ClassVar[int]  # the value of t·X and t·WH is that of X and WH times t**degree
    looseness: ClassVar[float] = 1.0  # tolerance of earlier stages, relative to √tol
    forms: ClassVar[frozenset[Form]] = frozenset()  # by which solvers can minimise it
    needs: ClassVar[frozenset[Need]] = frozenset()  # of X
    abbreviation: ClassVar[str] = ""  # of its name, for users
    words: ClassVar[Words]  # for people
    weighted: "Loss | None" = None  # the same where entries have weights, if it is another class
    where: ClassVar[str] = ""  # what X must be like for this one, after its name
    takes_counts: ClassVar[bool] = False  # as they are; others want all variables at one size
    judges_ranks: ClassVar[bool] = False  # whether ranks are judged by it
    calibrated: ClassVar[bool] = False  # whether what noise does to a fit by it is known
    equal_strength: ClassVar[float | None] = None  # of a direction that X and WH have alike
    missing_strength: ClassVar[float | None] = None  # from which much of X was missing

    def of(self, matrix: DataMatrix) -> "Loss":
        """The loss itself, or what takes its place if the entries of X have weights."""
        return self if matrix.weights is None or self.weighted is None else self.weighted

    @abstractmethod
    def size(self, matrix: DataMatrix) -> float:
        """The value that counts as 100 percent."""

    def size_between(self, column_sums: np.ndarray) -> float:
        """By how much `size` of a matrix exceeds the sum of those of its chunks of rows.

        ``column_sums`` (n_chunks × n) are of each chunk; nothing where a loss adds up.
        """
        return 0.0

    @abstractmethod
    def value(self, batch: BatchView) -> Array:
        """Value of each start, with the penalty, from the products at hand; may cancel."""

    @abstractmethod
    def exact_values(self, matrix: DataMatrix, Wt: Array, H: Array) -> np.ndarray:
        """Value of the results of each start, without a penalty, accurate near an exact fit."""

    @abstractmethod
    def shares(self, matrix: DataMatrix, Wt: Array, H: Array) -> np.ndarray:
        """How much each component of each start (n_starts × r) contributes, up to a factor."""

    def entrywise(self, matrix: DataMatrix) -> Entrywise:
        """The passes over X that solvers of `Form.ENTRIES` need."""
        raise NotImplementedError(f"{self.name} does not have the form {Form.ENTRIES.name}")

    def prepared(
        self, matrix: DataMatrix, starts: Sequence[Factors], check: Check | None = None
    ) -> Sequence[Factors]:
        """Prepare random starts for the solvers of this loss; by default they stay unchanged."""
        return starts

    @abstractmethod
    def kkt_residual(self, batch: BatchView) -> np.ndarray:
        """How far each start is from a stationary point, at any scale; see `metrics`."""

    def residual(self, X: np.ndarray, WH: np.ndarray) -> np.ndarray:
        """X − WH, divided by the size of the noise where that differs from entry to entry."""
        return X - WH

    def held_out_error(
        self, x: np.ndarray, m: np.ndarray, y: np.ndarray, margins: np.ndarray
    ) -> float:
        """Error in percent at some entries x of weights m, fitted by y, or by the ``margins``."""
        return float(100 * np.vdot(m, (x - y) ** 2) / (np.vdot(m, x * x) or 1.0))

    @abstractmethod
    def merge_plans(
        self, matrix: DataMatrix, Wt: Array, H: Array, n_components: int, held: np.ndarray | None
    ) -> Sequence[MergePlan]:
        """How to merge each start down to ``n_components``."""

    @abstractmethod
    def merged(
        self,
        Wt: np.ndarray,
        H: np.ndarray,
        n_components: int,
        max_penalty: float = np.inf,
        order: Order | None = None,
        held: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray, MergeTree]:
        """One pair of factors merged without X; `merge_plan` explains the limits.

        Components not merged come first, unchanged, then the merged ones.
        """

    @abstractmethod
    def merge_percent(self, penalty: float, matrix: DataMatrix) -> float:
        """A merge penalty in percent."""

    @abstractmethod
    def recover(
        self, matrix: DataMatrix, Wt: Array, H: Array, k: int, check: Check, held: np.ndarray
    ) -> Recovered:
        """Add up to ``k`` components that X has and WH lacks, as many as one round can tell apart.

        ``held`` marks columns of W that are not rescaled.
        """

    @abstractmethod
    def recoverable(self, matrix: DataMatrix, r: int, check: Check) -> int:
        """How many components one round of `recover` can add to r."""

    @abstractmethod
    def weights(self, matrix: DataMatrix, H: np.ndarray, penalty: Penalty) -> Array:
        """The W ≥ 0 (m × r) that minimises the value for an H of X itself.

        The penalty is on factors of X / unit².
        """

    @abstractmethod
    def whole(self, W: np.ndarray, H: np.ndarray) -> float:
        """The size of these factors that merge penalties are a share of."""

    @abstractmethod
    def percent_shares(self, W: np.ndarray, H: np.ndarray) -> np.ndarray:
        """Share of each component in the fit, in percent; all zero where WH is zero."""

    @abstractmethod
    def level(self, fitting_error: float, objective: float, whole: float) -> float:
        """How far the fit is from X in percent of `whole`, to compare with merge penalties."""

    def previews(self, matrix: DataMatrix, Wt: np.ndarray, H: np.ndarray) -> Previews:
        """The effect of edits on the value of a solution; by default they are measured."""
        return MeasuredPreviews(self, matrix, Wt, H)

    def next_merges(self, W: np.ndarray, H: np.ndarray) -> MergeTree:
        """The merges of all components down to one, without X."""
        Wt, H = np.ascontiguousarray(W.T), np.ascontiguousarray(H)
        return self.merged(Wt, H, 1, np.inf, None)[2]

    def percent(self, value: float, matrix: DataMatrix) -> float:
        """Fitting error in percent; a zero matrix counts as fitted when the value is zero."""
        size = self.size(matrix)
        if size > 0:
            return 100.0 * value / size
        return 0.0 if value == 0 else float("inf")
