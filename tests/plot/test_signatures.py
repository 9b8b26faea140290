import numpy as np
import pytest
from matplotlib.colors import to_hex

from nmfmerge import plot
from nmfmerge.fields.mutations import KINDS

RNG = np.random.default_rng(0)


def bars(ax):
    return np.array([patch.get_height() for patch in ax.patches])


@pytest.mark.parametrize("name", KINDS)
def test_bars_are_shares_in_the_usual_order(name):
    kind = KINDS[name]
    W = RNG.gamma(0.5, size=(len(kind.types), 2))
    order = RNG.permutation(len(W))
    figure = plot.signatures(W[order], [kind.types[i] for i in order])
    for ax, w in zip(figure.axes, W.T, strict=True):
        np.testing.assert_allclose(bars(ax), 100 * w / w.sum())


def test_each_substitution_has_its_colour():
    types = KINDS["SBS96"].types
    (ax,) = plot.signatures(np.ones((96, 1)), types).axes
    colours = [to_hex(patch.get_facecolor()) for patch in ax.patches]
    assert len(set(colours)) == 6
    assert all(len(set(colours[i : i + 16])) == 1 for i in range(0, 96, 16))
    heads = [text.get_text() for text in ax.texts]
    assert heads == ["1", "C>A", "C>G", "C>T", "T>A", "T>C", "T>G"]


def test_whiskers_reach_from_low_to_high():
    types = KINDS["SBS96"].types
    W = np.full((96, 1), 1 / 96)
    (ax,) = plot.signatures(W, types, ["a"], low=W / 2, high=2 * W).axes
    lines = np.array([line[:, 1] for line in ax.collections[0].get_segments()])
    np.testing.assert_allclose(lines, np.tile([50 / 96, 200 / 96], (96, 1)))


def test_missing_types_and_zero_signatures_are_drawn_as_zero():
    types = KINDS["SBS96"].types[:90]
    (ax,) = plot.signatures(np.zeros((90, 1)), types).axes
    assert len(ax.patches) == 96
    assert not bars(ax).any()


def test_nothing_to_draw_is_said():
    figure = plot.signatures(np.zeros((96, 0)), KINDS["SBS96"].types)
    assert "no signatures" in figure.axes[0].texts[0].get_text()


def test_other_names_are_refused():
    with pytest.raises(ValueError, match="types are no mutation types; expected names of SBS96"):
        plot.signatures(np.ones((2, 1)), ["a", "b"])
    with pytest.raises(ValueError, match=r"W has shape \(3, 1\); expected 96 rows"):
        plot.signatures(np.ones((3, 1)), KINDS["SBS96"].types)
