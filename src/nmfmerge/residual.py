"""Is what a fit leaves over noise? The residual compared with itself under random signs.

Comes in: X and factors. Goes out: the largest squared singular value of the residual, divided by
that of the residual with a random sign for each entry. Random signs keep how large each entry is
and destroy what entries have in common, so the ratio is about 1 for independent noise, however it
varies over rows and columns, and larger where components are missing (parallel analysis by sign
flips; Hong, Sheng & Dobriban 2020).
"""

import numpy as np
from scipy.sparse.linalg import svds

from nmfmerge.data import DataMatrix

_MAX_ENTRIES = 500_000  # of X; of larger data the heaviest rows and columns are looked at
_FEW = 300_000  # entries up to which several draws of signs are averaged
_DRAWS = 3
_DIRECT = 60  # smaller side up to which a full SVD is faster than iterating


class Residuals:
    """The residuals of several fits of one matrix."""

    def __init__(self, data: DataMatrix) -> None:
        self._sample = data.sample(_MAX_ENTRIES)

    def structure(self, Wt: np.ndarray, H: np.ndarray) -> float:
        """How much more structure X − WH has than noise; NaN where X is not at hand.

        ``Wt`` (r × m) and ``H`` (r × n) are component-major factors.
        """
        if self._sample is None:
            return float("nan")
        rows, columns, X = self._sample
        R = X - Wt[:, rows].T.astype(np.float64) @ H[:, columns].astype(np.float64)
        rng = np.random.default_rng(0)
        draws = _DRAWS if R.size <= _FEW else 1
        signs = (rng.integers(0, 2, R.shape, dtype=np.int8) * 2 - 1 for _ in range(draws))
        by_chance = float(np.mean([_largest(R * sign) for sign in signs]))
        return _largest(R) / by_chance if by_chance > 0 else 1.0


def _largest(R: np.ndarray) -> float:
    """The largest squared singular value."""
    if min(R.shape) <= _DIRECT or not R.any():
        return float(np.linalg.norm(R, 2) ** 2)
    start = np.random.default_rng(0).standard_normal(min(R.shape))
    return float(svds(R, k=1, return_singular_vectors=False, v0=start, tol=1e-3)[0] ** 2)
