"""The starts of a run: named initializations, random numbers with their seeds, or given factors.

Input: the checked arguments on starts. Output: a `StartPlan` for each start.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from nmfmerge.inputs import check
from nmfmerge.inputs.hold import Held
from nmfmerge.losses import Loss
from nmfmerge.matrices import Check, DataMatrix
from nmfmerge.method.init import INITS, Factors


@dataclass(frozen=True, eq=False)
class StartPlan:
    """The initial factors of one start, and whether it is merged."""

    init: str
    seed: int | None
    factors: Callable[[Check], Factors]  # component-major, before they are prepared
    cheap_factors: Callable[[], Factors]  # the same, or others, where there is no time
    merges: bool  # False: standard NMF, whatever the others do
    finish: Callable[[Factors], Factors] = lambda start: start  # of prepared factors

    @property
    def is_random(self) -> bool:
        """True if the loss prepares the factors."""
        return self.init == "random"


@dataclass(frozen=True, eq=False)
class StartMaker:
    """Makes the initial factors of starts."""

    data: DataMatrix
    r: int
    rng: np.random.Generator
    names: tuple[str, str]
    held: Held | None
    uneven: bool
    first: Any  # the first start, whose held components all others have too
    keeps_zeros: bool = False  # whether the solver leaves zeros zero: then NNDSVD has none

    def plans(
        self, inits: list[Any], random_state: Any, merges: bool, first_merges: bool
    ) -> list[StartPlan]:
        """A plan for each start; each random start can be repeated from its seed."""
        seeds = _seeds(random_state, self.rng, inits)
        merging = [merges and first_merges] + [merges] * (len(inits) - 1)
        return [self._plan(*start) for start in zip(inits, seeds, merging, strict=True)]

    def _plan(self, init: Any, seed: int | None, merges: bool) -> StartPlan:
        """The plan of one start, from the name of an initialization or a pair of factors."""
        if not isinstance(init, str):
            start = self._with_held(self._given(init))
            return StartPlan("given", None, lambda check: start, lambda: start, merges)

        def make(word: str, check: Check | None) -> Factors:
            rng = self.rng if seed is None else np.random.default_rng(seed)
            return INITS[word](self.data, self.r, rng, check)

        def factors(check: Check) -> Factors:
            return make("nndsvda" if self.keeps_zeros and init == "nndsvd" else init, check)

        def cheap_factors() -> Factors:
            return self._with_held(make("random", None))

        return StartPlan(init, seed, factors, cheap_factors, merges, self._with_held)

    def _given(self, init: Any) -> Factors:
        """Scale factors of X to the data matrix."""
        return check.check_fit(
            init[0], init[1], self.data, self.r, self.names, self.held, self.uneven
        )  # fmt: skip

    def _with_held(self, start: Factors) -> Factors:
        """Copy the held components of the first start into a start."""
        if self.held is not None:
            masks = (self.held.W, self.held.H)
            for F, held, mask in zip(start, self._given(self.first), masks, strict=True):
                if mask.any():
                    F[mask] = held[mask]
        return start


def made(plans: Sequence[StartPlan], data: DataMatrix, loss: Loss, check: Check) -> list[Factors]:
    """The initial factors of starts; the loss prepares random ones together."""
    starts = [plan.factors(check) for plan in plans]
    random = [i for i, plan in enumerate(plans) if plan.is_random]
    if random:
        prepared = loss.prepared(data, [starts[i] for i in random], check)
        for i, start in zip(random, prepared, strict=True):
            starts[i] = start
    return [plan.finish(start) for plan, start in zip(plans, starts, strict=True)]


def _seeds(random_state: Any, rng: np.random.Generator, inits: list[Any]) -> list[int | None]:
    """A seed for each random start; a single start draws from the generator directly."""
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
