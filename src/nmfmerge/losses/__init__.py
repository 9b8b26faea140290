"""The objective and all that depends on it: merging, recovery of components, known weights.

Each loss has a file with its value and its weights for known components, and beside it one for its
merge, one for its recovery and one for its previews of edits. `greedy` is the merge itself, which
asks the loss what a pair costs. `Problem` puts a matrix, a loss, a penalty and held components
together. A new loss is one file here, or anywhere else, that calls `register`.
"""

from nmfmerge import settings
from nmfmerge.losses.base import Form, Loss, Recovered
from nmfmerge.losses.frobenius import FROBENIUS
from nmfmerge.losses.kullback_leibler import KULLBACK_LEIBLER
from nmfmerge.losses.penalties import NO_PENALTY, Penalty
from nmfmerge.losses.problem import Problem
from nmfmerge.losses.weighted_squares import WEIGHTED_SQUARES

LOSSES: dict[str, Loss] = {}


def register(loss: Loss) -> None:
    """Make a loss known by its name, as a value of ``beta_loss``."""
    LOSSES[loss.name] = loss
    settings.allow("beta_loss", loss.name, loss.abbreviation)


FROBENIUS.weighted = WEIGHTED_SQUARES
register(FROBENIUS)
register(KULLBACK_LEIBLER)

__all__ = [
    "FROBENIUS",
    "KULLBACK_LEIBLER",
    "LOSSES",
    "NO_PENALTY",
    "WEIGHTED_SQUARES",
    "Form",
    "Loss",
    "Penalty",
    "Problem",
    "Recovered",
    "register",
]
