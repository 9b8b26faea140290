from dataclasses import replace

import numpy as np
import pytest

from nmfmerge import metrics, plot
from nmfmerge.datasets import Dataset


def names(figure):
    return [text.get_text() for text in figure.axes[0].texts if text.get_gid() == "name"]


def test_every_component_is_a_map_in_order_of_share(movie):
    data, result = movie
    figure = plot.maps(result, data)
    order = np.argsort(-metrics.shares(result.W, result.H))
    assert [name.split(",")[0] for name in names(figure)] == [f"component {k + 1}" for k in order]
    for k, image in zip(order, figure.axes[0].images, strict=True):
        np.testing.assert_array_equal(image.get_array(), data.picture(result.W[:, k]))
        left, right, below, above = image.get_extent()
        assert (right - left) / (above - below) == pytest.approx(6 / 8)  # pixels are square
    assert sum(line.get_gid() == "outline" for line in figure.axes[0].lines) == 2
    figure.draw_without_rendering()


def test_pixels_may_be_the_columns(movie):
    data, result = movie
    turned = Dataset("x", None, 2, data.columns, data.rows, image_shape=(8, 6), image_order="F")
    other = replace(result, W=result.H.T, H=result.W.T)
    figure = plot.maps(other, turned, which=[1])
    assert len(names(figure)) == 1
    np.testing.assert_array_equal(
        figure.axes[0].images[0].get_array(), data.picture(result.W[:, 1])
    )


def test_zero_components_and_data_without_pixels(movie, run):
    data, result = movie
    plot.maps(replace(result, W=0 * result.W), data).draw_without_rendering()
    with pytest.raises(ValueError, match=r"pixels of an image.*plot\.components"):
        plot.maps(run[1], run[0])
