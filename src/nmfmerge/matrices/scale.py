"""X is divided by a power of four before a fit, and results are multiplied back.

Inside, the largest entry of X lies in [1/4, 1), so that no square or product of a fit leaves the
range of its numbers, and X times any power of four gives the same fit to the bit, scaled. W and H
each take half of the exponent, so that both are scaled by a power of two, which is exact.
"""

import math

import numpy as np

# Within this many powers of two X is used as it lies in memory, and its products are scaled.
IN_PLACE = {np.dtype(np.float32): 20, np.dtype(np.float64): 100}


def float_type(dtype: np.dtype) -> np.dtype:
    """The dtype of the fit: half precision and float32 become float32, all others float64."""
    return np.dtype(np.float32 if dtype.kind == "f" and dtype.itemsize <= 4 else np.float64)


def unit_exponent(largest: float) -> int:
    """The k for which largest / 4ᵏ lies in [1/4, 1); 0 for a zero matrix."""
    return (math.frexp(largest)[1] + 1) // 2


def split_scale(values: np.ndarray, k: int) -> tuple[np.ndarray, float]:
    """Values of X / 4ᵏ as an array and a power of two to multiply its products by.

    The array is the one that came unless its numbers are so large or so small that products with
    them would leave their range.
    """
    if abs(2 * k) <= IN_PLACE[values.dtype]:
        return values, math.ldexp(1.0, -2 * k)
    return np.ldexp(values, -2 * k), 1.0
