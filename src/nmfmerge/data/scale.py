"""The scale of X is taken off at the door, by a power of four, and put back at the end.

Inside, the largest entry of X lies in [1/4, 1), so that no square or product of a fit leaves the
range of its numbers, and what a fit does is the same, to the bit, whatever power of four X is
multiplied by. W and H take half of the power each, which is a power of two: both are exact.
"""

import math

import numpy as np

# Within this many powers of two X is used as it lies in memory, and its products are scaled.
_IN_PLACE = {np.dtype(np.float32): 20, np.dtype(np.float64): 100}


def unit_exponent(largest: float) -> int:
    """The k for which largest / 4ᵏ lies in [1/4, 1); 0 for a zero matrix."""
    return (math.frexp(largest)[1] + 1) // 2


def split_scale(values: np.ndarray, k: int) -> tuple[np.ndarray, float]:
    """Values of X / 4ᵏ as an array and a power of two to multiply its products by.

    The array is the one that came unless its numbers are so large or so small that products with
    them would leave their range.
    """
    if abs(2 * k) <= _IN_PLACE[values.dtype]:
        return values, math.ldexp(1.0, -2 * k)
    return np.ldexp(values, -2 * k), 1.0
