"""A run: its settings, the run it continues, and the identity it is stored under."""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.metadata import version

import numpy as np
import scipy.sparse as sp

from reproduce.sets import SETS, matrix

# Version of what each solver computes. Raise it by one, by hand, when a change of the package alters
# the numbers of its runs: its kernel or step rule, or for all solvers the starts, the truncated SVD,
# recovery, the merge or the stop rule. Rounding and speed are no reason, nor are words and names.
# It is set by hand because whatever is computed or hashed changes without need:
# the last digits with the compiler, the source files with every comment; and hours of runs with it.
NUMERICS = {"hals": 1, "accelerated": 1, "gcd": 1, "alspgrad": 1, "mu": 1}


@dataclass(frozen=True)
class Run:
    """Everything that decides what one run gives.

    ``loose`` is the tolerance of NMF-Merge's initial and over-complete stages (ε₁ = ε₂).
    """

    data: str
    method: str  # "nmf", "merge" or "sklearn"
    rank: int
    extra: int = 0
    solver: str = "hals"
    init: str = "random"
    seed: int = 0
    tol: float = 1e-4
    loose: float = 0.0

    @property
    def start(self) -> tuple:
        """The settings shared by runs from the same start."""
        return self.data, self.rank, self.solver, self.init, self.seed

    @property
    def kind(self) -> tuple:
        """The settings shared by runs that take about the same time."""
        return self.data, self.method, self.rank, self.extra, self.solver, self.tol, self.loose

    def standard(self) -> "Run":
        """The standard NMF from the same start."""
        return replace(self, method="nmf", extra=0, loose=0.0)

    @property
    def goes_on_from(self) -> "Run | None":
        """The run whose end is the initial stage of this one, or None.

        With one tolerance for all stages the initial stage of NMF-Merge is the standard NMF.
        """
        return self.standard() if self.method == "merge" and self.loose == self.tol else None

    def __str__(self) -> str:
        name = f"{self.data} {self.method} {self.solver} r={self.rank} {self.init} {self.seed}"
        return f"{name} k={self.extra} ε={self.loose:g}" if self.method == "merge" else name


def pair(data: str, *, rank=None, extra=None, loose=1e-4, **start) -> tuple[Run, Run]:
    """Standard NMF and NMF-Merge from one start, at the paper's rank unless another is given."""
    known = SETS[data]
    rank = known.rank if rank is None else rank
    if extra is None:
        extra = known.extra if rank == known.rank else max(1, round(0.2 * rank))
    merge = Run(data, "merge", rank, extra, loose=loose, **start)
    return merge.standard(), merge


@cache
def identity(run: Run) -> str:
    """A digest of the settings, the content of X and the version of what is computed."""
    known = {
        "settings": asdict(run),
        "data": data_digest(run.data),
        "numerics": numerics(run.solver),
    }
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def numerics(solver: str) -> str:
    """Version of what a solver computes; of scikit-learn's, the version of that package."""
    return version("scikit-learn") if solver == "sklearn" else str(NUMERICS[solver])


@cache
def data_digest(name: str) -> str:
    """A digest of every entry of X."""
    X = matrix(name)
    arrays = [X.data, X.indices, X.indptr] if sp.issparse(X) else [np.ascontiguousarray(X)]
    digest = hashlib.sha256(repr((X.shape, X.dtype.str)).encode())
    for array in arrays:
        digest.update(array)
    return digest.hexdigest()
