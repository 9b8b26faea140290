from dataclasses import replace

import numpy as np
import pytest

from nmfmerge import metrics, nmf, nmf_merge, plot
from nmfmerge.plot.style import CRIMSON
from nmfmerge.results.factorization import Spread, Start
from nmfmerge.solvers.history import Status


def with_starts(result, errors, similarity, best=0):
    """A result with made-up starts."""
    starts = tuple(
        Start("random", i, error, 10, Status.CONVERGED, np.asarray(row, dtype=float), 0.0, 0.0)
        for i, (error, row) in enumerate(zip(errors, similarity, strict=True))
    )
    return replace(result, starts=starts, best_start=best, fitting_error=errors[best])


def marked(ax, gid):
    return next(line for line in ax.lines if line.get_gid() == gid)


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_errors_are_drawn_in_percent_above_the_best(run):
    _, result = run
    similar = np.ones((4, 5))
    figure = plot.starts(with_starts(result, [1.1, 1.0, 1.5, 1.001], similar, best=1))
    left = figure.axes[0]
    names = [label.get_text() for label in left.get_yticklabels()]
    assert names == ["random 0", "random 1", "random 2", "random 3"]
    at = marked(left, "errors").get_xdata()
    np.testing.assert_allclose(at[[0, 2, 3]], [10, 50, 0.1])
    assert marked(left, "best").get_ydata().tolist() == [1]
    assert at[1] < at.min(initial=1, where=[True, False, True, True])
    assert texts(left) == ["+10 %", "1 %", "+50 %", "+0.1 %"]


def test_starts_that_agree_to_many_digits_can_be_told_apart(run):
    _, result = run
    errors = [1.0, 1.0 + 2e-8, 1.0 + 3e-7, 1.0]
    left = plot.starts(with_starts(result, errors, np.ones((4, 5)))).axes[0]
    left.figure.draw_without_rendering()
    assert texts(left) == ["1 %", "+2·10⁻⁶ %", "+3·10⁻⁵ %", "the same"]
    pixels = left.transData.transform(
        np.stack([marked(left, "errors").get_xdata(), np.arange(4)], axis=1)
    )[:, 0]
    assert pixels[2] > pixels[1] + 20 > pixels[0] + 40
    assert pixels[3] == pixels[0]


def test_the_matrix_is_the_similarity_in_order_of_share(run):
    _, result = run
    rng = np.random.default_rng(0)
    similarity = np.vstack([np.ones(5), rng.random((2, 5))])
    similarity[1:, 2] = 0.95
    named = replace(with_starts(result, [1, 2, 3], similarity), names=tuple("abcde"))
    right = plot.starts(named).axes[1]
    order = np.argsort(-metrics.shares(result.W, result.H))
    np.testing.assert_array_equal(right.images[0].get_array(), similarity[:, order])
    labels = right.get_xticklabels()
    assert [label.get_text() for label in labels] == ["abcde"[k] for k in order]
    red = {label.get_text() for label in labels if label.get_color() == CRIMSON}
    assert red == set("abde")
    assert len(right.texts) == np.sum(similarity < 0.9)
    assert "Red: not found from every start" in right.figure.get_supxlabel()


def test_a_similarity_just_below_the_limit_is_not_rounded_up_to_it(run):
    _, result = run
    similarity = np.ones((2, 5))
    similarity[1, 0] = 0.8999
    assert texts(plot.starts(with_starts(result, [1, 1], similarity)).axes[1]) == [".89"]


def test_one_start_is_said_in_words(plain_run):
    assert "There was one start" in texts(plot.starts(plain_run).axes[0])[0]


@pytest.mark.parametrize("n", [2, 24, 25, 200])
@pytest.mark.parametrize("r", [1, 5, 70])
@pytest.mark.parametrize("errors", ["equal", "zero", "infinite", "mixed"])
def test_any_number_of_starts_and_components_is_drawn(n, r, errors):
    rng = np.random.default_rng(n + r)
    W, H = rng.random((r + 2, r)), rng.random((r, r + 3))
    values = {
        "equal": np.full(n, 2.0),
        "zero": np.zeros(n),
        "infinite": np.full(n, np.inf),
        "mixed": np.concatenate([[0.0], rng.random(n - 1)]),
    }[errors]
    plain = replace(nmf(W @ H, 1), W=W, H=H)
    figure = plot.starts(with_starts(plain, values.tolist(), rng.random((n, r))))
    figure.draw_without_rendering()
    assert figure.get_size_inches()[1] < 12


def test_real_starts_are_drawn(run):
    data, _ = run
    result = nmf_merge(data.X, 5, n_init=3)
    figure = plot.starts(result)
    figure.draw_without_rendering()
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == ["NNDSVD", *(f"random {start.seed}" for start in result.starts[1:])]


def spread(ax):
    return [part for part in ax.collections if part.get_gid() == "spread"]


def test_lines_have_a_band_of_the_spread(run):
    data, result = run
    wide = replace(result, spread=spread_of(result, 0.2))
    figure = plot.components(wide, data, which=[2, 0])
    (band,) = spread(figure.axes[1])
    for i, k in enumerate((2, 0)):
        x, y = band.get_paths()[i].vertices.T
        peak = data.columns.values[np.argmax(result.H[k])]
        ends = y[x == peak] + i + 1
        assert ends.max() / ends.min() == pytest.approx(1.2 / 0.8)
        assert (y + i + 1).min() >= -1e-12
        assert (y + i + 1).max() < 1
    (whiskers,) = [line for line in figure.axes[0].lines if line.get_gid() == "spread"]
    x, y = whiskers.get_data()
    first = np.flatnonzero(x == data.rows.values[np.argmax(result.W[:, 2])])[:2]
    assert (y[first[1]] + 1) / (y[first[0]] + 1) == pytest.approx(1.2 / 0.8)
    assert "standard deviation over 4 starts" in figure.get_supxlabel()


def test_bars_have_whiskers_and_pictures_nothing(counts, movie):
    data, result = counts
    wide = replace(with_starts(result, [1, 1], np.ones((2, 3))), spread=spread_of(result, 0.3))
    figure = plot.components(wide, data, which=[1])
    chosen = np.argsort(-metrics.specificity(result.W)[:, 1], kind="stable")[:6]
    top = chosen[np.argsort(-result.W[chosen, 1], kind="stable")]
    (whiskers,) = spread(figure.axes[0])
    ends = np.array([segment[:, 0] for segment in whiskers.get_segments()])
    bars = np.array([bar.get_width() for bar in figure.axes[0].patches])
    np.testing.assert_allclose(bars / bars.max(), result.W[top, 1] / result.W[:, 1].max())
    np.testing.assert_allclose(ends[:, 0], 0.7 * bars)
    np.testing.assert_allclose(ends[:, 1], 1.3 * bars)
    assert figure.axes[0].get_xlim()[1] > ends.max()
    assert figure.get_supxlabel().startswith("Whiskers: ±")
    data, result = movie
    wide = replace(with_starts(result, [1, 1], np.ones((2, 2))), spread=spread_of(result, 0.3))
    figure = plot.components(wide, data)
    assert spread(figure.axes[0]) == []
    assert len(spread(figure.axes[1])) == 1
    assert figure.get_supxlabel() == "Bands: ± the standard deviation over 2 starts."


def spread_of(result, share):
    return Spread(W=share * result.W, H=share * result.H)


def test_one_start_has_no_band_and_narrow_ones_are_said(plain_run):
    figure = plot.components(plain_run)
    assert not any(spread(ax) for ax in figure.axes)
    assert figure.get_supxlabel() == ""
    narrow = replace(
        with_starts(plain_run, [1, 1], np.ones((2, 5))), spread=spread_of(plain_run, 1e-4)
    )
    assert plot.components(narrow).get_supxlabel().endswith("too narrow to see.")


def test_a_band_does_not_flatten_the_line(plain_run):
    wild = replace(
        with_starts(plain_run, [1, 1], np.ones((2, 5))), spread=spread_of(plain_run, 100.0)
    )
    (line,) = plot.components(wild, which=[0]).axes[0].lines
    assert np.nanmax(line.get_ydata()) + 1 > 0.5
