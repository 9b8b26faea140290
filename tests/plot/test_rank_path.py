import numpy as np
import pytest

from nmfmerge import datasets, plot, rank_path


@pytest.fixture(scope="module")
def path():
    return rank_path(datasets.lcms_like(60, 90, 5).X, 9, stability=True)


def marked(ax):
    return [line.get_xdata()[0] for line in ax.lines if line.get_gid() == "suggestion"]


def test_curves_and_suggestions_are_those_of_the_path(path):
    figure = plot.rank_path(path, 4)
    expected = (path.fitting_errors, path.penalties, path.stability)
    assert len(figure.axes) == 3
    for ax, values in zip(figure.axes, expected, strict=True):
        curve = next(line for line in ax.lines if line.get_marker() not in ("None", None))
        np.testing.assert_array_equal(curve.get_xdata(), path.ranks)
        np.testing.assert_array_equal(curve.get_ydata(), values)
        assert marked(ax) == [suggestion.rank for suggestion in path.suggest()]
        ring = next(line for line in ax.lines if line.get_gid() == "chosen")
        assert ring.get_xdata().tolist() == [4]
    first = path.suggest()[0]
    assert f"rank {first.rank}, suggested with {first.confidence} confidence" in (
        figure.get_supxlabel()
    )
    assert "Ring: rank 4." in figure.get_supxlabel()


@pytest.mark.parametrize("X", [np.zeros((6, 7)), np.ones((6, 7)), np.eye(6)])
def test_odd_paths_are_drawn(X, tmp_path):
    for n_max in (1, 2, 6):
        path = rank_path(X, n_max)
        figure = plot.rank_path(path)
        figure.savefig(tmp_path / "figure.png")
        assert len(figure.axes) == 2
        assert "Ring" not in figure.get_supxlabel()
