"""How the starts of a run begin: words, random numbers with their seeds, or given factors.

Comes in: what the user said of starts, checked. Goes out: a `Beginning` for each of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from nmfmerge import validation as check
from nmfmerge.data import Check, DataMatrix
from nmfmerge.held import Held
from nmfmerge.init import INITS, Factors


@dataclass(frozen=True, eq=False)
class Beginning:
    """How one start of a run begins."""

    init: str
    seed: int | None
    factors: Callable[[Check], Factors]  # component-major
    at_once: Callable[[], Factors]  # the same, or others, where there is no time
    merges: bool  # False: standard NMF, whatever the others do


@dataclass(frozen=True, eq=False)
class StartMaker:
    """Makes the factors that starts begin with."""

    data: DataMatrix
    r: int
    rng: np.random.Generator
    names: tuple[str, str]
    held: Held | None
    uneven: bool
    first: Any  # the first start, whose held components all others have too

    def beginnings(
        self, inits: list[Any], random_state: Any, merges: bool, first_merges: bool
    ) -> list[Beginning]:
        """How each start begins; random ones have seeds that repeat them."""
        seeds = _seeds(random_state, self.rng, inits)
        merging = [merges and first_merges] + [merges] * (len(inits) - 1)
        return [self._beginning(*start) for start in zip(inits, seeds, merging, strict=True)]

    def _beginning(self, init: Any, seed: int | None, merges: bool) -> Beginning:
        """How a start begins that is a word or a pair of factors."""
        if not isinstance(init, str):
            start = self._with_held(self._given(init))
            return Beginning("given", None, lambda check: start, lambda: start, merges)

        def make(word: str, check: Any) -> Factors:
            rng = self.rng if seed is None else np.random.default_rng(seed)
            return self._with_held(INITS[word](self.data, self.r, rng, check))

        return Beginning(
            init, seed, lambda check: make(init, check), lambda: make("random", None), merges
        )

    def _given(self, init: Any) -> Factors:
        """Factors of X as those of the data matrix."""
        return check.check_fit(
            init[0], init[1], self.data, self.r, self.names, self.held, self.uneven
        )  # fmt: skip

    def _with_held(self, start: Factors) -> Factors:
        """A start with the held components of the first."""
        if self.held is not None:
            masks = (self.held.W, self.held.H)
            for F, held, mask in zip(start, self._given(self.first), masks, strict=True):
                if mask.any():
                    F[mask] = held[mask]
        return start


def _seeds(random_state: Any, rng: np.random.Generator, inits: list[Any]) -> list[int | None]:
    """A seed for each random start; a single one takes its numbers from a generator itself."""
    known = random_state is None or isinstance(random_state, Integral)
    if not known and len(inits) == 1:
        return [None]
    base = int(random_state or 0) if known else int(rng.integers(2**32))
    seeds = np.random.SeedSequence(base).generate_state(len(inits)).tolist()
    seeds[0] = base
    return [
        seed if isinstance(init, str) and init in ("random", "nndsvdar") else None
        for seed, init in zip(seeds, inits, strict=True)
    ]
