"""The record of an iteration: its stage, its status, and the history of its steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np


class Status(StrEnum):
    """How a run, or a stage of one, ended."""

    CONVERGED = "converged"
    MAX_ITER = "max_iter"
    MAX_TIME = "max_time"
    CALLBACK = "callback"
    INTERRUPTED = "interrupted"
    DONE = "done"  # a stage that does not iterate


class StageName(StrEnum):
    """All stages of fits, rank paths and edits."""

    START = "start"
    INITIAL = "initial"
    RECOVER = "recover"
    OVERCOMPLETE = "overcomplete"
    MERGE = "merge"
    FINAL = "final"
    # by hand, in an editor
    ADD = "add"
    SPLIT = "split"
    REMOVE = "remove"
    POLISH = "polish"

    def __repr__(self) -> str:
        return repr(self.value)


STAGES_OF_NMF = (StageName.START, StageName.FINAL)
STAGES_OF_MERGE = (
    StageName.START,
    StageName.INITIAL,
    StageName.RECOVER,
    StageName.OVERCOMPLETE,
    StageName.MERGE,
    StageName.FINAL,
)


@dataclass(frozen=True, eq=False)
class History:
    """The record of each iteration of a stage.

    Attributes
    ----------
    step : array (n_iter,)
        Largest relative displacement of a component, the quantity compared with ``tol``.
    seconds : array (n_iter,)
        Time since the run began.
    fitting_error : array (n_iter,)
        Fitting error in percent where a callback read it, NaN elsewhere.
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
