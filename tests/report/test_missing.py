"""Pages of fits of data with missing values, and of held-out entries."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge import datasets, nmf, rank_path
from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.plot import reconstruction
from nmfmerge.report import page

rng = np.random.default_rng(0)
DATA = datasets.lcms_like(30, 40, 3)
HIDDEN = rng.random(DATA.X.shape) < 0.1
HOLES = np.where(HIDDEN, np.nan, DATA.X)


def test_the_page_has_the_held_out_errors():
    path = rank_path(HOLES, 3, holdout=0.1, tol=1e-2)
    html = page(path[2], path=path)
    assert ">Held-out error</th>" in html
    assert f"{path.held_out[1]:.4g} ± {path.held_out_error[1]:.2g} %" in html
    plain = rank_path(HOLES, 3, tol=1e-2)
    assert "Held-out" not in page(plain[2], path=plain)


def pictures(result, data, **entries):
    figure = reconstruction(result, data, **entries)
    drawn = [ax.images[0] for ax in figure.axes[:3]]
    assert all(np.isfinite(image.norm.vmax) for image in drawn)
    return [np.ma.filled(image.get_array().astype(float), np.nan) for image in drawn]


@pytest.mark.parametrize("form", [np.array, sp.csr_array])
def test_missing_entries_have_no_value(form):
    X = form(HOLES)
    data = Dataset("run", X, None, DATA.rows, DATA.columns)
    known, fitted, rest = pictures(nmf(X, 3), data)
    np.testing.assert_array_equal(np.isnan(known), HIDDEN)
    np.testing.assert_array_equal(np.isnan(rest), HIDDEN)
    assert np.isfinite(fitted).all()


def test_blocks_are_means_in_which_missing_entries_have_no_residual():
    X = rng.random((1200, 20)) + 0.5
    X[::2][:, :10] = np.nan  # one row of each block
    X[600:602, 15] = np.nan
    axes = (Axis(name, np.arange(n)) for name, n in zip("ab", X.shape, strict=True))
    result = nmf(X, 2, tol=1e-1)
    known, fitted, rest = pictures(result, Dataset("run", X, None, *axes))
    residual = np.nan_to_num(X - result.W @ result.H).reshape(600, 2, 20).mean(axis=1)
    assert np.isnan(rest).sum() == np.isnan(known).sum() == 1
    residual[300, 15] = np.nan
    np.testing.assert_allclose(rest, residual, atol=1e-12)
    np.testing.assert_allclose(known, fitted + residual)


def test_mean_images_are_of_the_completed_data():
    cube = rng.random((12, 7)) + 0.1
    holes = np.where(rng.random(cube.shape) < 0.2, np.nan, cube)
    holes[:, 0] = cube[:, 0]
    axes = Axis("pixel", np.arange(12)), Axis("band", np.arange(7))
    result = nmf(holes, 2)
    mean = pictures(result, Dataset("cube", holes, None, *axes, image_shape=(3, 4)))[0]
    np.testing.assert_allclose(mean.ravel(), result.impute(holes).mean(axis=1))


FORMS = {
    "weights": (np.where(HIDDEN, 1e6, DATA.X), {"weights": np.where(HIDDEN, 0, 0.5)}),
    "uneven": (np.where(HIDDEN, 1e6, DATA.X), {"weights": np.where(HIDDEN, 0, 1 + DATA.X)}),
    "sparse weights": (
        np.where(HIDDEN, 1e6, DATA.X),
        {"weights": sp.csc_array(np.where(HIDDEN, 0, 1 + DATA.X))},
    ),
    "ratings": (sp.csr_array(np.where(HIDDEN, 0, DATA.X + 1e-3)), {"missing": "zeros"}),
}


@pytest.mark.parametrize("form", FORMS)
def test_figures_see_nothing_of_entries_without_weight(form):
    X, entries = FORMS[form]
    result = nmf(X, 3, **entries, tol=1e-2)
    data = Dataset("run", X, None, DATA.rows, DATA.columns)
    known, fitted, rest = pictures(result, data, **entries)
    X = X.toarray() if sp.issparse(X) else X
    np.testing.assert_array_equal(np.isnan(known), HIDDEN)
    np.testing.assert_allclose(known[~HIDDEN], X[~HIDDEN], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(rest, known - fitted, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fitted, result.W @ result.H, rtol=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_mean_images_see_nothing_of_entries_without_weight(form):
    X, entries = FORMS[form]
    result = nmf(X, 3, **entries, tol=1e-2)
    axes = Axis("pixel", np.arange(30)), DATA.columns
    data = Dataset("cube", X, None, *axes, image_shape=(5, 6))
    mean = pictures(result, data, **entries)[0]
    np.testing.assert_allclose(mean.ravel(), result.impute(X, **entries).mean(axis=1), rtol=1e-9)


def test_what_is_missing_has_another_colour_than_zero():
    X = np.array(HOLES)
    X[0, 0] = 0
    figure = reconstruction(nmf(X, 3), Dataset("run", X, None, DATA.rows, DATA.columns))
    for ax in figure.axes[:3]:
        image = ax.images[0]
        unknown = image.cmap(np.ma.masked_invalid([np.nan]))[0]
        assert np.abs(unknown - image.cmap(image.norm([0.0]))[0]).max() > 0.2


def test_ticks_of_the_residual_do_not_touch():
    result = nmf(DATA.X, 3)
    for scale in (1, 3e-3, 0.7, 45):
        shown = Dataset("run", scale * DATA.X, None, DATA.rows, DATA.columns)
        figure = reconstruction(replace(result, W=scale * result.W), shown)
        figure.canvas.draw()
        boxes = [text.get_window_extent() for text in figure.axes[-1].get_xticklabels()]
        assert all(a.x1 < b.x0 for a, b in pairwise(boxes))


def test_standard_errors_have_no_exponents():
    path = rank_path(HOLES, 2, holdout=0.1, tol=1e-2)
    wild = replace(path, held_out=np.array([3.0, 105.0]), held_out_error=np.array([0.0123, 104.0]))
    assert "3 ± 0.012 %" in repr(wild)
    assert "105 ± 100 %" in repr(wild)
    assert "105 ± 100 %" in page(wild[2], path=wild)
