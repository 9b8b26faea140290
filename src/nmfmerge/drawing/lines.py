"""Long lines made short enough to draw, and small ones as SVG."""

import numpy as np

from nmfmerge.drawing.blocks import block_starts


def envelope(x: np.ndarray, y: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """A line of at most ``2 * most`` points with the lowest and the highest of each block."""
    if len(x) <= 2 * most:
        return x, y
    starts = block_starts(len(x), most)
    ends = np.append(starts[1:], len(x)) - 1
    points = np.stack([np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)], axis=1)
    rising = y[ends] >= y[starts]
    points[~rising] = points[~rising, ::-1]
    return np.repeat(x[starts], 2), points.ravel()


def highest(F: np.ndarray, most: int) -> np.ndarray:
    """Rows of F, each reduced to the largest values of at most ``most`` blocks."""
    return np.maximum.reduceat(F, block_starts(F.shape[1], most), axis=1)


def polyline_points(heights: np.ndarray, width: float, height: float) -> str:
    """A line for the ``points`` of an SVG polyline in a box.

    Parameters
    ----------
    heights : array
        From 0, at the bottom, to 1, at the top. One value alone is a level line.
    width, height : float
        Of the box.
    """
    y = height * (1 - np.resize(heights, max(2, len(heights))))
    x = np.linspace(0, width, len(y))
    return " ".join([f"{a:g},{b:.4g}" for a, b in zip(x.tolist(), y.tolist(), strict=True)])
