"""Usages on a map have each cell's colour at its place; bars of samples end at their sums."""

import numpy as np
import pytest

from nmfmerge import plot


@pytest.fixture
def usages():
    return np.random.default_rng(0).dirichlet(np.ones(6), 50)


def test_maps_show_each_cell_at_its_place(usages):
    places = np.random.default_rng(1).normal(size=(50, 2))
    maps = [ax for ax in plot.usage_maps(places, usages).axes if ax.get_title()]
    assert [ax.get_title() for ax in maps] == [f"programme {k}" for k in range(1, 7)]
    for ax, usage in zip(maps, usages.T, strict=True):
        (points,) = ax.collections
        order = np.argsort(usage)  # the cells that use it most are drawn last, on top
        np.testing.assert_array_equal(points.get_array(), usage[order])
        np.testing.assert_array_equal(points.get_offsets(), places[order])
        assert points.get_clim() == (0, 1)


def test_one_programme_is_one_map():
    figure = plot.usage_maps(np.eye(2), np.ones((2, 1)), ["B cells"])
    assert [ax.get_title() for ax in figure.axes if ax.get_title()] == ["programme B cells"]


@pytest.mark.parametrize("n", [3, 13])
def test_bars_are_the_mean_usages_of_samples(n):
    means = np.random.default_rng(2).dirichlet(np.ones(n), 4)
    figure = plot.sample_usages(means, ["a", "b", "c", "d"])
    ax = figure.axes[0]
    widths = np.array([[bar.get_width() for bar in bars] for bars in ax.containers]).T
    np.testing.assert_allclose(widths, 100 * means)
    ends = [bar.get_x() + bar.get_width() for bar in ax.containers[-1]]
    np.testing.assert_allclose(ends, 100)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a", "b", "c", "d"]
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert sorted(map(int, said)) == list(range(1, n + 1))
    figure.draw_without_rendering()
