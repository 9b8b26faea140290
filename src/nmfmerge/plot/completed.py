"""X for a picture, with WH in the place of what is missing.

Input: X as it was fitted, dense or sparse, and what says which of its entries are missing. Output:
a matrix that may lack WH, which is then added to its averages, so that a sparse X stays sparse.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from nmfmerge.inputs.check import check_fit, check_X_on_host
from nmfmerge.inputs.missing import check_weights
from nmfmerge.matrices.low_rank import LowRankPlus
from nmfmerge.matrices.weighted import EntryWeights

if TYPE_CHECKING:
    from nmfmerge.results.factorization import Factorization


class Completed(NamedTuple):
    """X with WH where an entry is missing."""

    X: Any
    lacks_fit: bool = False  # X is to have WH added
    weights: EntryWeights | None = None  # 0 where an entry is missing, 1 elsewhere


def completed(X: Any, result: "Factorization", weights: Any, missing: str) -> Completed:
    """Complete X; returned unchanged if nothing was missing in the fit."""
    if result.n_missing == 0:
        return Completed(X)
    seen = None if weights is None else check_weights(weights, X.shape).values > 0
    data = check_X_on_host(X, "a figure", seen, missing)
    if data.weights is None:
        return Completed(X)
    full: Any = data.completed(*check_fit(result.W, result.H, data, result.n_components))
    lacks_fit = isinstance(full, LowRankPlus)
    X = full.stored.X if lacks_fit else full.X
    return Completed(X * data.unit**2, lacks_fit, data.weights)
