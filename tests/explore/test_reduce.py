from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge.explore import reduce
from nmfmerge.explore.reduce import Overview, product_window


def averages(X, row_edges, column_edges):
    """Averages over blocks by loops, to compare with."""
    return np.array([
        [X[a:b, c:d].mean() for c, d in pairwise(column_edges)]
        for a, b in pairwise(row_edges)
    ])  # fmt: skip


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, sp.csc_matrix])
@pytest.mark.parametrize(
    ("rows", "columns"), [((0, 97), (0, 53)), ((10, 60), (3, 50)), ((96, 97), (0, 1))]
)
@pytest.mark.parametrize("kept", [False, True])
def test_pictures_are_exact_averages_of_the_part_in_view(
    rng, monkeypatch, make, rows, columns, kept
):
    if kept:  # as for large data: from sums that are kept
        monkeypatch.setattr(reduce, "_EXACT", 0)
        monkeypatch.setattr(reduce, "_COARSE", 40)
    X = rng.random((97, 53)) * (rng.random((97, 53)) < 0.5)
    found, row_edges, column_edges = Overview(make(X)).window(rows, columns, 12)
    np.testing.assert_allclose(found, averages(X, row_edges, column_edges), rtol=1e-12, atol=1e-15)
    for edges, (first, last), length in (
        (row_edges, rows, 97), (column_edges, columns, 53),
    ):  # fmt: skip
        assert 0 <= edges[0] <= first < last <= edges[-1] <= length
        assert len(edges) <= 13
        assert kept or (edges[0], edges[-1]) == (first, last)


def test_pictures_of_the_product_have_the_same_blocks(rng):
    W, H = rng.random((97, 4)), rng.random((4, 53))
    _, row_edges, column_edges = Overview(W @ H).window((5, 90), (1, 50), 9)
    np.testing.assert_allclose(
        product_window(W, H, row_edges, column_edges), averages(W @ H, row_edges, column_edges)
    )
