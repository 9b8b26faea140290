"""The assessment of the rank: right where the evidence is clear, and honest where it is not."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nmfmerge import datasets, nmf_merge, rank_path
from nmfmerge.ranks.alternatives import around
from nmfmerge.results.assessment import (
    Confidence,
    Evidence,
    Finding,
    assess,
    bend_sizes,
    is_last_stable,
    largest_bend,
    last_bend,
    last_stable,
    noise_floor,
)

NAN = np.nan


def evidence(rank, n_max=12, stable_to=None, first=1, shape=(80, 100)):
    """A clear case: up to ``rank`` components matter, and what is left then is noise."""
    ranks = np.arange(first, n_max + 1)
    errors = np.where(
        ranks <= rank, 2 + 60 * (rank - ranks) / rank, 2 * 0.97 ** (ranks - rank).astype(float)
    )
    penalties = np.where(ranks <= rank, 5.0, 0.05)
    penalties[0] = NAN
    structure = np.where(ranks < rank, 4.0, 1.05)
    stability = np.full(len(ranks), NAN)
    if stable_to is not None:
        stability = np.where(ranks <= stable_to, 0.95, 0.3)
    return Evidence(ranks, errors, penalties, structure, stability, shape)


@pytest.mark.parametrize("rank", [1, 3, 5, 8])
def test_clear_evidence_is_read_by_every_criterion(rank):
    clear = evidence(rank, stable_to=rank)
    assert noise_floor(clear).first == last_bend(clear) == rank
    assert is_last_stable(clear, rank)
    found = assess(clear)
    assert (found.rank, found.confidence, found.finding) == (rank, "high", Finding.NOISE)
    assert str(found).startswith(f"Rank {rank} stands out (high confidence): ")


@pytest.mark.parametrize("n_max", [8, 9, 12, 20])
def test_the_highest_rank_does_not_move_the_answer(n_max):
    assert assess(evidence(5, n_max)) == assess(evidence(5))


@pytest.mark.parametrize(("first", "last"), [(2, 8), (3, 9), (4, 10)])
def test_ranks_around_say_the_same_as_all_ranks(first, last):
    assert assess(evidence(5, last, first=first)) == assess(evidence(5))


def test_what_is_said_of_other_ranks():
    found = assess(evidence(5))
    assert found.judge(5) == str(found)
    assert found.judge(3) == f"Rank 3 looks too low. {found}"
    assert found.judge(9) == f"Rank 9 looks too high. {found}"


def test_a_bend_above_noise_is_of_medium_confidence_where_nothing_speaks_against_it():
    structured = replace(evidence(4), structure=np.full(12, 3.0))
    found = assess(structured)
    assert (found.rank, found.confidence, found.finding) == (4, "medium", Finding.BEND)
    assert "further components find finer detail" in found.reason
    assert found.judge(6).startswith("Rank 6 goes beyond the rank that stands out.")
    assert assess(replace(evidence(4, stable_to=4), structure=np.full(12, 3.0))).rank == 4
    doubtful = assess(replace(evidence(4, stable_to=8), structure=np.full(12, 3.0)))
    assert (doubtful.rank, doubtful.confidence) == (4, "low")
    assert doubtful.judge(9) == doubtful.reason


def test_stability_confirms_a_noise_floor_without_a_bend():
    flat = evidence(6, stable_to=6)
    flat = replace(
        flat,
        penalties=np.r_[NAN, np.full(11, 1.0)],
        structure=np.where(flat.ranks < 6, 1.7, 1.2),
    )
    found = assess(flat)
    assert (found.rank, found.confidence) == (6, "medium")
    assert "both halves of the data have the same components" in found.reason
    unknown = assess(replace(flat, stability=np.full(12, NAN)))
    assert (unknown.rank, unknown.confidence, unknown.finding) == (6, "low", Finding.RANGE)
    steep = replace(flat, structure=np.where(flat.ranks < 6, 3.0, 1.1), stability=np.full(12, NAN))
    assert (assess(steep).rank, assess(steep).confidence) == (6, "medium")


def test_structure_that_fades_gives_a_range():
    structure = np.r_[4, 3, 2.5, 2, 1.6, 1.45, 1.4, 1.3, 1.1, 1.1, 1.05, 1.0]
    fading = replace(evidence(12), structure=structure, errors=np.linspace(60, 20, 12))
    found = assess(fading)
    assert (found.low, found.high, found.confidence) == (6, 9, "low")
    assert found.reason.startswith("Of ranks 1 to 12, between 6 and 9 components may do (low ")


def test_no_rank_stands_out_where_the_error_keeps_falling():
    ranks = np.arange(1, 13)
    falling = Evidence(
        ranks, 80 * 0.9**ranks, np.r_[NAN, 5 * 0.9 ** ranks[1:]], np.full(12, 3.0),
        np.full(12, NAN), (80, 100),
    )  # fmt: skip
    found = assess(falling)
    assert (found.confidence, found.finding) == ("none", Finding.NONE)
    assert not found.stands_out
    assert (
        "No rank from 1 to 12 stands out: each further component lowers the error by about 10 %"
        in str(found)
    )
    assert "still has structure" in str(found)
    assert found.judge(7) == str(found)


def test_small_data_and_short_paths_are_not_judged():
    for few, why in (
        (evidence(3, shape=(9, 13)), "9 × 13 data are too small"),
        (evidence(2, n_max=3), "at least 4 consecutive ranks"),
        (evidence(30, n_max=35, first=29), "a third of the smaller side"),
    ):
        found = assess(few)
        assert (found.rank, found.finding) == (None, Finding.WITHHELD)
        assert why in found.reason


def test_stability_that_never_ends_says_nothing():
    assert not is_last_stable(evidence(5, stable_to=12), 12)
    assert is_last_stable(evidence(5, stable_to=9), 9)
    assert not is_last_stable(evidence(5, stable_to=9), 5)


def test_structure_at_a_high_rank_does_not_move_the_answer():
    clear = evidence(5, stable_to=5)
    outlier = replace(clear, structure=np.where(clear.ranks == 11, 1.6, clear.structure))
    assert assess(outlier) == assess(clear)


def test_a_rank_is_chosen_also_where_none_is_judged():
    assert largest_bend(evidence(3, shape=(9, 13))) == 3
    assert largest_bend(evidence(1, n_max=1)) == 1


def test_rank_one_bends_by_what_it_explains():
    errors = np.array([4.0, 3.9, 3.8, 3.7])
    one = Evidence(
        np.arange(1, 5), errors, np.r_[NAN, 0.1, 0.1, 0.1], np.ones(4), np.full(4, NAN), (80, 100)
    )
    assert bend_sizes(one)[0] == pytest.approx(96 / 0.1)


def test_evidence_comes_back_from_json():
    before = evidence(5, stable_to=6)
    after = Evidence.from_record(json.loads(json.dumps(before.as_record())))
    for name in ("ranks", "errors", "penalties", "structure", "stability"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    assert after.shape == before.shape


@pytest.mark.parametrize(
    "change",
    [{"errors": [1.0]}, {"ranks": [1, 2, 4, *range(5, 14)]}, {"ranks": []}, {"shape": [3]}],
)
def test_evidence_that_does_not_fit_together_is_refused(change):
    with pytest.raises(ValueError):  # noqa: PT011
        Evidence.from_record(evidence(5).as_record() | change)


@given(
    hnp.arrays(np.float64, st.integers(1, 9), elements=st.floats(0, 100)),
    hnp.arrays(np.float64, 9, elements=st.floats(0, 1e300)),
    hnp.arrays(np.float64, 9, elements=st.one_of(st.just(NAN), st.floats(0, 1e6))),
    hnp.arrays(np.float64, 9, elements=st.one_of(st.just(NAN), st.floats(0, 1))),
    st.integers(1, 5),
    st.integers(1, 60),
)
def test_any_evidence_gets_a_rank_that_it_has(
    errors, penalties, structure, stability, lowest, side
):
    n = len(errors)
    ranks = np.arange(n) + lowest
    penalties = np.r_[NAN, penalties[1:n]]
    shape = (side, 70)
    found = assess(
        Evidence(ranks, -np.sort(-errors), penalties, structure[:n], stability[:n], shape)
    )
    assert found.rank is None or found.rank in ranks
    assert (found.rank is None) == (found.finding is Finding.WITHHELD)
    assert found.confidence in Confidence
    assert found.reason.endswith(".")
    if found.low is not None:
        assert found.low <= found.rank <= found.high


# ---- on generated data


def generated(kind, seed):
    """Data of known rank with noise, and that rank."""
    rng = np.random.default_rng(seed)
    if kind.startswith("bumps"):
        X = datasets.gaussian_features(10).X
        noise = {"bumps": 0.02, "bumps in strong noise": 0.2}[kind]
        return np.maximum(X + noise * rng.standard_normal(X.shape), 0), 10
    m, n, r = {"wide": (50, 400, 4), "tall": (200, 100, 6), "counts": (200, 200, 8)}[kind]
    X = rng.gamma(0.5, 1, (m, r)) @ rng.gamma(0.5, 1, (r, n))
    if kind == "counts":
        return rng.poisson(3 * X / X.mean()).astype(np.float64), r
    return np.maximum(X + 0.3 * X.mean() * rng.standard_normal(X.shape), 0), r


@pytest.mark.parametrize("kind", ["bumps", "bumps in strong noise", "wide", "tall", "counts"])
@pytest.mark.parametrize("seed", [3, 4])
def test_a_fit_at_any_rank_is_judged_as_the_path_judges_it(kind, seed):
    X, r = generated(kind, seed)
    found = rank_path(X, r + 4).assess()
    assert found.rank == r
    assert found.stands_out
    for rank, said in (
        (r - 1, "too low"),
        (r, f"Rank {r} stands out"),
        (r + 1, "too high"),
        (r + 3, "too high"),
    ):
        near = assess(Evidence.from_record(around(X, nmf_merge(X, rank, n_init=2))))
        assert near.rank == r
        assert said in near.judge(rank)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("counts", [False, True])
def test_rank_one_is_found(seed, counts):
    rng = np.random.default_rng(seed)
    L = np.outer(rng.gamma(2, 1, 80), rng.gamma(2, 1, 60))
    X = np.maximum(0, L + 0.03 * L.std() * rng.standard_normal(L.shape))
    if counts:
        X = rng.poisson(20 * L / L.mean()).astype(float)
    found = rank_path(X, 8).assess()
    assert (found.rank, found.stands_out) == (1, True)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("rank", [1, 3, 4])
def test_exact_data_have_the_rank_at_which_they_are_fitted(rank, kind):
    path = rank_path(datasets.gaussian_features(rank).X.astype(kind), 10)
    assert path.assess().rank == rank


def test_three_topics_of_a_few_texts_are_not_called_too_many():
    X = np.kron(np.eye(3), np.ones((3, 4))) + 0.1 * np.random.default_rng(0).random((9, 12))
    assert rank_path(X, 6).assess().finding is Finding.WITHHELD
    near = assess(Evidence.from_record(around(X, nmf_merge(X, 3))))
    assert near.finding is Finding.WITHHELD
    assert "9 × 12 data are too small" in near.reason


def of_fits(case):
    """The same evidence where the stability is that of the fits of a consensus."""
    return replace(case, stable_in="fits")


def test_fits_that_agree_confirm_a_noise_floor_in_their_own_words():
    flat = replace(
        evidence(6, stable_to=6),
        penalties=np.r_[NAN, np.full(11, 1.0)],
        structure=np.where(np.arange(1, 13) < 6, 1.7, 1.2),
    )
    halves, fits = assess(flat), assess(of_fits(flat))
    assert (fits.rank, fits.confidence) == (halves.rank, halves.confidence) == (6, "medium")
    assert "and fits agree on all components up to about here" in fits.reason
    assert "halves" not in fits.reason


def test_fits_that_agree_up_to_a_rank_speak_where_nothing_else_does():
    ranks = np.arange(1, 13)
    falling = replace(
        evidence(5, stable_to=5),
        errors=80 * 0.9**ranks,
        penalties=np.r_[NAN, 5 * 0.9 ** ranks[1:]],
        structure=np.full(12, 3.0),
    )
    assert assess(falling).finding is Finding.NONE
    found = assess(of_fits(falling))
    assert (found.rank, found.confidence, found.finding) == (5, "low", Finding.STABLE)
    assert found.reason.startswith("Rank 5 may stand out (low confidence): fits agree")
    assert not found.stands_out
    in_poisson = assess(replace(of_fits(falling), loss="kullback-leibler"))
    assert (in_poisson.rank, in_poisson.confidence) == (5, "none")
    assert "Fits agree on all components up to rank 5, and not beyond." in str(in_poisson)


@pytest.mark.parametrize("stable_to", [1, 12])
def test_fits_that_agree_at_all_ranks_or_at_none_say_nothing(stable_to):
    case = of_fits(evidence(5, stable_to=stable_to))
    assert last_stable(case) is None
    assert assess(case).rank == 5


def test_without_a_confidence_the_fits_that_agree_are_still_named():
    case = replace(of_fits(evidence(5, stable_to=5)), loss="kullback-leibler")
    assert "fits agree on all components up to rank 5, not beyond. No confidence" in str(
        assess(case)
    )
    other = replace(of_fits(evidence(5, stable_to=7)), loss="kullback-leibler")
    assert "fits agree" not in str(assess(other))
