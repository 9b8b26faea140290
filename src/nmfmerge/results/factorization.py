"""The result of a run: `Factorization` with its `Stage`s; frozen and printable."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.datasets.base import Dataset
from nmfmerge.inputs import in_chunks, lazy
from nmfmerge.inputs.arrays import check_array
from nmfmerge.inputs.check import check_absent_in_chunks, check_X_on_host
from nmfmerge.inputs.labels import matrix_of
from nmfmerge.losses import LOSSES
from nmfmerge.losses.merging import MergeTree
from nmfmerge.losses.words import Words
from nmfmerge.metrics import SAME_COMPONENT, shares
from nmfmerge.results.notebook import factorization_html
from nmfmerge.solvers.history import History, StageName, Status


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

    name: StageName
    n_components: int
    n_iter: int
    seconds: float
    fitting_error: float
    status: Status
    history: History | None = field(default=None, repr=False)

    @property
    def converged(self) -> bool:
        """True if the stage converged; one that does not iterate counts as converged."""
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


@dataclass(frozen=True, eq=False)
class Start:
    """The result of one of several starts.

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
        """The initialization, with its seed."""
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
    """True if a component is named only by numbers, as "3", "1+4" and "(1+4)a"."""
    return re.fullmatch(r"[(\d][\d+ab()]*", name) is not None


@dataclass(frozen=True, eq=False)
class Factorization:
    """A nonnegative factorization X ≈ WH, with its history.

    Components are sorted by their share of the fit, the largest first, unless their order was
    given: by the factors that `nmf` began with, by components that are held, or by an `Editor`.

    Attributes
    ----------
    W : array (m, r)
        Components along the rows of X. If X was a Dask array, this is one too (or H, if X was in
        chunks of columns): the best for H, computed lazily from X.
    H : array (r, n)
        Components along the columns of X.
    objective : float
        ½‖X − WH‖², or D(X‖WH) under the Kullback–Leibler loss, with the penalties on W and H.
    fitting_error : float
        100·‖X − WH‖²/‖X‖², in percent; or the divergence in percent of the deviance of the margins.
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
        One for each recovered component: how many times more X has than WH in its direction.
    names : tuple of str
        Names of the components; empty where they have none.
    starts : tuple of Start
        The result of each of several starts; empty if there was one.
    best_start : int
        Which of them this is.
    spread : Spread or None
        How much the components vary over the starts.
    solutions : tuple of Factorization
        The solutions from all starts, with ``return_all=True``.
    axes : Dataset or None
        What the rows and columns of X stand for, without X, where it came with names: as a
        Dataset, an AnnData, a DataFrame or an xarray.
    loss : str
        What was minimised, "frobenius" or "kullback-leibler".
    n_missing : int
        How many entries of X were missing; objective and fitting error are of the others.
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
    loss: str = "frobenius"
    n_missing: int = 0

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
    def missing_words(self) -> str:
        """The entries that a fitting error counts, in words; empty if none is missing."""
        if self.n_missing == 0:
            return ""
        share = 100 * self.n_missing / (len(self.W) * self.H.shape[1])
        return f" of the observed entries ({share:.3g} % of all are missing)"

    @property
    def penalty_size(self) -> float:
        """The size that merge penalties are compared with: ‖WH‖², or the sum of WH."""
        factors = self.numpy()
        return LOSSES[self.loss].whole(factors.W, factors.H)

    @property
    def words(self) -> Words:
        """The words for fits by this loss."""
        return LOSSES[self.loss].words

    def shares(self) -> np.ndarray:
        """Share of each component in the fit, in percent; see `metrics.shares`."""
        factors = self.numpy()
        return shares(factors.W, factors.H, beta_loss=self.loss)

    def numpy(self) -> "Factorization":
        """A copy with NumPy arrays in place of tensors or Dask arrays."""
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

    def impute(self, X: Any, *, weights: Any = None, missing: str = "nan") -> np.ndarray:
        """X as a dense array with WH where an entry is missing.

        Parameters
        ----------
        X : array, sparse matrix, Dask array, DataFrame, Dataset or AnnData (m, n)
            The data of the fit, or others of its shape.
        weights : array, sparse matrix or Dask array, optional
            Weights of the entries; those of weight 0 are missing.
        missing : {"nan", "zeros"}
            Whether NaN alone is missing, or also entries that a sparse X does not store.

        Returns
        -------
        array (m, n)
            A copy; entries that are not missing are those of X. A lazy Dask array if X is one;
            ``weights`` in a Dask array are checked at once.
        """
        if lazy.is_lazy(X):
            check_absent_in_chunks(missing)
            X = lazy.checked(X)
            self._check_shape(X.shape)
            return in_chunks.imputed(X, self.W, self.H, weights)
        data, factors = check_X_on_host(X, "impute", weights, missing), self.numpy()
        self._check_shape(data.shape)
        if data.weights is None:
            X = matrix_of(X)
            return X.toarray() if issparse(X) else np.array(check_array("X", X))
        known = data.X.toarray() if issparse(data.X) else data.X
        observed = data.weights.rows(slice(None)) > 0
        return np.where(observed, known, factors.W @ factors.H)

    def _check_shape(self, shape: tuple[int, int]) -> None:
        """Check that data have the shape of those of the fit."""
        own = self.W.shape[0], self.H.shape[1]
        if shape != own:
            raise ArgumentError(
                "X", f"has shape {shape}", expected=f"{own}, as the data of this fit"
            )

    def reordered(self, order: Sequence[int]) -> "Factorization":
        """A copy with components in another order: its component k is ``order[k]`` of this one."""
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
        """The name of component k, counted from 0: "component 1", "component 1+4", "glucose"."""
        name = self.names[k] if self.names else str(k + 1)
        return f"component {name}" if is_number(name) else name

    @property
    def n_iter(self) -> int:
        """Iterations of all stages together."""
        return sum(stage.n_iter for stage in self.stages)

    @property
    def converged(self) -> bool:
        """True if the last stage reached its tolerance."""
        return self.status is Status.CONVERGED

    def __repr__(self) -> str:
        headline = (
            f"Factorization of a {self.W.shape[0]} × {self.H.shape[1]} matrix into "
            f"{self.n_components} components: fitting error {self.fitting_error:.6g} %"
            f"{self.missing_words}, {self.status}, {self.n_iter} iterations, {self.seconds:.3g} s"
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
        return factorization_html(self)

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
        from nmfmerge import plot  # here, as it imports matplotlib

        if kind not in plot.FIGURES:
            expected = "one of " + ", ".join(plot.FIGURES)
            raise ArgumentError("kind", "is not a figure", value=kind, expected=expected)
        return plot.FIGURES[kind](self, *arguments, **options)

    def n_starts_found(self) -> np.ndarray:
        """From how many starts each component was found: similarity of at least 0.9."""
        if not self.starts:
            return np.ones(self.n_components, dtype=int)
        alike = np.stack([start.similarity for start in self.starts]) >= SAME_COMPONENT
        return alike.sum(axis=0)

    def found_always(self) -> list[int]:
        """Components that were found from every start."""
        return np.flatnonzero(self.n_starts_found() == max(1, len(self.starts))).tolist()
