"""Early ends of runs and rank paths: limits, Ctrl-C, lost data, and the warnings for them."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from nmfmerge.arguments.errors import Message
from nmfmerge.backends.numba import one_blas_thread
from nmfmerge.matrices import DataMatrix
from nmfmerge.results.factorization import Factorization
from nmfmerge.solvers import Limits, Stopped
from nmfmerge.solvers.history import Status


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run; ``factorization`` holds the best factors so far."""

    def __init__(self, factorization: Factorization) -> None:
        super().__init__(
            f"interrupted after {factorization.n_iter} iterations; the factors so far are in the "
            "attribute `factorization` of this exception (in an interactive session: "
            "sys.last_value.factorization)"
        )
        self.factorization = factorization

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.factorization,)


@contextmanager
def computing(data: DataMatrix, limits: Limits, plan: Mapping[str, float]) -> Iterator[Limits]:
    """Context of a computation: limits with a progress bar; caches of X are freed at the end.

    In this context BLAS has one thread.
    """
    limits = limits.with_bar(plan)
    try:
        with one_blas_thread():
            yield limits
    finally:
        limits.close_bar()
        data.release()


def until_stopped(work: Callable[[], object], has_result: Callable[[], bool]) -> Status | None:
    """Call ``work``; return the status that stopped it, or None.

    Ctrl-C is raised again if there is no result to keep.
    """
    try:
        work()
    except Stopped as stop:
        return stop.status
    except KeyboardInterrupt:
        if not has_result():
            raise
        return Status.INTERRUPTED
    return None


def warn_not_converged(message: Message, stacklevel: int) -> None:
    """Warn as scikit-learn does."""
    from sklearn.exceptions import ConvergenceWarning  # loads SciPy's statistics: a second

    warnings.warn(ConvergenceWarning(message), stacklevel=stacklevel + 1)
