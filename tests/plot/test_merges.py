from dataclasses import replace

import numpy as np
import pytest

from nmfmerge import Factorization, MergeTree, Status, metrics, nmf_merge, plot
from nmfmerge.plot.merges import leaf_names, leaf_order

TREE = MergeTree(6, [(1, 4), (3, 6)], [1.0, 4.0])  # 1 + 4 = 6, 3 + 6 = 7; left: 0, 2, 5, 7


@pytest.fixture
def merged(rng):
    return Factorization(
        rng.random((9, 4)),
        rng.random((4, 8)),
        1.0,
        2.0,
        (),
        Status.CONVERGED,
        0.1,
        merges=TREE,
        generalized_singular_values=np.array([np.inf, 1.5]),
    )


def test_leaves_roots_and_names(merged):
    assert leaf_order(TREE)[:3] == [3, 1, 4]
    assert sorted(leaf_order(TREE)) == list(range(6))
    assert TREE.roots == (0, 2, 5, 7)
    assert leaf_names(merged) == ["1", "2", "3", "4", "+1", "+2"]


def test_dendrogram_joins_the_pairs_at_their_heights(merged):
    figure = plot.merges(merged)
    tree, curve = figure.axes
    assert [text.get_text() for text in tree.get_yticklabels()] == ["4", "2", "+1"]
    assert [text.get_text() for text in tree.texts] == ["component 4"]
    size = np.linalg.norm(merged.W @ merged.H)
    heights = [line.get_xdata()[1] for line in tree.lines]
    np.testing.assert_allclose(heights, 100 * np.array([1, 2]) / size)
    assert tree.lines[1].get_ydata().tolist() == [0, 0, 1.5, 1.5]
    assert "3 of 6 components" in figure.get_supxlabel()
    done = next(line for line in curve.lines if line.get_label() == "merges done")
    assert done.get_xdata().tolist() == [5, 4]
    np.testing.assert_allclose(done.get_ydata(), 100 * np.array([1, 4]) / size**2)


def test_further_merges_are_those_of_the_result(merged):
    tree = metrics.next_merges(merged.W, merged.H)
    assert (tree.n_leaves, tree.n_components) == (4, 1)
    curve = plot.merges(merged).axes[1]
    coming = next(line for line in curve.lines if "not done" in line.get_label())
    assert coming.get_xdata().tolist() == [3, 2, 1]


def test_without_merges_the_figure_says_so(plain_run, merged):
    figure = plot.merges(plain_run)
    assert figure.axes[0].texts[0].get_text() == "No components were merged in this run."
    free = replace(merged, merges=MergeTree(6, [(1, 4), (3, 6)], [0.0, 0.0]))
    plot.merges(free).draw_without_rendering()
    one = nmf_merge(np.outer([1.0, 2, 3], [1.0, 2, 1]) + np.eye(3), 1)
    plot.merges(one).draw_without_rendering()


def test_singular_values_with_infinite_ones_at_the_top(merged, plain_run):
    ax = plot.singular_values(merged).axes[0]
    assert ax.lines[0].get_ydata().tolist() == [1.5]
    (infinite,) = [line for line in ax.lines if line.get_gid() == "infinite"]
    assert infinite.get_xdata().tolist() == [1]
    assert infinite.get_ydata().tolist() == [ax.get_ylim()[1]]
    assert (
        "No components were recovered"
        in plot.singular_values(plain_run).axes[0].texts[0].get_text()
    )
    plot.singular_values(
        replace(merged, generalized_singular_values=np.full(2, np.inf))
    ).draw_without_rendering()
