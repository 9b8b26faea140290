"""Criteria for the rank: each finds it where the evidence is clear, and says where it is not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nmfmerge import datasets, rank_path
from nmfmerge.suggest import (
    Evidence,
    error_knee,
    last_stable,
    penalty_gap,
    penalty_levels,
    suggest,
)

NAN = np.nan


def evidence(rank, n_max=12, noise=1e-3, stable_to=None):
    """What a clear case looks like: errors fall to the noise and penalties drop after ``rank``."""
    ranks = np.arange(1, n_max + 1)
    errors = np.where(ranks <= rank, 100.0 * noise ** ((ranks - 1) / max(rank - 1, 1)), 0)
    errors = np.where(ranks <= rank, errors, 100 * noise * 0.97 ** (ranks - rank))
    penalties = np.where(ranks <= rank, 1.0, 0.01) * 0.95**ranks
    penalties[0] = NAN
    stability = np.full(n_max, NAN)
    if stable_to is not None:
        stability = np.where(ranks <= stable_to, 0.95, 0.3)
    return Evidence(ranks, errors, penalties, stability)


@pytest.mark.parametrize("rank", [3, 5, 8])
def test_clear_evidence_is_read_by_every_criterion(rank):
    clear = evidence(rank, stable_to=rank)
    for criterion in (error_knee, penalty_gap, penalty_levels, last_stable):
        assert criterion(clear) == rank
    [only] = suggest(clear)
    assert (only.rank, only.confidence) == (rank, "high")
    assert "bends" in only.reason
    assert "halves" in only.reason


def test_scale_of_errors_and_penalties_does_not_matter():
    clear = evidence(5)
    scaled = Evidence(clear.ranks, 7 * clear.errors, 1e-9 * clear.penalties, clear.stability)
    assert suggest(scaled) == suggest(clear)


def test_disagreement_is_told():
    mixed = evidence(3, stable_to=11)
    knees = evidence(7)
    said = suggest(Evidence(mixed.ranks, knees.errors, mixed.penalties, mixed.stability))
    assert [suggestion.rank for suggestion in said] == [7, 3, 11]
    assert said[0].confidence == "low"
    assert "criteria disagree (3, 7, 11), so none of them is to be trusted" in said[0].reason


def test_most_agreeing_is_medium():
    mixed = evidence(5, stable_to=10)
    first, second = suggest(mixed)
    assert (first.rank, first.confidence) == (5, "medium")
    assert (second.rank, second.confidence) == (10, "low")


def test_end_of_the_path_is_told():
    said = suggest(evidence(4, n_max=8, stable_to=8))
    assert any("the path ends here" in suggestion.reason for suggestion in said)


def test_nothing_is_suggested_without_evidence():
    zeros = Evidence(np.arange(1, 6), np.zeros(5), np.r_[NAN, np.zeros(4)], np.full(5, NAN))
    assert suggest(zeros) == []
    short = Evidence(np.arange(1, 3), np.array([5.0, 1.0]), np.array([NAN, 1.0]), np.full(2, NAN))
    assert suggest(short) == []


@given(
    hnp.arrays(np.float64, st.integers(1, 9), elements=st.floats(0, 100)),
    hnp.arrays(np.float64, 9, elements=st.floats(0, 1e300)),
    hnp.arrays(np.float64, 9, elements=st.one_of(st.just(NAN), st.floats(0, 1))),
    st.integers(1, 5),
)
def test_any_path_gets_ranks_that_are_on_it(errors, penalties, stability, lowest):
    n = len(errors)
    ranks = np.arange(n) + lowest
    penalties = np.r_[NAN, penalties[1:n]]
    found = suggest(Evidence(ranks, -np.sort(-errors), penalties, stability[:n]))
    assert all(suggestion.rank in ranks for suggestion in found)
    assert len({suggestion.rank for suggestion in found}) == len(found)
    assert all(suggestion.confidence in ("high", "medium", "low") for suggestion in found)


@pytest.mark.parametrize("stability", [False, True])
def test_rank_of_gaussian_features_is_found(stability):
    clean = datasets.gaussian_features(5).X
    X = clean + 0.02 * np.random.default_rng(0).random(clean.shape)
    path = rank_path(X, 12, stability=stability)
    first = path.suggest()[0]
    assert abs(first.rank - 5) <= 1  # the background is a component of its own
    assert str(first).startswith(f"rank {first.rank} ({first.confidence} confidence): ")
