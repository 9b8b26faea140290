"""Results speak of the loss that they are fits by, and no folder but `losses` names one."""

import re
from pathlib import Path

import numpy as np
import pytest

import nmfmerge
from nmfmerge import NMFMerge, metrics, nmf_merge, plot
from nmfmerge.losses import LOSSES
from nmfmerge.settings import SETTINGS

SOURCE = Path(nmfmerge.__file__).parent


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(3)
    return rng.poisson(30 * rng.gamma(0.3, size=(40, 4)) @ rng.gamma(0.3, size=(4, 30)))


@pytest.mark.parametrize("loss", LOSSES)
def test_shares_are_in_the_order_of_the_components(X, loss):
    result = nmf_merge(X, 4, beta_loss=loss, n_init=2)
    share = result.shares()
    assert share.sum() == pytest.approx(100)
    assert (np.diff(share) <= 1e-6).all()
    np.testing.assert_array_equal(share, metrics.shares(result.W, result.H, beta_loss=loss))


def texts(figure):
    found = [text.get_text() for text in figure.texts]
    for ax in figure.axes:
        found += [ax.get_title(), ax.get_xlabel(), ax.get_ylabel()]
    return " | ".join(found)


def test_figures_speak_of_the_loss(X):
    squares, kl = (nmf_merge(X, 4, beta_loss=loss, n_init=1) for loss in LOSSES)
    assert "‖WH‖²" in texts(plot.merges(squares))
    assert "‖WH‖²" not in texts(plot.merges(kl))
    assert "the sum of WH" in texts(plot.merges(kl))
    assert "generalized singular values" in texts(plot.singular_values(squares))
    drawn = texts(plot.singular_values(kl))
    assert "strengths of the recovered components" in drawn
    assert "where WH has as much" not in drawn


def test_the_estimator_names_its_norm(X):
    squares, kl = (NMFMerge(3, beta_loss=loss, n_init=1).fit(X) for loss in LOSSES)
    assert "‖X − WH‖ = " in squares._repr_mimebundle_()["text/html"]
    html = kl._repr_mimebundle_()["text/html"]
    assert "√(2·D(X‖WH)) = " in html
    assert "‖X − WH‖ = " not in html


def test_the_setting_has_the_words_of_the_losses():
    assert SETTINGS["beta_loss"].takes.words == tuple(LOSSES)


def test_no_other_folder_asks_for_a_loss_by_name():
    named = re.compile(r"""[!=]= ["'](frobenius|kullback-leibler)["']""")
    found = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if named.search(path.read_text())
    ]
    assert found == []
