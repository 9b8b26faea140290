import numpy as np
import pytest

from nmfmerge.datasets import mutation_catalogue
from nmfmerge.fields.mutations import KINDS


def test_types_are_those_of_sbs96_in_order():
    data = mutation_catalogue(3, 10)
    assert tuple(data.rows.values) == KINDS["SBS96"].types
    assert data.X.shape == (96, 10)


def test_counts_are_poisson_around_the_product():
    data = mutation_catalogue(5, 400, random_state=2)
    means = data.W @ data.H
    np.testing.assert_allclose(data.W.sum(axis=0), 1)
    deviations = ((data.X - means) ** 2)[means > 5] / means[means > 5]
    assert abs(deviations.mean() - 1) < 0.05


def test_overdispersion_adds_the_square_of_the_mean():
    data = mutation_catalogue(5, 400, overdispersion=0.2, random_state=2)
    means = data.W @ data.H
    excess = ((data.X - means) ** 2 - means)[means > 5] / means[means > 5] ** 2
    assert abs(excess.mean() - 0.2) < 0.03


def test_signatures_differ_and_every_sample_has_one():
    data = mutation_catalogue(12, 60, density=0.05)
    unit = data.W / np.linalg.norm(data.W, axis=0)
    assert np.triu(unit.T @ unit, 1).max() < 0.8
    assert (data.H.sum(axis=0) > 0).all()
    assert (data.H == 0).mean() > 0.8


def test_hypermutated_samples_stand_out_and_seeds_repeat():
    data = mutation_catalogue(5, 50, n_hypermutated=2, random_state=3)
    totals = data.X.sum(axis=0)
    assert totals[-2:].min() > 5 * totals[:-2].max()
    np.testing.assert_array_equal(
        data.X, mutation_catalogue(5, 50, n_hypermutated=2, random_state=3).X
    )


def test_impossible_sizes_are_refused(monkeypatch):
    with pytest.raises(ValueError, match="n_signatures=0"):
        mutation_catalogue(0)
    monkeypatch.setattr("nmfmerge.datasets.mutations._MOST_ALIKE", 0.0)
    with pytest.raises(ValueError, match="n_signatures=2 is too many to be different"):
        mutation_catalogue(2, 3)
