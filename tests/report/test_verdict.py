"""What is said first: the rank judged on data of known rank, and every number in the sentences."""

from dataclasses import replace

import numpy as np
import pytest

from nmfmerge import Factorization, Status, datasets, rank_path
from nmfmerge.ranks.alternatives import around
from nmfmerge.report import stability, verdict, warnings_of
from nmfmerge.report.words import apart, number
from nmfmerge.results.about import About


@pytest.fixture(scope="module")
def fit():
    """Components that are far apart, with an error of two percent, of 400 × 600 data."""
    W, H = np.kron(np.eye(4), np.ones((100, 1))), np.kron(np.eye(4), np.ones((1, 150)))
    return Factorization(W, H, 0.01 * float(np.sum((W @ H) ** 2)), 2.0, (), Status.CONVERGED, 0.1)


def evidence(rank, first=1):
    """Ranks of which one stands out, as a fit keeps them."""
    ranks = np.arange(first, rank + 5)
    nothing = [None] * len(ranks)
    return {
        "ranks": ranks.tolist(),
        "errors": [2 + 60 * (1 - r / rank) if r < rank else 2 - 0.01 * (r - rank) for r in ranks],
        "penalties": [5.0 if r <= rank else 0.01 for r in ranks],
        "structure": [4.0 if r < rank else 1.0 for r in ranks],
        "stability": nothing,
        "shape": [400, 600],
    }


@pytest.mark.parametrize(
    ("rank", "said"),
    [(4, "Rank 4 stands out (high"), (5, "Rank 4 looks too low."), (3, "Rank 4 looks too high.")],
)
def test_the_rank_in_words(fit, rank, said):
    about = About(around=evidence(rank))
    assert dict(verdict.verdict(fit, about))["Rank"].startswith(said)


def test_merges_that_look_cheap_are_mentioned_only_where_the_rank_may_be_too_high(fit):
    split = replace(fit, W=np.repeat(fit.W, 2, axis=1) / 2, H=np.repeat(fit.H, 2, axis=0))

    def mergeable(**about):
        return any(s.startswith("Fewer") for s in warnings_of(split, None, about))

    assert mergeable()
    assert mergeable(around=evidence(4))
    assert not mergeable(around=evidence(8))


def test_path_and_fit_agree():
    """What `path` finds, a fit at that rank says as well, from the ranks around it."""
    rng = np.random.default_rng(3)
    clean = datasets.gaussian_features(10).X
    X = np.maximum(clean + 0.02 * rng.standard_normal(clean.shape), 0)
    path = rank_path(X, 14)
    for r in (9, 10, 12):
        of_path = dict(verdict.verdict(path[r], About(), path))["Rank"]
        of_fit = dict(verdict.verdict(path[r], About(around=around(X, path[r]))))["Rank"]
        assert of_path == of_fit


@pytest.mark.parametrize(
    ("standard", "said"),
    [
        ({"fitting_error": 2.1, "n_init": 4},
         "Standard NMF from the same 4 starts ended at 2.1 %; NMF-Merge at 2 %, 4.8 % lower."),
        ({"fitting_error": 2.00001, "n_init": 4},
         "Standard NMF from the same 4 starts ended at the same error, 2 %."),
        ({"fitting_error": 1.9, "n_init": 1},
         "Standard NMF from the same start ended at 1.9 %; NMF-Merge at 2 %, 5.3 % higher."),
        ({"fitting_error": 4.0, "n_init": 4, "status": "max_time"},
         "Standard NMF from the same 4 starts was stopped by its time limit at 4 %; NMF-Merge at "
         "2 %, 50 % lower."),
        ({"fitting_error": 1.0, "n_init": 1},
         "Standard NMF from the same start ended at 1 %; NMF-Merge at 2 %, 100 % higher."),
        (None, ""),
    ],
)  # fmt: skip
def test_against_standard_nmf(fit, standard, said):
    assert verdict.against_standard(fit, About(standard=standard)) == said


def test_starts_of_the_demo_are_compared(fit):
    compare = {"standard_errors": [2.4, 2.2, 3.0], "merge_errors": [2.0, 2.2, 2.1]}
    assert verdict.against_standard(fit, About(compare=compare)) == (
        "Standard NMF from the same 3 starts ended at 2.2 %; NMF-Merge at 2 %, 9.1 % lower."
    )


def test_the_topics_come_in_order_and_unknown_ones_are_left_out(fit, fitted):
    assert verdict.verdict(fit, About()) == []
    _, result = fitted
    standard = {"fitting_error": result.fitting_error, "n_init": 4}
    about = About(standard=standard, around=evidence(3))
    said = verdict.verdict(result, about)
    assert [topic for topic, _ in said] == ["Rank", "Against standard NMF", "Stability"]
    assert said[2][1] == stability.lead(result)


def test_numbers_look_different_where_they_are():
    assert apart(2.19, 2.05, 3.1) == ["2.19", "2.05", "3.1"]
    assert apart(75.7929, 75.7912) == ["75.793", "75.791"]
    assert apart(2.0, 2.0) == ["2", "2"]
    assert number(1.2e-5) == "1.20 · 10⁻⁵"
    assert number(-3.4e12) == "-3.40 · 10¹²"


def test_two_errors_that_are_nothing_are_not_compared(fit):
    exact = replace(fit, fitting_error=1.2e-6)
    assert verdict.against_standard(exact, About(standard={"fitting_error": 3.7e-13})) == (
        "Standard NMF from the same start ended at next to nothing, as NMF-Merge did."
    )
