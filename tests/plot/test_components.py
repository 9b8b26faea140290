import numpy as np
import pytest
from matplotlib.figure import Figure

from nmfmerge import Factorization, Status, metrics, nmf, plot
from nmfmerge.datasets import Axis, Dataset


def factorization(W, H):
    return Factorization(W, H, 0.0, 0.0, (), Status.CONVERGED, 0.0)


def labels(figure):
    return [ax.get_ylabel().split("\n")[0] for ax in figure.axes[::2]]


def test_shares_add_up_and_are_those_of_the_product(run):
    _, result = run
    WH = result.W @ result.H
    parts = [
        np.vdot(np.outer(w, h), WH) / np.vdot(WH, WH)
        for w, h in zip(result.W.T, result.H, strict=True)
    ]
    np.testing.assert_allclose(metrics.shares(result.W, result.H), 100 * np.array(parts))
    assert metrics.shares(result.W, result.H).sum() == pytest.approx(100)


def test_lines_are_the_factors_along_the_axes_in_order_of_share(run):
    data, result = run
    figure = plot.components(result, data)
    order = np.argsort(-metrics.shares(result.W, result.H))
    assert isinstance(figure, Figure)
    assert len(figure.axes) == 10
    assert labels(figure) == [f"component {k + 1}" for k in order]
    for k, left, right in zip(order, figure.axes[::2], figure.axes[1::2], strict=True):
        np.testing.assert_array_equal(left.lines[0].get_xdata(), data.rows.values)
        np.testing.assert_array_equal(left.lines[0].get_ydata(), result.W[:, k])
        np.testing.assert_array_equal(right.lines[0].get_xdata(), data.columns.values)
        np.testing.assert_array_equal(right.lines[0].get_ydata(), result.H[k])
    assert figure.axes[-2].get_xlabel() == "m/z"
    assert figure.axes[-1].get_xlabel() == "scan"
    assert "%" in figure.axes[0].get_ylabel()


def test_which_chooses_and_orders(run):
    _, result = run
    figure = plot.components(result, which=[3, 0])
    assert labels(figure) == ["component 4", "component 1"]
    assert figure.axes[-1].get_xlabel() == "column"
    with pytest.raises(ValueError, match=r"which=\[5\].*from 0 to 4"):
        plot.components(result, which=[5])


def test_pixels_are_folded_to_pictures(movie):
    data, result = movie
    figure = plot.components(result, data)
    first = int(np.argmax(metrics.shares(result.W, result.H)))
    np.testing.assert_array_equal(
        figure.axes[0].images[0].get_array(), data.picture(result.W[:, first])
    )
    assert not figure.axes[1].images
    assert figure.axes[-1].get_xlabel() == "time (s)"


def test_names_become_bars_of_the_largest_entries(counts):
    data, result = counts
    figure = plot.components(result, data)
    k = int(np.argmax(metrics.shares(result.W, result.H)))
    top = np.argsort(-result.W[:, k])[:6]
    ax = figure.axes[0]
    assert [text.get_text() for text in ax.get_yticklabels()] == list(data.rows.values[top])
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], result.W[top, k])
    assert all("\\$" in text.get_text() for text in figure.axes[1].get_yticklabels())
    figure.draw_without_rendering()


def test_at_most_24_are_shown_and_the_rest_is_counted(rng):
    result = factorization(rng.random((10, 60)), rng.random((60, 12)))
    figure = plot.components(result)
    assert len(figure.axes) == 48
    assert "36 more are not shown" in figure.get_supxlabel()
    assert len(plot.components(result, which=range(30)).axes) == 60


def test_zero_components_constant_data_and_no_components_are_drawn():
    zero = plot.components(factorization(np.zeros((5, 2)), np.zeros((2, 4))))
    zero.draw_without_rendering()
    assert [text.get_text() for text in zero.axes[0].texts] == ["zero"]
    constant = nmf(np.ones((6, 5), dtype=np.float32), 1)
    assert labels(plot.components(constant)) == ["component 1"]
    none = plot.components(factorization(np.empty((5, 0)), np.empty((0, 4))))
    assert "no components" in none.axes[0].texts[0].get_text()
    plot.components(factorization(np.ones((1, 1)), np.ones((1, 1)))).draw_without_rendering()


def test_axes_out_of_order_are_sorted_and_of_the_wrong_length_refused(rng):
    result = factorization(rng.random((4, 1)), rng.random((1, 3)))
    rows, columns = Axis("mass", np.array([4.0, 1.0, 3.0, 2.0])), Axis("scan", np.arange(3))
    figure = plot.components(result, Dataset("x", None, None, rows, columns))
    assert figure.axes[0].lines[0].get_xdata().tolist() == [1, 2, 3, 4]
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_ydata(), result.W[[1, 3, 2, 0], 0])
    short = Dataset("x", None, None, rows, Axis("scan", np.arange(2)))
    with pytest.raises(ValueError, match=r"4 rows and 2 columns.*4 × 3"):
        plot.components(result, short)


def test_dates_are_an_axis_too(rng):
    days = np.datetime64("2026-01-01") + np.arange(50) * np.timedelta64(6, "h")
    data = Dataset("x", None, 2, Axis("depth", np.arange(4.0), "m"), Axis("day", days))
    figure = plot.components(factorization(rng.random((4, 2)), rng.random((2, 50))), data)
    figure.draw_without_rendering()
    np.testing.assert_array_equal(figure.axes[1].lines[0].get_xdata(), days)
    assert len(figure.axes[-1].get_xticks()) <= 7


def test_a_figure_shows_itself_in_a_notebook_and_pyplot_is_not_touched(run):
    figure = plot.singular_values(run[1])
    assert figure._repr_png_().startswith(b"\x89PNG")
