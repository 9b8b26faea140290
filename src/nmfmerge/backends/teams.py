"""A team: the threads of one fit, of which no more work at a time than the fit may use.

It is known to each of its threads, so that work shared out within shared work finds the same team.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local

from nmfmerge.backends.blas import blas
from nmfmerge.machine import cores


class Team:
    """A number of threads, the one that makes the team among them.

    The helpers of a team within another are helpers of both. Only the pool, which has a lock,
    changes how many are idle.
    """

    def __init__(self, size: int, outer: "Team | None" = None) -> None:
        self.size: int = size if outer is None else min(size, outer.size)
        self._outer, self._idle = outer, self.size - 1

    @property
    def idle(self) -> int:
        """How many more threads may help."""
        return self._idle if self._outer is None else min(self._idle, self._outer.idle)

    def add_idle(self, n: int) -> None:
        """Note that n helpers have ended, or begun where it is negative."""
        self._idle += n
        if self._outer is not None:
            self._outer.add_idle(n)


_THREAD = local()  # with the team of this thread


def present_team() -> Team | None:
    """The team of this thread; None outside of any fit."""
    return getattr(_THREAD, "team", None)


@contextmanager
def in_team(team: Team | None) -> Iterator[None]:
    """Let this thread work in a team."""
    before, _THREAD.team = present_team(), team
    try:
        yield
    finally:
        _THREAD.team = before


@contextmanager
def at_most(n_jobs: int | None) -> Iterator[None]:
    """Let this thread, with its helpers, be no more than ``n_jobs`` threads.

    None is as many as the process may use, or as the present team has. A number below zero counts
    from there, as in scikit-learn: −1 is all of them, −2 all but one.
    """
    team = present_team()
    if n_jobs is not None or team is None:
        most = process_threads()
        n = most if n_jobs is None else n_jobs if n_jobs > 0 else max(1, most + 1 + n_jobs)
        team = Team(min(n, most), team)
    with in_team(team):
        yield


def process_threads() -> int:
    """Threads that fits may use: cores, OMP_NUM_THREADS, threadpoolctl and joblib decide."""
    return min(cores(), blas().available())


def available_threads() -> int:
    """The same for this thread; those of its team, which were counted when it was made."""
    team = present_team()
    return process_threads() if team is None else team.size
