"""Standard NMF and NMF-Merge from the same starts: which pairs an experiment asks for, and what came out."""

from dataclasses import dataclass

import numpy as np

from reproduce.runs import Run, pair
from reproduce.sets import SETS
from reproduce.store import Store

DETERMINISTIC = ("nndsvd", "nndsvda", "nndsvdar")
TIE = 1e-3  # fitting errors closer than this, relatively, count as equal

Pair = tuple[Run, Run]


@dataclass(frozen=True)
class Options:
    """The options of the user: data sets, and a number of random starts other than the usual."""

    data: tuple[str, ...]
    starts: int | None = None

    def seeds(self, data: str, small: int = 200, large: int = 200) -> range:
        """Seeds of the random starts, for a small or a large data set."""
        usual = large if SETS[data].large else small
        return range(usual if self.starts is None else self.starts)


def random_pairs(data: str, seeds: range, **settings) -> list[Pair]:
    """Pairs from random starts."""
    return [pair(data, init="random", seed=seed, **settings) for seed in seeds]


def solver_pairs(options: Options, data: str, solver: str = "hals") -> list[Pair]:
    """The random starts of a solver at the paper's rank."""
    return random_pairs(data, options.seeds(data), solver=solver)


def deterministic_pairs(data: str, **settings) -> list[Pair]:
    """Pairs from the starts by singular value decomposition."""
    return [pair(data, init=init, **settings) for init in DETERMINISTIC]


def flat(pairs: list[Pair]) -> list[Run]:
    """The runs of pairs, one after the other."""
    return [run for both in pairs for run in both]


@dataclass(frozen=True)
class Outcomes:
    """Records of the pairs that are stored, standard NMF and NMF-Merge side by side."""

    pairs: list[Pair]
    standard: list[dict]
    merge: list[dict]

    @classmethod
    def stored(cls, store: Store, pairs: list[Pair], *, alone: bool = False) -> "Outcomes":
        """Look pairs up, if asked those made alone on their machine; what is not made is left out."""
        found = [(both, *(store.get(run, alone=alone) for run in both)) for both in pairs]
        found = [entry for entry in found if entry[1] and entry[2]]
        return (
            cls(*(list(column) for column in zip(*found, strict=True)))
            if found
            else cls([], [], [])
        )

    def first(self, count: int) -> "Outcomes":
        """The first so many pairs."""
        return Outcomes(self.pairs[:count], self.standard[:count], self.merge[:count])

    def __len__(self) -> int:
        return len(self.pairs)

    def errors(self) -> np.ndarray:
        """Fitting errors, one row a start: standard NMF, NMF-Merge."""
        return np.array([[a["error"], b["error"]] for a, b in self.records()]).reshape(-1, 2)

    def seconds(self) -> np.ndarray:
        """Seconds, one row a start: standard NMF, NMF-Merge."""
        return np.array([[a["seconds"], b["seconds"]] for a, b in self.records()]).reshape(-1, 2)

    def by_seed(self) -> dict[int, float]:
        """Fitting errors of NMF-Merge by the seed of the start."""
        return {
            merge.seed: b["error"] for (_, merge), b in zip(self.pairs, self.merge, strict=True)
        }

    def records(self):
        """Pairs of records."""
        return list(zip(self.standard, self.merge, strict=True))

    def wins_ties_losses(self) -> tuple[int, int, int]:
        """How often NMF-Merge ended lower, level, higher."""
        standard, merge = self.errors().T
        gain = (standard - merge) / np.maximum(standard, np.finfo(float).tiny)
        wins, losses = int((gain > TIE).sum()), int((gain < -TIE).sum())
        return wins, len(self) - wins - losses, losses
