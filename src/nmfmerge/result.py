"""What a run returns: `Factorization` with its `Stage`s; frozen and printable."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from importlib import import_module
from typing import Any

import numpy as np

from nmfmerge.datasets.base import Dataset
from nmfmerge.kernels import gram64
from nmfmerge.merge import MergeTree


class Status(StrEnum):
    """How a run, or a stage of one, ended."""

    CONVERGED = "converged"
    MAX_ITER = "max_iter"
    MAX_TIME = "max_time"
    CALLBACK = "callback"
    INTERRUPTED = "interrupted"
    DONE = "done"  # a stage that does not iterate


@dataclass(frozen=True, eq=False)
class History:
    """What each iteration of a stage recorded.

    Attributes
    ----------
    step : array (n_iter,)
        Largest relative displacement of a component, the quantity compared with ``tol``.
    seconds : array (n_iter,)
        Time since the run began.
    fitting_error : array (n_iter,)
        Fitting error in percent where a callback asked for it, NaN elsewhere.
    """

    step: np.ndarray
    seconds: np.ndarray
    fitting_error: np.ndarray

    @classmethod
    def of(
        cls, step: Sequence[float], seconds: Sequence[float], fitting_error: Sequence[float]
    ) -> "History":
        """A history from lists."""
        return cls(np.array(step), np.array(seconds), np.array(fitting_error))

    @classmethod
    def joined(cls, histories: "Sequence[History]") -> "History":
        """Several histories, one after the other."""
        return cls(
            np.concatenate([history.step for history in histories]),
            np.concatenate([history.seconds for history in histories]),
            np.concatenate([history.fitting_error for history in histories]),
        )

    def as_lists(self) -> tuple[list[float], list[float], list[float]]:
        """The histories as lists, so that a loop can append to them."""
        return self.step.tolist(), self.seconds.tolist(), self.fitting_error.tolist()


@dataclass(frozen=True)
class Stage:
    """One stage of a run.

    Attributes
    ----------
    name : str
        "start", "initial", "recover", "overcomplete", "merge" or "final".
    n_components : int
        Number of components after the stage.
    n_iter : int
        Iterations taken; 0 for "start" and "merge", and for "recover" unless it went in rounds.
    seconds : float
        Wall time of the stage.
    fitting_error : float
        100·‖X − WH‖²/‖X‖² after the stage.
    status : Status
        How the stage ended.
    history : History or None
        Per-iteration record of a stage that iterates.
    """

    name: str
    n_components: int
    n_iter: int
    seconds: float
    fitting_error: float
    status: Status
    history: History | None = field(default=None, repr=False)

    @property
    def converged(self) -> bool:
        """Whether the stage converged; one that does not iterate counts as converged."""
        return self.status in (Status.CONVERGED, Status.DONE)

    def __str__(self) -> str:
        return (
            f"{self.name:<12} {self.n_components:>4} components {self.n_iter:>6} iterations "
            f"{self.fitting_error:>10.6g} % {self.seconds:>9.3g} s  {self.status}"
        )


def _to_numpy(A: Any) -> np.ndarray:
    """An array from a tensor, or from a Dask array, which is computed."""
    if isinstance(A, np.ndarray):
        return A
    return np.asarray(A.compute()) if hasattr(A, "compute") else A.detach().cpu().numpy()


_FIGURES = (
    "components", "maps", "reconstruction", "convergence", "starts", "merges", "singular_values",
    "comparison",
)  # fmt: skip


def draw(what: Any, kind: str, kinds: Sequence[str], *arguments: Any, **options: Any) -> Any:
    """Call a function of `nmfmerge.plot`, which is imported now, as it takes a second."""
    if kind not in kinds:
        raise ValueError(f"kind={kind!r} is not a figure; expected one of {', '.join(kinds)}")
    return getattr(import_module("nmfmerge.plot"), kind)(what, *arguments, **options)


SAME_COMPONENT = 0.9  # cosine of two components from which they count as the same


@dataclass(frozen=True, eq=False)
class Start:
    """What one of several starts came to.

    Attributes
    ----------
    init : str
        How it began: "nndsvd", "random", … or "given".
    seed : int or None
        Seed of a start that is random: with ``n_init=1``, this ``init`` and this as
        ``random_state`` the same solution comes back, unless components are held.
    fitting_error : float
        100·‖X − WH‖²/‖X‖², in percent.
    n_iter : int
        Iterations of all its stages.
    status : Status
        How it ended.
    similarity : array (r,)
        For each component of the best solution, the cosine with its match in this one.
    subspace_mismatch, permutation_mismatch : float
        How far W is from that of the best solution; see `nmfmerge.metrics`.
    merged : bool
        True if it went through recovery and merging, False if it is standard NMF.
    """

    init: str
    seed: int | None
    fitting_error: float
    n_iter: int
    status: Status
    similarity: np.ndarray
    subspace_mismatch: float
    permutation_mismatch: float
    merged: bool = True

    @property
    def name(self) -> str:
        """How it began, with its seed."""
        return self.init if self.seed is None else f"{self.init} {self.seed}"

    @property
    def n_found(self) -> int:
        """How many components of the best solution it found: similarity of at least 0.9."""
        return int((self.similarity >= SAME_COMPONENT).sum())

    def __str__(self) -> str:
        return (
            f"{self.name:<18} {self.fitting_error:>10.6g} % {self.n_iter:>6} iterations  "
            f"{self.n_found} of {len(self.similarity)} components of the best  {self.status}"
        )


@dataclass(frozen=True, eq=False)
class Spread:
    """Standard deviation of components over several starts.

    Each start's components are matched with those of the best solution and scaled to their size.

    Attributes
    ----------
    W : array (m, r)
    H : array (r, n)
    """

    W: np.ndarray
    H: np.ndarray


def is_number(name: str) -> bool:
    """Whether a component has no other name than numbers, as "3", "1+4" and "(1+4)a"."""
    return re.fullmatch(r"[(\d][\d+ab()]*", name) is not None


@dataclass(frozen=True, eq=False)
class Factorization:
    """A nonnegative factorization X ≈ WH and how it came about.

    Components are sorted by their share of the fit, the largest first, unless their order was
    given: by the factors that `nmf` began with, by components that are held, or by an `Editor`.

    Attributes
    ----------
    W : array (m, r)
        Components along the rows of X. If X was a Dask array, this is one too (or H, if X was in
        chunks of columns): the best for H, computed from X when it is asked for.
    H : array (r, n)
        Components along the columns of X.
    objective : float
        ½‖X − WH‖².
    fitting_error : float
        100·‖X − WH‖²/‖X‖², in percent.
    stages : tuple of Stage
        The stages in the order they ran; plain `nmf` has "start" and "final".
    status : Status
        How the run ended.
    seconds : float
        Wall time of the run.
    merges : MergeTree or None
        What the merge stage joined.
    merge_ids : tuple of int
        The id in ``merges`` that each component came from; empty without merges.
    generalized_singular_values : array (k,)
        One for each recovered component: how much more X has than WH in its direction.
    names : tuple of str
        Names of the components; empty where they have none.
    starts : tuple of Start
        What each of several starts came to; empty if there was one.
    best_start : int
        Which of them this is.
    spread : Spread or None
        How much the components vary over the starts.
    solutions : tuple of Factorization
        Those from all starts, if they were asked for.
    axes : Dataset or None
        What the rows and columns of X stand for, without X, where it came with names: as a
        Dataset, an AnnData, a DataFrame or an xarray.
    """

    W: np.ndarray
    H: np.ndarray
    objective: float
    fitting_error: float
    stages: Sequence[Stage]
    status: Status
    seconds: float
    merges: MergeTree | None = None
    generalized_singular_values: np.ndarray = field(default_factory=lambda: np.empty(0))
    names: tuple[str, ...] = ()
    starts: tuple["Start", ...] = ()
    best_start: int = 0
    spread: "Spread | None" = None
    solutions: tuple["Factorization", ...] = ()
    merge_ids: tuple[int, ...] = ()
    axes: Dataset | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.W.ndim != 2 or self.H.ndim != 2 or self.W.shape[1] != self.H.shape[0]:
            raise ValueError(f"W {self.W.shape} and H {self.H.shape} do not fit together")
        if len(self.names) not in (0, self.H.shape[0]):
            raise ValueError(
                f"there are {len(self.names)} names for {self.H.shape[0]} components; expected one "
                "for each"
            )
        object.__setattr__(self, "stages", tuple(self.stages))
        object.__setattr__(self, "names", tuple(self.names))
        object.__setattr__(self, "merge_ids", self._checked_merge_ids())

    def _checked_merge_ids(self) -> tuple[int, ...]:
        if self.merges is None:
            if self.merge_ids:
                raise ValueError("there are merge_ids but no merges; expected both or none")
            return ()
        if self.merges.n_components != len(self.H):
            raise ValueError(
                f"the merges of {self.merges.n_leaves} components leave "
                f"{self.merges.n_components}, but W and H have {len(self.H)}"
            )
        roots = self.merges.roots
        if sorted(self.merge_ids or roots) != list(roots):
            raise ValueError("the merges do not lead to the components")
        return tuple(self.merge_ids or roots)

    @property
    def n_components(self) -> int:
        """Number of components."""
        return self.H.shape[0]

    @property
    def model_norm2(self) -> float:
        """‖WH‖²; infinite where that is too large for a number."""
        factors = self.numpy()
        with np.errstate(over="ignore"):
            return float(np.vdot(gram64(factors.W.T), gram64(factors.H))) if len(self.H) else 0.0

    def numpy(self) -> "Factorization":
        """The same with NumPy arrays, where they are tensors or Dask arrays."""
        if isinstance(self.W, np.ndarray) and isinstance(self.H, np.ndarray):
            return self
        spread = self.spread
        return replace(
            self,
            W=_to_numpy(self.W),
            H=_to_numpy(self.H),
            spread=None if spread is None else Spread(_to_numpy(spread.W), _to_numpy(spread.H)),
            solutions=tuple(solution.numpy() for solution in self.solutions),
        )

    def reordered(self, order: Sequence[int]) -> "Factorization":
        """The same with components in another order; component k of it is ``order[k]`` of this."""
        order = list(order)
        if order == list(range(self.n_components)):
            return self
        spread = self.spread
        return replace(
            self,
            W=self.W.T[order].T,  # component-major, as it was
            H=self.H[order],
            names=tuple(self.names[k] for k in order) if self.names else (),
            merge_ids=tuple(self.merge_ids[k] for k in order) if self.merge_ids else (),
            starts=tuple(replace(s, similarity=s.similarity[order]) for s in self.starts),
            spread=None if spread is None else Spread(spread.W.T[order].T, spread.H[order]),
        )

    def label(self, k: int) -> str:
        """What to call component k, counted from 0: "component 1", "component 1+4", "glucose"."""
        name = self.names[k] if self.names else str(k + 1)
        return f"component {name}" if is_number(name) else name

    @property
    def n_iter(self) -> int:
        """Iterations of all stages together."""
        return sum(stage.n_iter for stage in self.stages)

    @property
    def converged(self) -> bool:
        """Whether the last stage reached its tolerance."""
        return self.status is Status.CONVERGED

    def __repr__(self) -> str:
        headline = (
            f"Factorization of a {self.W.shape[0]} × {self.H.shape[1]} matrix into "
            f"{self.n_components} components: fitting error {self.fitting_error:.6g} %, "
            f"{self.status}, {self.n_iter} iterations, {self.seconds:.3g} s"
        )
        lines = [headline, *(f"  {stage}" for stage in self.stages)]
        if self.starts:
            errors = np.array([start.fitting_error for start in self.starts])
            lines.append(
                f"  best of {len(errors)} starts: {errors.min():.6g} to {errors.max():.6g} %, "
                f"{len(self.found_always())} of {self.n_components} components found from all"
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        html: str = import_module("nmfmerge.display").factorization_html(self)
        return html

    def plot(self, kind: str = "components", *arguments: Any, **options: Any) -> Any:
        """Draw the result: ``result.plot("merges")`` is ``nmfmerge.plot.merges(result)``.

        Parameters
        ----------
        kind : str
            A function of `nmfmerge.plot`: "components", "maps", "reconstruction", "convergence",
            "starts", "merges", "singular_values" or "comparison".
        *arguments, **options
            What that function takes besides the result, such as the data set with its axes;
            default: ``axes`` of the result.

        Returns
        -------
        matplotlib.figure.Figure
        """
        return draw(self, kind, _FIGURES, *arguments, **options)

    def found_from(self) -> np.ndarray:
        """From how many starts each component was found: similarity of at least 0.9."""
        if not self.starts:
            return np.ones(self.n_components, dtype=int)
        alike = np.stack([start.similarity for start in self.starts]) >= SAME_COMPONENT
        return alike.sum(axis=0)

    def found_always(self) -> list[int]:
        """Components that were found from every start."""
        return np.flatnonzero(self.found_from() == max(1, len(self.starts))).tolist()
