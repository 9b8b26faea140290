from dataclasses import replace

import numpy as np
import pytest

from nmfmerge import metrics, plot


def test_a_shuffled_solution_is_matched_with_itself(run):
    data, result = run
    shuffle = np.array([3, 0, 4, 1, 2])
    other = replace(result, W=2 * result.W[:, shuffle], H=result.H[shuffle] / 2)
    figure = plot.comparison(result, other, data)
    bars = [bar.get_height() for bar in figure.axes[0].patches]
    np.testing.assert_allclose(bars, 1)
    order = np.argsort(-metrics.shares(result.W, result.H))
    back = np.argsort(shuffle)
    rows = [ax.get_ylabel() for ax in figure.axes[1::2]]
    assert rows == [f"{k + 1} and {back[k] + 1}" for k in order]
    for ax in figure.axes[1:]:
        first, second = ax.lines
        np.testing.assert_allclose(first.get_ydata(), second.get_ydata())


def test_bars_are_the_cosines_of_the_matching(run, plain_run):
    _, result = run
    _, cosine = metrics.match_components(result.W, plain_run.W)
    figure = plot.comparison(result, plain_run)
    order = np.argsort(-metrics.shares(result.W, result.H))
    np.testing.assert_allclose([b.get_height() for b in figure.axes[0].patches], cosine[order])
    ticks = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert ticks == [str(k + 1) for k in order]


def test_many_pairs_are_limited_to_the_least_alike(rng, run):
    _, result = run
    W, H = rng.random((30, 20)), rng.random((20, 25))
    W2 = W.copy()
    W2[:, 7] = rng.random(30) ** 9
    first, second = (replace(result, W=F, H=H, merges=None, merge_ids=()) for F in (W, W2))
    figure = plot.comparison(first, second)
    rows = [ax.get_ylabel() for ax in figure.axes[1::2]]
    assert len(rows) == 12
    assert "8 and 8" in rows
    figure.draw_without_rendering()


def test_pictures_and_names_are_compared_too(movie, counts):
    for data, result in (movie, counts):
        plot.comparison(result, result, data).draw_without_rendering()


def test_different_ranks_are_refused(run, movie):
    with pytest.raises(ValueError, match="same data and rank"):
        plot.comparison(run[1], movie[1])


def test_paired_starts_draws_every_run():
    ax = plot.paired_starts([3.0, 1.0, 2.0], [1.0, 0.9, 2.5]).axes[0]
    assert ax.lines[0].get_ydata().tolist() == [1, 2, 3]
    assert ax.lines[1].get_ydata().tolist() == [0.9, 2.5, 1]
    ax = plot.paired_starts([3.0, 1.0], [1.0]).axes[0]
    assert ax.lines[1].get_ydata().tolist() == [1]
