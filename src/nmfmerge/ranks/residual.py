"""Is the residual of a fit noise? Compare the residual with itself under random signs.

Input: X and factors. Output: the largest squared singular value of the residual (under
Kullback–Leibler, of Pearson's residual), divided by that with a random sign for each entry. Random
signs keep how large each entry is and destroy what entries have in common, so the ratio is about 1
for independent noise, however it varies over rows and columns, and larger where components are
missing (parallel analysis by sign flips; Hong, Sheng & Dobriban 2020).
"""

import numpy as np

from nmfmerge.losses import FROBENIUS, Loss
from nmfmerge.matrices import DataMatrix

_MAX_ENTRIES = 500_000  # of X; of larger data the heaviest rows and columns are looked at
_FEW = 300_000  # entries up to which several draws of signs are averaged
_DRAWS = 3
_DIRECT = 60  # smaller side up to which a full SVD is faster than iterating


class ResidualStructure:
    """The residuals of several fits of one matrix."""

    def __init__(self, data: DataMatrix, loss: Loss = FROBENIUS) -> None:
        self._loss = loss
        self._sample = data.sample(_MAX_ENTRIES)
        self._signs: list[np.ndarray] = []

    def structure(self, Wt: np.ndarray, H: np.ndarray) -> float:
        """How much more structure X − WH has than noise; NaN where X is streamed.

        ``Wt`` (r × m) and ``H`` (r × n) are component-major factors.
        """
        if self._sample is None:
            return float("nan")
        rows, columns, X, weights = self._sample
        WH = Wt[:, rows].T.astype(np.float64) @ H[:, columns].astype(np.float64)
        R = self._loss.residual(X, WH)
        if weights is not None:
            R = R * np.sqrt(weights)
        if not self._signs:
            rng, draws = np.random.default_rng(0), _DRAWS if R.size <= _FEW else 1
            self._signs = [rng.integers(0, 2, R.shape, dtype=np.int8) * 2 - 1 for _ in range(draws)]
        by_chance = float(np.mean([_largest(R * sign) for sign in self._signs]))
        return _largest(R) / by_chance if by_chance > 0 else 1.0


def _largest(R: np.ndarray) -> float:
    """The largest squared singular value."""
    if min(R.shape) <= _DIRECT or not R.any():
        return float(np.linalg.norm(R, 2) ** 2)
    from scipy.sparse.linalg import svds  # slow to import

    start = np.random.default_rng(0).standard_normal(min(R.shape))
    return float(svds(R, k=1, return_singular_vectors=False, v0=start, tol=1e-3)[0] ** 2)
