"""Figures of a consensus say what the result says."""

from dataclasses import replace

import numpy as np
import pytest

from nmfmerge import consensus, plot


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(0.5, 500.0, (24, 3)) @ rng.gamma(0.3, 1.0, (3, 20))).astype(float)
    return consensus(X, "1-6", n_fits=6, tol=1e-2, resample="poisson")


def test_curves_have_the_numbers_of_the_result(result):
    figure = result.plot()
    silhouettes, agreement, errors = figure.axes
    assert silhouettes.lines[-4].get_ydata() == pytest.approx(
        [r.silhouette for r in result.results]
    )
    assert agreement.lines[-1].get_ydata() == pytest.approx(
        [100 * r.agreement for r in result.results]
    )
    assert errors.lines[-1].get_ydata() == pytest.approx([r.fitting_error for r in result.results])


def test_errors_that_differ_little_are_not_drawn_from_zero(result):
    assert result.plot().axes[2].get_ylim()[0] == 0  # from 100 % at rank 1 to almost nothing
    last = replace(result, results=result.results[-2:])
    low, high = last.plot().axes[2].get_ylim()
    errors = [r.fitting_error for r in last.results]
    assert 0 < low < min(errors) < max(errors) < high


def test_the_assessed_rank_is_marked(result):
    marked = [line for line in result.plot().axes[0].lines if line.get_gid() == "assessed"]
    rank = result.assess().rank
    assert [line.get_xdata()[0] for line in marked] == [rank] * len(marked)


def test_components_are_drawn_by_cluster(result):
    figure = result.plot(3)
    image = figure.axes[0].images[0].get_array()
    n = result[3].n_fits * 3
    assert image.shape == (n, n)
    kept = result[3].labels >= 0
    same = np.sort(result[3].labels[kept])[:, None] == np.sort(result[3].labels[kept])
    drawn = np.asarray(image)[: kept.sum(), : kept.sum()]
    assert drawn[same].mean() > 0.9 > drawn[~same].mean()


def test_a_result_without_components_says_so(result):
    figure = plot.clustergram(replace(result[3], components=None))
    assert "not kept" in figure.axes[0].texts[0].get_text()
