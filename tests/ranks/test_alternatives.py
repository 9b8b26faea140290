from dataclasses import replace

import numpy as np
import pytest

from nmfmerge import datasets, nmf, nmf_merge
from nmfmerge.ranks.alternatives import around, standard
from nmfmerge.results.assessment import Evidence, assess


@pytest.fixture(scope="module")
def data():
    return datasets.lcms_like(60, 80, 6)


def test_standard_nmf_goes_from_the_same_starts(data):
    settings = {"n_init": 3, "random_state": 7, "tol": 1e-3, "n_extra": 2, "max_time": None}
    result = nmf_merge(data.X, 6, **settings)
    found = standard(data.X, result, settings)
    expected = nmf(data.X, 6, n_init=3, random_state=7, tol=1e-3)
    assert found["fitting_error"] == expected.fitting_error
    assert (found["n_init"], found["status"]) == (3, "converged")


def test_ranks_around_are_fits_of_their_own(data):
    result = nmf_merge(data.X, 4)
    found = around(data.X, result)
    assert found["ranks"] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert found["errors"] == sorted(found["errors"], reverse=True)
    for r, error in zip(found["ranks"], found["errors"], strict=True):
        assert error == pytest.approx(nmf_merge(data.X, r).fitting_error, rel=0.2)
    assert found["shape"] == [60, 80]


def test_the_scale_of_the_data_does_not_matter(data):
    found, large = (
        around(c * data.X, nmf_merge(c * data.X, 4)) for c in (1.0, 4.0**30)
    )  # fmt: skip
    assert found == large


def test_lower_ranks_are_added_until_one_stands_out():
    rng = np.random.default_rng(0)
    X = rng.gamma(0.5, 1, (60, 3)) @ rng.gamma(0.5, 1, (3, 80)) + 0.01 * rng.random((60, 80))
    found = assess(Evidence.from_record(around(X, nmf_merge(X, 9))))
    assert found.stands_out
    assert abs(found.rank - 3) <= 1


def test_small_data_are_not_judged():
    X = np.random.default_rng(0).random((5, 3)) + 0.1
    assert assess(Evidence.from_record(around(X, nmf(X, 3)))).rank is None


def test_comparisons_take_part_of_the_time_of_the_fit_only(data, monkeypatch):
    limits = []
    from nmfmerge.ranks import alternatives

    monkeypatch.setattr(
        alternatives, "nmf", lambda *a, max_time, **k: limits.append(max_time) or nmf(*a, **k)
    )
    result = nmf_merge(data.X, 4)
    standard(data.X, result, {})
    standard(data.X, replace(result, seconds=20.0), {})
    standard(data.X, replace(result, seconds=500.0), {})
    assert limits == [3.0, 20.0, 60.0]


def test_nothing_is_said_where_time_was_up(data, monkeypatch):
    monkeypatch.setattr("nmfmerge.ranks.alternatives._seconds", lambda result: 1e-9)
    assert around(data.X, nmf_merge(data.X, 4)) == {}
