"""The result of `consensus`: at each rank the components that many fits agree on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.metrics import SAME_VECTOR
from nmfmerge.results.assessment import Assessment, Evidence, assess, largest_bend
from nmfmerge.results.factorization import Factorization
from nmfmerge.results.notebook import consensus_html
from nmfmerge.solvers.history import Status


@dataclass(frozen=True, eq=False, repr=False)
class RankConsensus:
    """The components that the fits at one rank agree on, sorted by their share, largest first.

    "The clustered side" is the factor whose components were matched across fits: H, or W with
    ``side="W"``. Its components sum to one. p is their length.

    Attributes
    ----------
    factorization : Factorization
        W and H of the consensus: on the clustered side the medians of the matched components, on
        the other their weights in X, by nonnegative least squares or Poisson regression.
    side : {"H", "W"}
        The clustered side.
    low, high : arrays (r, p)
        Bands of the clustered components: 5th and 95th percentiles over the fits, outliers left
        out.
    silhouettes : array (r,)
        How well each component is separated from the next one, over all fits, by cosine distance:
        1 if it is the same in all of them, about 0 if it is no closer to its own kind.
    likeness : array (r,)
        Mean cosine of the component of a fit with that of the consensus, over all fits.
    density : array (n_fits, r)
        Local density of each component: its mean distance to the nearest among those of all fits.
    labels : int array (n_fits, r)
        The component of the consensus that each belongs to; −1 for outliers.
    matches : int array (n_fits, r)
        The same with outliers, too: each fit has every component once.
    cosines : array (n_fits, r)
        Cosine of each component of a fit, in the order of the fit, with the one it is matched to.
    components : array (n_fits, r, p) or None
        The components of all fits, of unit norm; None where they would take much memory.
    errors : array (n_fits,)
        Fitting error of each fit, of the data that it fitted, in percent.
    n_iter : int array (n_fits,)
        Iterations of each fit.
    density_threshold : float
        Local density above which a component is an outlier.
    penalty, structure, fitted_error : float
        Of a fit of X that begins with the consensus: the penalty of its cheapest merge, the
        structure it leaves, and its error; see `RankPath`. NaN where the run was stopped.
    """

    factorization: Factorization
    side: str
    low: np.ndarray
    high: np.ndarray
    silhouettes: np.ndarray
    likeness: np.ndarray
    density: np.ndarray
    labels: np.ndarray
    matches: np.ndarray
    cosines: np.ndarray
    components: np.ndarray | None
    errors: np.ndarray
    n_iter: np.ndarray
    density_threshold: float
    penalty: float = np.nan
    structure: float = np.nan
    fitted_error: float = np.nan

    @property
    def n_components(self) -> int:
        """Number of components, the rank."""
        return self.factorization.n_components

    @property
    def n_fits(self) -> int:
        """Number of fits."""
        return len(self.errors)

    @property
    def W(self) -> np.ndarray:
        """W of the consensus (m × r)."""
        return self.factorization.W

    @property
    def H(self) -> np.ndarray:
        """H of the consensus (r × n)."""
        return self.factorization.H

    @property
    def fitting_error(self) -> float:
        """Fitting error of the consensus, in percent."""
        return self.factorization.fitting_error

    @property
    def silhouette(self) -> float:
        """Mean of the silhouettes."""
        return float(self.silhouettes.mean())

    @property
    def least_silhouette(self) -> float:
        """The least of the silhouettes."""
        return float(self.silhouettes.min())

    @property
    def agreement(self) -> float:
        """Share of fits that have all components: each with a cosine of at least 0.95."""
        return float((self.cosines >= SAME_VECTOR).all(axis=1).mean())

    @property
    def n_outliers(self) -> int:
        """Number of components of fits that were left out."""
        return int((self.labels < 0).sum())

    def n_found(self) -> np.ndarray:
        """In how many fits each component was found: with a cosine of at least 0.95."""
        found = self.matches[self.cosines >= SAME_VECTOR]
        return np.bincount(found, minlength=self.n_components)

    def __repr__(self) -> str:
        return (
            f"RankConsensus of {self.n_fits} fits at rank {self.n_components}: "
            f"{_in_words(self)}, fitting error {self.fitting_error:.6g} %"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Consensus:
    """The consensus of many fits at several ranks: ``result[7]`` is that of rank 7.

    Iterating over it gives the ranks, ascending.

    Attributes
    ----------
    results : tuple of RankConsensus
        One for each rank, ascending.
    resample : str or None
        How the data of each fit were drawn from X.
    merge : bool
        Whether the fits are by NMF-Merge.
    status : Status
        Whether all fits converged, or what stopped the run.
    seconds : float
        Wall time of the run.
    """

    results: Sequence[RankConsensus]
    resample: str | None
    merge: bool
    status: Status
    seconds: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "results", tuple(self.results))
        if not self.results:
            raise ValueError("a consensus needs at least one rank")
        if list(self.ranks) != sorted(set(self.ranks)):
            raise ValueError("the ranks of a consensus must rise")

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks, ascending."""
        return tuple(result.n_components for result in self.results)

    @property
    def converged(self) -> bool:
        """True if all fits were made and reached the tolerance."""
        return self.status is Status.CONVERGED

    def at(self, rank: int) -> RankConsensus:
        """The consensus at one rank."""
        if rank not in self.ranks:
            raise ArgumentError(
                "rank", "was not fitted", value=rank,
                expected="one of " + ", ".join(map(str, self.ranks)),
            )  # fmt: skip
        return self.results[self.ranks.index(rank)]

    def __getitem__(self, rank: int) -> RankConsensus:
        if rank not in self.ranks:
            known = ", ".join(map(str, self.ranks))
            raise KeyError(f"rank {rank!r} was not fitted; there are {known}")
        return self.at(rank)

    def __iter__(self) -> Iterator[int]:
        return iter(self.ranks)

    def __len__(self) -> int:
        return len(self.results)

    def __contains__(self, rank: object) -> bool:
        return rank in self.ranks

    def assess(self) -> Assessment:
        """The assessment of the rank, as that of a rank path, with the stability of the fits."""
        return assess(self.evidence())

    @property
    def first_choice(self) -> int:
        """The rank to look at first: the assessed one, else that of the most pronounced bend."""
        evidence = self.evidence()
        return assess(evidence).rank or largest_bend(evidence)

    def evidence(self) -> Evidence:
        """The input of the assessment, of the longest run of consecutive ranks."""
        run = self._consecutive()
        first = run[0].factorization
        ranks, errors, penalties, structure, stability = (
            np.array(values)
            for values in zip(
                *(
                    (r.n_components, r.fitted_error, r.penalty, r.structure, r.likeness.min())
                    for r in run
                ),
                strict=True,
            )
        )
        return Evidence(
            ranks, errors, penalties, structure, stability, (len(first.W), first.H.shape[1]),
            first.loss, "fits",
        )  # fmt: skip

    def _consecutive(self) -> Sequence[RankConsensus]:
        runs: list[list[RankConsensus]] = []
        for result in self.results:
            if not runs or result.n_components != runs[-1][-1].n_components + 1:
                runs.append([])
            runs[-1].append(result)
        return max(runs, key=len)

    def table(self) -> list[dict[str, Any]]:
        """One row for each rank, for a data frame or a file."""
        return [
            {
                "rank": result.n_components,
                "n_fits": result.n_fits,
                "fitting_error": result.fitting_error,
                "median_error_of_fits": float(np.median(result.errors)),
                "silhouette": result.silhouette,
                "least_silhouette": result.least_silhouette,
                "agreement": result.agreement,
                "n_outliers": result.n_outliers,
            }
            for result in self.results
        ]

    def plot(self, rank: int | None = None) -> Any:
        """Draw stability and error against rank, or with a rank the components of all its fits.

        Parameters
        ----------
        rank : int, optional
            A rank, for the figure of all components of its fits, by cluster.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from nmfmerge import plot  # here, as it imports matplotlib

        return plot.consensus(self) if rank is None else plot.clustergram(self.at(rank))

    def __repr__(self) -> str:
        first = self.results[0]
        m, n = len(first.W), first.H.shape[1]
        n_fits = max(result.n_fits for result in self.results)
        head = (
            f"Consensus of {n_fits} fits at {_which(self.ranks)} of a {m} × {n} matrix: "
            f"{self.status}, {self.seconds:.3g} s\n"
            "  rank  fitting error  silhouette  least  all components found  outliers"
        )
        lines = [
            f"  {r.n_components:>4} {r.fitting_error:>12.6g} % {r.silhouette:>11.3f} "
            f"{r.least_silhouette:>6.2f} {f'in {100 * r.agreement:.0f} % of fits':>21} "
            f"{r.n_outliers:>9}"
            for r in self.results
        ]
        return "\n".join([head, *lines])

    def _repr_html_(self) -> str:
        return consensus_html(self)


def _which(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"each of {len(ranks)} ranks"


def _in_words(result: RankConsensus) -> str:
    return (
        f"silhouette {result.silhouette:.3f} (least {result.least_silhouette:.2f}), all components "
        f"in {100 * result.agreement:.0f} % of fits"
    )
