"""The finished fits of a consensus in one file, from which it continues to the same bits.

More fits, and other ranks, may be asked for later: the fits in the file are used again.
"""

import numpy as np

from nmfmerge.consensus.fit import Fit
from nmfmerge.solvers.history import Status
from nmfmerge.storage.records import Arrays, Record
from nmfmerge.storage.state_file import StateFile

_STATUSES = (Status.CONVERGED, Status.MAX_ITER)
Found = dict[tuple[int, int], Fit]  # by rank and number


class FitsFile(StateFile):
    """The file; its identity has the "length" of a component and its "dtype"."""

    format = "consensus 1"

    def save(self, found: Found) -> None:
        """Write all finished fits."""
        arrays: Arrays = {}
        ranks = sorted({rank for rank, _ in found})
        for rank in ranks:
            numbers = sorted(i for r, i in found if r == rank)
            fits = [found[rank, i] for i in numbers]
            arrays[f"{rank} numbers"] = np.array(numbers)
            arrays[f"{rank} components"] = np.stack([fit.components for fit in fits])
            arrays[f"{rank} errors"] = np.array([fit.error for fit in fits])
            arrays[f"{rank} n_iter"] = np.array([fit.n_iter for fit in fits])
            arrays[f"{rank} statuses"] = np.array([_STATUSES.index(fit.status) for fit in fits])
        self.write({"ranks": ranks}, arrays)

    def load(self) -> Found:
        """The fits that were saved; none if there is no file.

        Raises
        ------
        OtherRun
            If the file belongs to a run of other data or settings.
        CheckpointError
            If the file is damaged, or no checkpoint.
        """
        saved = self.read()
        if saved is None:
            return {}
        try:
            return self._unpacked(*saved)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise self.refusal("holds what no run can have saved", error) from error

    def _unpacked(self, record: Record, arrays: Arrays) -> Found:
        found: Found = {}
        for rank in record["ranks"]:
            of_rank = [
                arrays[f"{rank} {name}"]
                for name in ("numbers", "components", "errors", "n_iter", "statuses")
            ]
            numbers, components = of_rank[:2]
            expected = (len(numbers), rank, self.identity["length"])
            if components.shape != expected or str(components.dtype) != self.identity["dtype"]:
                raise ValueError(f"the components of rank {rank} have shape {components.shape}")
            if not np.isfinite(components).all() or components.min(initial=0) < 0:
                raise ValueError(f"the components of rank {rank} are not nonnegative numbers")
            for i, F, error, n_iter, status in zip(*of_rank, strict=True):
                found[rank, int(i)] = Fit(F, float(error), int(n_iter), _STATUSES[int(status)])
        return found
