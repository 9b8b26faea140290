"""The state that a solver keeps between iterations: arrays whose first axis is the start.

Therefore selecting starts, writing a checkpoint and continuing from it are written once, for all
solvers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from nmfmerge.matrices import Array


@dataclass
class SolverState:
    """Arrays with the starts first; a solver with something to keep has a subclass."""

    def arrays(self) -> dict[str, Array]:
        """Every array under its name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def select(self, rows: Sequence[int], kernels: Any) -> Self:
        """The state of some starts."""
        return type(self)(*(kernels.take(A, rows) for A in self.arrays().values()))

    def on_host(self, kernels: Any) -> dict[str, np.ndarray]:
        """Every array in NumPy."""
        return {name: kernels.to_host(A) for name, A in self.arrays().items()}

    def taken_up(self, arrays: Mapping[str, np.ndarray], kernels: Any, like: Array) -> Self:
        """The same kind of state with arrays that `on_host` gave."""
        return type(self)(*(kernels.from_host(arrays[name], like) for name in self.arrays()))
