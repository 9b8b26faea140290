"""Outlines of what stands out in a picture."""

from typing import Any

import numpy as np
from contourpy import contour_generator


def outlines(picture: np.ndarray) -> list[np.ndarray]:
    """Lines (x, y) at half of the largest value, in pixels: (0, 0) is the centre of the first."""
    if min(picture.shape) < 2 or not picture.min() < 0.5 * picture.max():
        return []
    lines: Any = contour_generator(z=picture).lines(0.5 * float(picture.max()))
    return list(lines)
