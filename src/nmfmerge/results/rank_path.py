"""The result of `rank_path`: a `Factorization` for every rank, and criteria to compare ranks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nmfmerge.results.assessment import Assessment, Evidence, assess, largest_bend
from nmfmerge.results.factorization import Factorization
from nmfmerge.results.notebook import path_html
from nmfmerge.solvers.history import Status

_OPTIONAL = ("stability", "structure", "held_out", "held_out_error")
_ARRAYS = ("penalties", "rank_seconds", *_OPTIONAL)


def two_digits(error: float) -> str:
    """A standard error at two digits; without an exponent below a million."""
    return f"{float(f'{error:.2g}'):g}"


@dataclass(frozen=True, eq=False, repr=False)
class RankPath(Mapping[int, Factorization]):
    """Factorizations of one matrix at consecutive ranks; their error never rises with rank.

    A mapping from rank to `Factorization`, ranks ascending: ``path[7]``, ``len(path)``,
    ``7 in path``, ``for rank, result in path.items()``.

    Attributes
    ----------
    factorizations : tuple of Factorization
        One for each rank, ascending.
    penalties : array (n_ranks,)
        Change of WH by the cheapest merge of two components, from each rank to the next lower
        one: squared distance in percent of ‖X‖², or divergence in percent of the deviance of
        the margins. NaN for the lowest rank.
    rank_seconds : array (n_ranks,)
        Time spent on each rank.
    seconds : float
        Wall time of the whole path.
    status : Status
        Whether every rank converged, or what stopped the run.
    stability : array (n_ranks,)
        Smallest cosine between matched components from both halves of the data; NaN where it was
        not measured.
    structure : array (n_ranks,)
        Largest squared singular value of X − WH, divided by that of X − WH with random signs: about
        1 where only noise is left, above 1.5 where components are missing. NaN where X is streamed,
        or the search was stopped.
    held_out : array (n_ranks,)
        Error in percent at entries that no fit has seen, the mean over several masks; NaN where
        none were held out.
    held_out_error : array (n_ranks,)
        Its standard error.
    """

    factorizations: Sequence[Factorization]
    penalties: np.ndarray
    rank_seconds: np.ndarray
    seconds: float
    status: Status
    stability: np.ndarray = field(default_factory=lambda: np.empty(0))
    structure: np.ndarray = field(default_factory=lambda: np.empty(0))
    held_out: np.ndarray = field(default_factory=lambda: np.empty(0))
    held_out_error: np.ndarray = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        object.__setattr__(self, "factorizations", tuple(self.factorizations))
        for name in _OPTIONAL:
            if getattr(self, name).size == 0:
                object.__setattr__(self, name, np.full(len(self.factorizations), np.nan))
        for name in _ARRAYS:
            values = np.array(getattr(self, name), dtype=np.float64)
            values.flags.writeable = False
            object.__setattr__(self, name, values)
        self._check()

    def _check(self) -> None:
        results = self.factorizations
        if not results:
            raise ValueError("a rank path needs at least one factorization")
        lowest = results[0].n_components
        for step, result in enumerate(results):
            if result.n_components != lowest + step:
                raise ValueError("the ranks of a path must rise by one")
            if (len(result.W), result.H.shape[1]) != (len(results[0].W), results[0].H.shape[1]):
                raise ValueError("all factorizations of a path must be of one matrix")
        if (np.diff(self.fitting_errors) > 0).any():
            raise ValueError("the fitting error of a path must not rise with rank")
        for name in _ARRAYS:
            if getattr(self, name).shape != (len(results),):
                raise ValueError(f"a rank path needs one entry of {name} for each rank")

    @property
    def ranks(self) -> np.ndarray:
        """The ranks, ascending."""
        return np.arange(len(self)) + self.factorizations[0].n_components

    @property
    def fitting_errors(self) -> np.ndarray:
        """The fitting error at each rank, in percent."""
        return np.array([result.fitting_error for result in self.factorizations])

    @property
    def converged(self) -> bool:
        """True if the search was finished and every rank reached the tolerance."""
        return self.status is Status.CONVERGED

    def assess(self) -> Assessment:
        """The assessment of the rank: one rank stands out, a range does, or none does.

        ``stability=True`` in `rank_path` gives one more criterion to judge by.
        """
        return assess(self.evidence())

    @property
    def first_choice(self) -> int:
        """The rank to look at first: the assessed one, else that of the most pronounced bend."""
        return self.assess().rank or largest_bend(self.evidence())

    def evidence(self) -> Evidence:
        """The input of the assessment."""
        first = self.factorizations[0]
        return Evidence(
            self.ranks, self.fitting_errors, self.penalties, self.structure, self.stability,
            (len(first.W), first.H.shape[1]), first.loss,
        )  # fmt: skip

    def plot(self, rank: int | None = None) -> Any:
        """Draw error, merge penalty and stability against rank: `nmfmerge.plot.rank_path`.

        Parameters
        ----------
        rank : int, optional
            A rank to mark; default the one of the assessment.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from nmfmerge import plot  # here, as it imports matplotlib

        return plot.rank_path(self, rank)

    def _repr_html_(self) -> str:
        return path_html(self)

    def __getitem__(self, rank: int) -> Factorization:
        lowest = self.factorizations[0].n_components
        if not isinstance(rank, int | np.integer) or not 0 <= rank - lowest < len(self):
            raise KeyError(
                f"rank {rank!r} is not on this path, which goes from {lowest} to "
                f"{lowest + len(self) - 1}"
            )
        return self.factorizations[rank - lowest]

    def __iter__(self) -> Iterator[int]:
        return iter(self.ranks.tolist())

    def __len__(self) -> int:
        return len(self.factorizations)

    def __repr__(self) -> str:
        first = self.factorizations[0]
        head = (
            f"RankPath of a {len(first.W)} × {first.H.shape[1]} matrix, ranks {self.ranks[0]} to "
            f"{self.ranks[-1]}: {self.status}, {self.seconds:.3g} s\n"
            "  rank  fitting error  merge penalty   seconds"
            + ("" if np.isnan(self.held_out).all() else "            held out")
        )
        lines = [
            f"  {rank:>4} {result.fitting_error:>12.6g} % "
            + (f"{'':>14}" if np.isnan(penalty) else f"{penalty:>12.4g} %")
            + f" {seconds:>9.3g}"
            + ("" if np.isnan(held) else f"{held:>12.6g} ± {two_digits(error)} %")
            for rank, result, penalty, seconds, held, error in zip(
                self.ranks,
                self.factorizations,
                self.penalties,
                self.rank_seconds,
                self.held_out,
                self.held_out_error,
                strict=True,
            )
        ]
        return "\n".join([head, *lines])
