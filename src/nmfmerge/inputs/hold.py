"""Components that stay as they are while the others are fitted."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Held:
    """Which columns of W and rows of H are held: a mask over the components for each of the two."""

    W: np.ndarray
    H: np.ndarray

    @classmethod
    def of(cls, r: int, W: list[int], H: list[int]) -> "Held":
        """Masks for r components from indices."""
        masks = np.zeros((2, r), dtype=bool)
        masks[0, W] = masks[1, H] = True
        return cls(*masks)

    def as_lists(self) -> dict[str, list[int]]:
        """Indices of the held columns of W and rows of H."""
        return {"W": np.flatnonzero(self.W).tolist(), "H": np.flatnonzero(self.H).tolist()}

    @property
    def either(self) -> np.ndarray:
        """Components that are held in W or in H, or in both."""
        return self.W | self.H

    def extended(self, r: int) -> "Held":
        """The same with components at the end that are not held, r in all."""
        more = (0, r - len(self.W))
        return Held(np.pad(self.W, more), np.pad(self.H, more))
