import numpy as np
import pytest

from nmfmerge import datasets, nmf, nmf_merge
from nmfmerge.alternatives import neighbours, standard


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


def test_neighbours_are_fits_of_one_component_fewer_and_more(data):
    result = nmf_merge(data.X, 4)
    found = neighbours(data.X, result)
    assert found["more"] < result.fitting_error < found["fewer"]
    for error, r in ((found["fewer"], 3), (found["more"], 5)):
        assert error == pytest.approx(nmf_merge(data.X, r).fitting_error, rel=0.2)


def test_there_is_nothing_below_one_or_above_the_smaller_side():
    X = np.random.default_rng(0).random((5, 3)) + 0.1
    assert neighbours(X, nmf_merge(X, 1))["fewer"] is None
    assert neighbours(X, nmf(X, 3))["more"] is None


def test_a_fit_takes_part_in_its_time_only(data, monkeypatch):
    limits = []
    from nmfmerge import alternatives

    monkeypatch.setattr(
        alternatives, "nmf", lambda *a, max_time, **k: limits.append(max_time) or nmf(*a, **k)
    )
    result = nmf_merge(data.X, 4)
    standard(data.X, result, {})
    neighbours(data.X, result)
    assert limits == [1.0, 0.5, 0.5]
