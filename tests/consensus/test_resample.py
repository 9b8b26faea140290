"""Drawn data: what is drawn, that it repeats, and that it is of the kind of X."""

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.consensus.resample import Resampler, drawn
from nmfmerge.inputs.check import check_X

X = np.random.default_rng(0).poisson(3.0, (40, 30)).astype(float)


def test_poisson_counts_have_the_mean_and_the_variance_of_x():
    rng = np.random.default_rng(1)
    draws = np.stack([drawn(check_X(X), "poisson", rng).X for _ in range(2000)])
    assert np.abs(draws.mean(axis=0) - X).max() < 5 * np.sqrt(X.max() / 2000)
    some = X > 0
    assert np.abs(draws.var(axis=0)[some] / X[some] - 1).max() < 0.3
    assert (draws[:, ~some] == 0).all()
    assert (draws == np.round(draws)).all()


@pytest.mark.parametrize(("kind", "shape"), [("rows", (36, 30)), ("columns", (40, 27))])
def test_nine_tenths_are_drawn_in_their_order(kind, shape):
    part = drawn(check_X(X), kind, np.random.default_rng(2)).X
    assert part.shape == shape
    lines, all_lines = (part, X) if kind == "rows" else (part.T, X.T)
    places = [np.flatnonzero((all_lines == line).all(axis=1))[0] for line in lines]
    assert places == sorted(set(places))


@pytest.mark.parametrize("kind", ["poisson", "rows", "columns"])
@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_matrix, np.asfortranarray, np.float32])
def test_a_draw_is_of_the_kind_of_x_and_repeats(kind, form):
    given = X.astype(np.float32) if form is np.float32 else form(X)
    first, again, other = (
        Resampler(check_X(given), kind, seed).matrix(3).X for seed in (0, 0, 1)
    )  # fmt: skip
    assert type(first) is type(given)
    assert first.dtype == given.dtype
    dense = [A.toarray() if sp.issparse(A) else A for A in (first, again, other)]
    assert np.array_equal(dense[0], dense[1])
    assert not np.array_equal(dense[0], dense[2])


def test_numbers_far_from_one_are_drawn_in_full_scale():
    large = X * 1e9
    counts = Resampler(check_X(large), "poisson", 0).matrix(0)
    assert counts.X.max() * counts.scale * counts.unit**2 == pytest.approx(large.max(), rel=1e-2)


def test_entries_too_large_for_counts_are_refused():
    with pytest.raises(ArgumentError, match="resample='poisson' draws counts"):
        Resampler(check_X(X * 1e16), "poisson", 0)
