import numpy as np
import pytest
from matplotlib.figure import Figure

from nmfmerge import Factorization, Status, metrics, nmf, plot
from nmfmerge.datasets import Axis, Dataset


def factorization(W, H):
    return Factorization(W, H, 0.0, 0.0, (), Status.CONVERGED, 0.0)


def labels(figure):
    texts = [text for text in figure.axes[0].texts if text.get_gid() == "name"]
    return [text.get_text().split("\n")[0] for text in texts]


def drawn(ax, gid):
    """The line of that name, cut at its gaps: x and y of each part."""
    (line,) = [line for line in ax.lines if line.get_gid() == gid]
    x, y = line.get_xdata(), np.asarray(line.get_ydata(), dtype=float)
    ends = np.flatnonzero(np.isnan(y))
    return [(x[a:b], y[a:b]) for a, b in zip(np.append(0, ends[:-1] + 1), ends, strict=True)]


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
    left, right = figure.axes
    assert labels(figure) == [f"component {k + 1}" for k in order]
    for i, (k, (x, y)) in enumerate(zip(order, drawn(right, "lines"), strict=True)):
        np.testing.assert_array_equal(x, data.columns.values)
        height = y + i + 1
        np.testing.assert_allclose(
            height / height.max(), result.H[k] / result.H[k].max(), atol=1e-12
        )
        assert 0.5 < height.max() < 1
    assert (left.get_xlabel(), right.get_xlabel()) == ("m/z", "scan")
    assert "%" in left.texts[0].get_text() + left.texts[-1].get_text()


def test_masses_are_sticks_with_numbers_at_the_largest(run):
    data, result = run
    k = int(np.argmax(metrics.shares(result.W, result.H)))
    left = plot.components(result, data, which=[k]).axes[0]
    w = result.W[:, k]
    seen = w > 0.002 * w.max()
    sticks = drawn(left, "sticks")
    assert [x[0] for x, _ in sticks] == data.rows.values[seen].tolist()
    heights = np.array([y[1] + 1 for _, y in sticks])
    np.testing.assert_allclose(heights / heights.max(), w[seen] / w.max())
    numbers = [text.get_text() for text in left.texts if text.get_gid() != "name"]
    assert numbers[0] == f"{data.rows.values[np.argmax(w)]:g}"
    assert len(numbers) <= 4


def test_frequencies_are_on_a_logarithmic_scale(rng):
    data = Dataset(
        "x", None, 2, Axis("frequency", np.arange(20) * 50.0, "Hz"), Axis("time", np.arange(9))
    )
    figure = plot.components(factorization(rng.random((20, 2)), rng.random((2, 9))), data)
    left, right = figure.axes
    assert (left.get_xscale(), right.get_xscale()) == ("log", "linear")
    assert drawn(left, "lines")[0][0].tolist() == data.rows.values[1:].tolist()  # no zero there
    figure.draw_without_rendering()


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
    assert len(figure.axes[0].images) == 2
    assert any(line.get_gid() == "outline" for line in figure.axes[0].lines)
    assert not figure.axes[1].images
    assert figure.axes[-1].get_xlabel() == "time (s)"


def specific(F, k):
    """The six entries that are most specific to a component, the largest first."""
    chosen = np.argsort(-metrics.specificity(F)[:, k], kind="stable")[:6]
    return chosen[np.argsort(-F[chosen, k], kind="stable")]


def test_names_become_bars_of_the_most_specific_entries(counts):
    data, result = counts
    figure = plot.components(result, data)
    k = int(np.argmax(metrics.shares(result.W, result.H)))
    top = specific(result.W, k)
    ax = figure.axes[0]
    assert [text.get_text() for text in ax.get_yticklabels()][:6] == list(data.rows.values[top])
    widths = np.array([bar.get_width() for bar in ax.patches])[:6]
    np.testing.assert_allclose(widths, result.W[top, k] / result.W[:, k].max())
    assert all("\\$" in text.get_text() for text in figure.axes[1].get_yticklabels())
    figure.draw_without_rendering()


def test_a_name_that_is_large_everywhere_gets_no_bar(rng):
    W = np.kron(np.eye(3), rng.random((10, 1)))  # ten genes of each component, and
    W[7], W[8:10, 1:] = 5.0, 0.1  # one that is large in all of them
    names = np.array([f"gene {i}" for i in range(30)])
    data = Dataset("counts", None, None, Axis("gene", names), Axis("cell", np.arange(9)))
    shown = plot.components(factorization(W, rng.random((3, 9))), data).axes[0].get_yticklabels()
    assert "gene 7" not in [text.get_text() for text in shown]
    alone = plot.components(factorization(W[:, :1], rng.random((1, 9))), data).axes[0]
    assert alone.get_yticklabels()[0].get_text() == "gene 7"


def test_at_most_24_are_shown_and_the_rest_is_counted(rng):
    result = factorization(rng.random((10, 60)), rng.random((60, 12)))
    figure = plot.components(result)
    assert len(labels(figure)) == 24
    assert "36 more are not shown" in figure.get_supxlabel()
    assert len(labels(plot.components(result, which=range(30)))) == 30


def test_zero_components_constant_data_and_no_components_are_drawn():
    zero = plot.components(factorization(np.zeros((5, 2)), np.zeros((2, 4))))
    zero.draw_without_rendering()
    texts = [text.get_text() for text in zero.axes[0].texts if text.get_gid() != "name"]
    assert texts == ["zero", "zero"]
    constant = nmf(np.ones((6, 5), dtype=np.float32), 1)
    assert labels(plot.components(constant)) == ["component 1"]
    none = plot.components(factorization(np.empty((5, 0)), np.empty((0, 4))))
    assert "no components" in none.axes[0].texts[0].get_text()
    plot.components(factorization(np.ones((1, 1)), np.ones((1, 1)))).draw_without_rendering()


def test_axes_out_of_order_are_sorted_and_of_the_wrong_length_refused(rng):
    result = factorization(rng.random((4, 1)), rng.random((1, 3)))
    rows, columns = Axis("mass", np.array([4.0, 1.0, 3.0, 2.0])), Axis("scan", np.arange(3))
    figure = plot.components(result, Dataset("x", None, None, rows, columns))
    ((x, y),) = drawn(figure.axes[0], "lines")
    assert x.tolist() == [1, 2, 3, 4]
    w = result.W[[1, 3, 2, 0], 0]
    np.testing.assert_allclose((y + 1) / (y + 1).max(), w / w.max())
    short = Dataset("x", None, None, rows, Axis("scan", np.arange(2)))
    with pytest.raises(ValueError, match=r"4 rows and 2 columns.*4 × 3"):
        plot.components(result, short)


def test_dates_are_an_axis_too(rng):
    days = np.datetime64("2026-01-01") + np.arange(50) * np.timedelta64(6, "h")
    data = Dataset("x", None, 2, Axis("depth", np.arange(4.0), "m"), Axis("day", days))
    figure = plot.components(factorization(rng.random((4, 2)), rng.random((2, 50))), data)
    figure.draw_without_rendering()
    np.testing.assert_array_equal(drawn(figure.axes[1], "lines")[0][0], days)
    assert len(figure.axes[-1].get_xticks()) <= 7


def test_a_figure_shows_itself_in_a_notebook_and_pyplot_is_not_touched(run):
    figure = plot.singular_values(run[1])
    assert figure._repr_png_().startswith(b"\x89PNG")
