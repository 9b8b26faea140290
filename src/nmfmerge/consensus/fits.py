"""All fits of a consensus: shared out over threads, or in batches on a device.

Fit i of a rank depends on the seed, i and the rank alone. So its bits are the same for any number
of threads, for more or fewer fits, and after a run that was killed and continued.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np

from nmfmerge.backends.numba import share
from nmfmerge.backends.threads import available_threads
from nmfmerge.consensus.checkpoint import FitsFile
from nmfmerge.consensus.fit import Fit, Method
from nmfmerge.consensus.resample import Resampler
from nmfmerge.matrices import DataMatrix, SparseData
from nmfmerge.matrices.sketch import Sketch, sketch
from nmfmerge.method.run import stays_together
from nmfmerge.solvers import Limits
from nmfmerge.solvers.history import Status

_BATCH_BYTES = 2**31  # of the factors and products of fits that are one batch
_COLUMNS = 96  # of the factors of fits that a sparse X is multiplied with at once
_ARRAYS = 6  # factors, products and state, in units of the factors
FITS = "fits"  # the stage of the bar


@dataclass(frozen=True)
class FitProgress:
    """The argument of the callback: the fits that were just finished.

    Attributes
    ----------
    rank : int
        Their rank.
    n_done, n_fits : int
        Fits of all ranks that are finished, and how many there will be.
    fitting_error : float
        The least error of those just finished, in percent.
    seconds : float
        Time since the run began.
    """

    rank: int
    n_done: int
    n_fits: int
    fitting_error: float
    seconds: float

    def __str__(self) -> str:
        return (
            f"fit {self.n_done} of {self.n_fits}, rank {self.rank}: "
            f"{self.fitting_error:.6g} %, {self.seconds:.1f} s"
        )


class Fits:
    """The fits of a consensus, by rank and number.

    Parameters
    ----------
    method : Method
        How each is made.
    resampler : Resampler
        The data of each.
    ranks : tuple of int
    n_fits : int
        At each rank.
    seed : int
        Seed of all starts.
    limits : Limits
        Its callback is called after each fit.
    file : FitsFile, optional
        Where finished fits are kept.
    """

    def __init__(
        self,
        method: Method,
        resampler: Resampler,
        ranks: tuple[int, ...],
        n_fits: int,
        seed: int,
        limits: Limits,
        file: FitsFile | None = None,
    ) -> None:
        self.method, self.resampler, self.ranks, self.n_fits = method, resampler, ranks, n_fits
        self.limits, self._seed, self._file = limits, seed, file
        self.found: dict[tuple[int, int], Fit] = {}
        self.stopped: Status | None = None
        self._n_done = 0
        self._lock, self._sketch_lock = Lock(), Lock()
        self._sketches: dict[int, Sketch | None] = {}

    def run(self) -> None:
        """Make all fits that are not in the checkpoint; a stop keeps those that are finished."""
        with self._locked_file():
            self.found = {} if self._file is None else self._file.load()
            self._n_done = sum(len(self.of(rank)) for rank in self.ranks)
            jobs = self._jobs()
            single = replace(self.limits, callback=None, verbose=0, bar=None)
            # A callback belongs to this thread, and a device has one queue.
            alone = self.limits.callback is not None or self.resampler.on_device
            threads = 1 if alone else None
            try:
                share(
                    lambda i: self._do(*jobs[i], single), len(jobs), threads,
                    on_interrupt=lambda: self.limits.halt(Status.INTERRUPTED),
                )  # fmt: skip
            except KeyboardInterrupt:
                self.limits.halt(Status.INTERRUPTED)
            finally:
                if self._file is not None and self._n_done > 0:
                    self._file.save(self.found)
            if self._n_done < len(self.ranks) * self.n_fits:
                self.stopped = self.limits.reason()

    def of(self, rank: int) -> list[Fit]:
        """The finished fits of a rank, in their order."""
        known = ((rank, i) for i in range(self.n_fits))
        return [self.found[key] for key in known if key in self.found]

    def _locked_file(self) -> AbstractContextManager[object]:
        return nullcontext() if self._file is None else self._file

    def _jobs(self) -> list[tuple[int, list[int]]]:
        """Ranks with the numbers of fits that are one batch; the first fits of all ranks first."""
        jobs = []
        for rank in sorted(self.ranks, reverse=True):
            left = [i for i in range(self.n_fits) if (rank, i) not in self.found]
            size = self._batch_size(rank)
            jobs += [(rank, left[i : i + size]) for i in range(0, len(left), size)]
        return sorted(jobs, key=lambda job: (job[1][0], -job[0]))

    def _batch_size(self, rank: int) -> int:
        """How many fits are one batch: on a device all that it has room for."""
        data = self.resampler.whole
        if data is None:
            return 1  # each fit has its own data
        if not stays_together(self.method.problem(data)):
            return self._read_together(data, rank)
        each = _ARRAYS * rank * sum(data.shape) * data.dtype.itemsize
        return int(max(1, min(self.n_fits, _BATCH_BYTES // each)))

    def _read_together(self, data: DataMatrix, rank: int) -> int:
        """How many fits in memory a thread makes at once, so that X is read once for all of them.

        Sparse products with several factors have the same bits as those with one; products of BLAS
        do not. All threads have something to do.
        """
        single = not isinstance(data, SparseData) or data.for_passes(rank) is not None
        if single or not self.method.is_of_products:
            return 1
        of_thread = -(-len(self.ranks) * self.n_fits // available_threads())
        return max(1, min(_COLUMNS // rank, of_thread, self.n_fits))

    def _do(self, rank: int, numbers: list[int], limits: Limits) -> None:
        if limits.reason() is not None:
            return
        seeds = [self._seed_of(rank, i) for i in numbers]
        data = self.resampler.matrix(numbers[0])
        found = self.method.fits(data, rank, seeds, limits, self._sketch(rank))
        if found:
            self._note(rank, dict(zip(numbers, found, strict=True)))

    def _sketch(self, rank: int) -> Sketch | None:
        """The sketch that all fits of a rank begin with, if they share X and it pays."""
        whole = self.resampler.whole
        if whole is None or not self.method.is_of_products:
            return None
        with self._sketch_lock:
            if rank not in self._sketches:
                self._sketches[rank] = sketch(whole, rank)
            return self._sketches[rank]

    def _seed_of(self, rank: int, i: int) -> int:
        sequence = np.random.SeedSequence(self._seed, spawn_key=(i, rank))
        return int(sequence.generate_state(1)[0])

    def _note(self, rank: int, found: dict[int, Fit]) -> None:
        """Keep finished fits, and say so."""
        with self._lock:
            self.found |= {(rank, i): fit for i, fit in found.items()}
            self._n_done += len(found)
            if self._file is not None and self._file.due():
                self._file.save(self.found)
            total = len(self.ranks) * self.n_fits
            if self.limits.bar is not None:
                self.limits.bar.part(self._n_done / total)
            callback: Callable[[Any], object] | None = self.limits.callback
            if callback is not None:
                error = min(fit.error for fit in found.values())
                seconds = self.limits.elapsed()
                if callback(FitProgress(rank, self._n_done, total, error, seconds)):
                    self.limits.halt(Status.CALLBACK)


def n_kept() -> int:
    """How many drawn matrices are kept: one for each thread, and the next."""
    return available_threads() + 1
