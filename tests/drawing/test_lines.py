import numpy as np
import pytest

from nmfmerge.drawing.lines import envelope, highest, polyline_points


@pytest.mark.parametrize("length", [1, 50, 100, 101, 1000, 4321])
def test_an_envelope_keeps_the_lowest_and_the_highest(rng, length):
    x, y = np.arange(length), rng.random(length)
    u, v = envelope(x, y, 50)
    assert len(u) == len(v) <= 100
    assert (v.min(), v.max()) == (y.min(), y.max())
    assert np.all(np.diff(u) >= 0)


def test_short_lines_keep_every_highest_value(rng):
    F = rng.random((3, 1001))
    small = highest(F, 20)
    assert small.shape == (3, 20)
    np.testing.assert_array_equal(small.max(axis=1), F.max(axis=1))


@pytest.mark.parametrize("heights", [[0.0], [0.5, 1.0], [0.0, 0.25, 1.0, 0.5]])
def test_a_polyline_fills_its_box_from_left_to_right(heights):
    points = [point.split(",") for point in polyline_points(np.array(heights), 30, 8).split()]
    x, y = np.array(points, dtype=float).T
    expected = heights if len(heights) > 1 else [*heights, *heights]
    np.testing.assert_allclose(x, [30 * i / (len(expected) - 1) for i in range(len(expected))])
    np.testing.assert_allclose(y, [8 - 8 * height for height in expected])
