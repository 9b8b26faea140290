"""Mutational signatures from counts: fits of resampled counts at several ranks, and a choice."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nmfmerge import settings
from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.arguments.values import Whole
from nmfmerge.backends.numba import at_most
from nmfmerge.consensus.engine import ConsensusInterrupted
from nmfmerge.consensus.start import consensus
from nmfmerge.jobs.mutations.activities import Activities, activities
from nmfmerge.jobs.mutations.catalogue import Catalogue, counts_in, usual_limit
from nmfmerge.jobs.mutations.choice import Stability, chosen, stability_of
from nmfmerge.jobs.mutations.reference import (
    Match,
    Part,
    decomposition,
    known_signatures,
    matches,
)
from nmfmerge.method.stop import Interrupted
from nmfmerge.results.consensus import Consensus, RankConsensus

if TYPE_CHECKING:
    from nmfmerge.solvers.limits import Callback

_OF_CONSENSUS = (
    "n_fits", "merge", "max_time", "random_state", "callback", "checkpoint", "device", "verbose"
)  # fmt: skip
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, eq=False)
class Signatures:
    """Mutational signatures found in counts.

    Attributes
    ----------
    activities : Activities
        Mutations of each signature in each sample, with intervals; and the signatures.
    low, high : arrays (n_types, r)
        Bands of the signatures: 5th and 95th percentiles over the fits of resampled counts.
    stability : tuple of Stability
        How stable the signatures of each rank are.
    reason : str
        Why this number of signatures was chosen.
    consensus : Consensus
        The fits of all ranks.
    hypermutated : tuple of str
        Samples with more than ten times as many mutations as the median.
    handling : str
        How these were handled: "cap", "keep" or "drop".
    matches, parts : tuple of Match and of Part
        The signatures beside the known ones of a reference; empty without one.
    """

    activities: Activities
    low: np.ndarray = field(repr=False)
    high: np.ndarray = field(repr=False)
    stability: tuple[Stability, ...]
    reason: str
    consensus: Consensus
    hypermutated: tuple[str, ...] = ()
    handling: str = "cap"
    matches: tuple[Match, ...] = ()
    parts: tuple[Part, ...] = ()

    @property
    def catalogue(self) -> Catalogue:
        """The counts."""
        return self.activities.catalogue

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the signatures, such as "SBS96A"; the first has the most mutations."""
        return self.activities.names

    @property
    def signatures(self) -> np.ndarray:
        """The signatures (n_types × r); each adds up to 1."""
        return self.activities.signatures

    def plot(self) -> Any:
        """Draw the signatures with their bands; see `nmfmerge.plot.signatures`."""
        from nmfmerge import plot  # here, as it imports matplotlib

        return plot.signatures(
            self.signatures, self.catalogue.kind.types, self.names, low=self.low, high=self.high
        )

    def __repr__(self) -> str:
        n = len(self.catalogue.samples)
        head = (
            f"{len(self.names)} signatures of {self.catalogue.kind.name} in {n} samples: median "
            f"cosine {np.median(self.activities.cosine):.3f}"
        )
        known = [f"  {m.signature}: {m.known} (cosine {m.cosine:.3f})" for m in self.matches]
        return "\n".join([head, f"  {self.reason}", *known])


class SignaturesInterrupted(Interrupted):
    """Ctrl-C during `signatures`; its ``signatures`` are those of the fits that were finished."""

    def __init__(self, signatures: Signatures) -> None:
        KeyboardInterrupt.__init__(
            self,
            "interrupted; the signatures of the finished fits are in the attribute `signatures` of "
            "this exception (in an interactive session: sys.last_value.signatures)",
        )
        self.signatures = signatures
        self.factorization = signatures.consensus.results[-1].factorization

    def __reduce__(self) -> tuple[type, tuple[Any]]:
        return type(self), (self.signatures,)


def signatures(
    table: Any,
    max_signatures: int = 15,
    *,
    min_signatures: int = 1,
    n_signatures: int | None = None,
    n_fits: int = 100,
    merge: bool = True,
    hypermutated: str = "cap",
    choose: str = "stability",
    reference: Any = None,
    n_resamples: int = 100,
    max_time: float | None = None,
    random_state: int | None = None,
    callback: "Callback | None" = None,
    checkpoint: Any = None,
    n_jobs: int | None = None,
    device: Any = None,
    verbose: int = 0,
) -> Signatures:
    """Find mutational signatures in a table of mutation counts.

    The counts are resampled many times from Poisson distributions, and fitted at each rank by the
    Kullback–Leibler loss, which is their likelihood. The signatures of all fits of a rank are
    matched and their medians taken; a number of signatures is chosen by their stability; and every
    sample is fitted by the few signatures that its counts need.

    Parameters
    ----------
    table : path, DataFrame or Dataset
        Counts, mutation types × samples or the other way round: SBS96, DBS78, ID83 or CNV48, in
        any order and in the common spellings.
    max_signatures, min_signatures : int
        Numbers of signatures to try; no more than there are samples.
    n_signatures : int, optional
        How many to take; default: as ``choose`` says.
    n_fits : int
        Fits at each rank, each of other resampled counts.
    merge : bool
        Whether the fits are by NMF-Merge, or by standard NMF, which is faster, but may end in a
        worse solution from some starts: the signatures then look less stable than they are.
    hypermutated : {"cap", "keep", "drop"}
        How samples with more than ten times as many mutations as the median are used to find
        signatures: with their counts scaled down to that limit, unchanged, or not at all. All
        samples get activities.
    choose : {"stability", "assessment"}
        How the number of signatures is chosen: the highest one that is stable in the sense of
        SigProfiler (mean silhouette at least 0.8, least 0.2, sum 1.0), or the assessment of
        `nmfmerge.consensus`.
    reference : path, DataFrame or Dataset, optional
        Known signatures of the same types, such as those of COSMIC, which you download. The found
        ones are matched with them and taken apart into them.
    n_resamples : int
        How often the counts are resampled for the intervals of the activities; 0 for none.
    max_time : float, optional
        Maximum time in seconds of all fits; the signatures are then of those that were finished.
    random_state : int, optional
        Seed of the fits and the resampling; None is a fixed seed.
    callback, checkpoint, n_jobs, device, verbose
        As in `nmfmerge.consensus`.

    Returns
    -------
    Signatures

    Raises
    ------
    SignaturesInterrupted
        On Ctrl-C, a kind of `Interrupted`; its ``signatures`` are those of the finished fits.
    """
    given = settings.checked("signatures", locals())
    choose, n_resamples = given["choose"], given["n_resamples"]
    given["random_state"] = Whole(0).check("random_state", random_state or 0)
    counts = counts_in(table)
    known = None if reference is None else known_signatures(reference, counts.kind)
    X, above = _for_fits(counts, given["hypermutated"])
    ranks = _ranks(given["min_signatures"], given["max_signatures"], given["n_signatures"], X.shape)

    def made(found: Consensus) -> Signatures:
        return _made(
            counts, found, n_signatures, choose, n_resamples, given["random_state"],
            tuple(np.array(counts.samples, dtype=object)[above]), given["hypermutated"], known,
        )  # fmt: skip

    with at_most(given["n_jobs"]):
        try:
            found = consensus(
                X, ranks, resample="poisson", side="W", beta_loss="kullback-leibler",
                **{name: given[name] for name in _OF_CONSENSUS},
            )  # fmt: skip
        except ConsensusInterrupted as interrupted:
            raise SignaturesInterrupted(made(interrupted.consensus)) from None
        return made(found)


def _made(
    counts: Catalogue,
    found: Consensus,
    n_signatures: int | None,
    choose: str,
    n_resamples: int,
    random_state: int,
    above: tuple[str, ...],
    handling: str,
    known: Catalogue | None,
) -> Signatures:
    """The signatures of one rank of a consensus, with their activities."""
    stability = stability_of(found)
    if n_signatures is None:
        n_signatures, reason = chosen(found, stability, choose)
    else:
        reason = f"{n_signatures} signatures were asked for."
    best = found.at(n_signatures)
    fitted, order = _fitted(counts, best, n_resamples, random_state)
    sums = best.W.sum(axis=0)
    W, names = fitted.signatures, fitted.names
    return Signatures(
        fitted,
        (best.low.T / sums)[:, order],
        (best.high.T / sums)[:, order],
        stability,
        reason,
        found,
        above,
        handling,
        () if known is None else tuple(matches(W, names, known)),
        () if known is None else tuple(decomposition(W, names, known)),
    )


def _for_fits(counts: Catalogue, hypermutated: str) -> tuple[np.ndarray, np.ndarray]:
    """The counts that signatures are looked for in, and which samples are hypermutated."""
    limit, X = usual_limit(counts.totals), counts.counts
    above = counts.totals > limit
    if hypermutated == "cap":
        X = X * np.minimum(1.0, limit / counts.totals)
    elif hypermutated == "drop":
        X = X[:, ~above]
    return np.ascontiguousarray(X), above


def _ranks(
    least: int, most: int, n_signatures: int | None, shape: tuple[int, int]
) -> tuple[int, ...]:
    """The numbers of signatures to fit."""
    highest = min(shape)
    if n_signatures is not None:
        least = most = n_signatures
        if most > highest:
            raise ArgumentError(
                "n_signatures", "is too high", value=n_signatures,
                expected=f"at most {highest}, with {shape[1]} samples",
            )  # fmt: skip
    if least > min(most, highest):
        raise ArgumentError(
            "min_signatures", "is too high", value=least,
            expected=f"at most {min(most, highest)}, with {shape[1]} samples",
        )  # fmt: skip
    return tuple(range(least, min(most, highest) + 1))


def _fitted(
    counts: Catalogue, best: RankConsensus, n_resamples: int, seed: int
) -> tuple[Activities, Sequence[int]]:
    """The activities, and the order of the signatures in them: the one with most mutations first.

    Names are those that SigProfiler gives.
    """
    names = [f"{counts.kind.name}{letters(i)}" for i in range(best.n_components)]
    fitted = activities(
        counts, best.W, names, sparse=True, n_resamples=n_resamples, random_state=seed
    )  # fmt: skip
    order = np.argsort(-fitted.values.sum(axis=1), kind="stable").tolist()
    return fitted.only(order, names), order


def letters(i: int) -> str:
    """A, B, …, Z, AA, AB, …."""
    above = i // len(_LETTERS)
    return (letters(above - 1) if above else "") + _LETTERS[i % len(_LETTERS)]
