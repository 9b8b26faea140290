"""Samples fitted by known signatures only."""

from typing import Any

from nmfmerge.arguments.values import Flag, Whole
from nmfmerge.jobs.mutations.activities import Activities, activities
from nmfmerge.jobs.mutations.catalogue import counts_in
from nmfmerge.jobs.mutations.reference import known_signatures


def refit(
    table: Any,
    reference: Any,
    *,
    sparse: bool = True,
    n_resamples: int = 100,
    random_state: int = 0,
) -> Activities:
    """Fit mutation counts by known signatures; none is looked for.

    Parameters
    ----------
    table : path, DataFrame or Dataset
        Counts, mutation types × samples or the other way round: SBS96, DBS78, ID83 or CNV48, in
        any order and in the common spellings.
    reference : path, DataFrame or Dataset
        Known signatures of the same types, such as those of COSMIC, which you download.
    sparse : bool
        Whether each sample is fitted by the few signatures that its counts need, instead of by
        all. A signature must raise the logarithm of the likelihood by ½ log N + log r, for N
        mutations of the sample and r known signatures.
    n_resamples : int
        How often the counts are resampled for the intervals; 0 for none.
    random_state : int
        Seed of the resampling.

    Returns
    -------
    Activities
        Mutations of each known signature in each sample.
    """
    sparse = Flag().check("sparse", sparse)
    n_resamples = Whole(0).check("n_resamples", n_resamples)
    random_state = Whole(0).check("random_state", random_state)
    counts = counts_in(table)
    known = known_signatures(reference, counts.kind)
    return activities(
        counts, known.counts, known.samples, sparse=sparse, n_resamples=n_resamples,
        random_state=random_state,
    )  # fmt: skip
