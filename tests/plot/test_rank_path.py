import numpy as np
import pytest

from nmfmerge import datasets, plot, rank_path


@pytest.fixture(scope="module")
def path():
    return rank_path(datasets.lcms_like(60, 90, 5).X, 9, stability=True)


def marked(ax):
    return [line.get_xdata()[0] for line in ax.lines if line.get_gid() == "assessed"]


def test_curves_and_the_marked_rank_are_those_of_the_path(path):
    figure, found = plot.rank_path(path, 4), path.assess()
    assert found.stands_out
    expected = (path.fitting_errors, path.penalties, path.structure, path.stability)
    assert len(figure.axes) == 4
    for ax, values in zip(figure.axes, expected, strict=True):
        curve = next(line for line in ax.lines if line.get_marker() not in ("None", None))
        np.testing.assert_array_equal(curve.get_xdata(), path.ranks)
        np.testing.assert_array_equal(curve.get_ydata(), values)
        assert marked(ax) == [found.rank]
        ring = next(line for line in ax.lines if line.get_gid() == "chosen")
        assert ring.get_xdata().tolist() == [4]
    assert f"Line: rank {found.rank} ({found.confidence} confidence)" in figure.get_supxlabel()
    assert "Ring: rank 4." in figure.get_supxlabel()


@pytest.mark.parametrize("X", [np.zeros((6, 7)), np.ones((6, 7)), np.eye(6)])
def test_odd_paths_are_drawn(X, tmp_path):
    for n_max in (1, 2, 6):
        path = rank_path(X, n_max)
        figure = plot.rank_path(path)
        figure.savefig(tmp_path / "figure.png")
        assert len(figure.axes) == 3
        assert "No rank stands out." in figure.get_supxlabel()
        assert "Ring" not in figure.get_supxlabel()
