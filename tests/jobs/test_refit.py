import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from nmfmerge import jobs
from nmfmerge.datasets import mutation_catalogue
from nmfmerge.fields.mutations import KINDS
from nmfmerge.jobs.mutations.catalogue import catalogue
from nmfmerge.jobs.mutations.reference import decomposition, known_signatures, matches

DATA = mutation_catalogue(8, 30, density=0.3, random_state=4)
KNOWN = pd.DataFrame(DATA.W, index=DATA.rows.values, columns=[f"S{k}" for k in range(8)])


def level(x, fit):
    return x @ np.log(fit) - fit.sum()


def test_the_signatures_of_each_sample_are_found():
    found = jobs.refit(DATA, KNOWN)
    assert found.names == tuple(KNOWN.columns)
    agree = (found.values > 0) == (DATA.H > 0)
    assert agree.mean() > 0.98
    np.testing.assert_allclose(found.values.sum(axis=0), DATA.X.sum(axis=0), rtol=1e-6)
    assert found.cosine.min() > 0.98
    assert "8 signatures in 30 samples" in repr(found)


def test_the_fit_by_all_is_the_maximum_of_the_likelihood():
    found = jobs.refit(DATA, KNOWN, sparse=False, n_resamples=0)
    for j in (0, 7):
        x = DATA.X[:, j]
        best = minimize(
            lambda a, x=x: -level(x, DATA.W @ a + 1e-12),
            np.full(8, x.sum() / 8), bounds=[(0, None)] * 8, method="L-BFGS-B",
            jac=lambda a, x=x: -(DATA.W.T @ (x / (DATA.W @ a + 1e-12) - 1)),
        )  # fmt: skip
        assert level(x, DATA.W @ found.values[:, j] + 1e-12) >= -best.fun - 1e-4


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    found = jobs.refit(DATA, KNOWN)
    active = DATA.H > 0
    inside = (found.low <= DATA.H) & (found.high >= DATA.H)
    assert 0.75 < inside[active].mean() <= 1
    assert (found.low <= found.high).all()


def test_the_same_seed_gives_the_same_intervals():
    first, again, other = (jobs.refit(DATA, KNOWN, random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.low, again.low)
    assert not np.array_equal(first.low, other.low)
    np.testing.assert_array_equal(first.values, other.values)


def test_a_known_signature_is_its_own_match_and_a_sum_is_taken_apart():
    known = catalogue(KNOWN)
    found = matches(DATA.W[:, [3, 1]], ["a", "b"], known)
    assert [(m.signature, m.known) for m in found] == [("a", "S3"), ("b", "S1")]
    np.testing.assert_allclose([m.cosine for m in found], 1)
    parts = decomposition(DATA.W[:, [5, 2]] @ [[0.7], [0.3]], ["mixed"], known)
    assert [(p.signature, p.known) for p in parts] == [("mixed", "S5"), ("mixed", "S2")]
    np.testing.assert_allclose([p.share for p in parts], [0.7, 0.3])


def test_a_reference_of_other_types_is_refused():
    types = KINDS["DBS78"].types
    doublets = pd.DataFrame(np.ones((78, 2)), index=types, columns=["a", "b"])
    with pytest.raises(ValueError, match="reference has signatures of DBS78, and the table has"):
        known_signatures(doublets, KINDS["SBS96"])


@pytest.mark.parametrize(
    ("options", "message"),
    [({"sparse": 2}, "sparse=2"), ({"n_resamples": -1}, "n_resamples=-1"), ({"random_state": "a"},
     "random_state")],
)  # fmt: skip
def test_wrong_options_are_refused(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        jobs.refit(DATA, KNOWN, **options)
