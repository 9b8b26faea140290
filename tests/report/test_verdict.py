"""What is said first: the rank judged on data of known rank, and every number in the sentences."""

from dataclasses import replace

import numpy as np
import pytest

from nmfmerge import (
    Factorization,
    Status,
    datasets,
    merge_components,
    nmf,
    nmf_merge,
    rank_path,
    recover_components,
)  # fmt: skip
from nmfmerge.report import stability, verdict, warnings_of
from nmfmerge.report.verdict import Neighbours, Rank, judge
from nmfmerge.report.words import apart, number


def beside(X, r):
    """The fit at a rank, and the errors with one component fewer and one more."""
    result = nmf_merge(X, r, n_init=2)
    W, H, _ = recover_components(X, result.W, result.H, 1)
    more = nmf(X, r + 1, init=(W, H), tol=1e-3).fitting_error
    W, H, _ = merge_components(result.W, result.H, r - 1)
    fewer = nmf(X, r - 1, init=(W, H), tol=1e-3).fitting_error
    return result, {"neighbours": {"fewer": fewer, "more": more}}


def judged(X, r):
    result, about = beside(X, r)
    return judge(verdict.neighbours(result, about), X.shape)


def generated(kind, seed):
    """Data of known rank with noise, and that rank."""
    rng = np.random.default_rng(seed)
    if kind.startswith("bumps"):
        X = datasets.gaussian_features(10).X
        noise = {"bumps": 0.02, "bumps in strong noise": 0.2}[kind]
        return np.maximum(X + noise * rng.standard_normal(X.shape), 0), 10
    m, n, r = {"wide": (50, 400, 4), "tall": (200, 100, 6), "counts": (300, 300, 12)}[kind]
    X = rng.gamma(0.5, 1, (m, r)) @ rng.gamma(0.5, 1, (r, n))
    if kind == "counts":
        return rng.poisson(3 * X / X.mean()).astype(np.float64), r
    return np.maximum(X + 0.3 * X.mean() * rng.standard_normal(X.shape), 0), r


@pytest.mark.parametrize("kind", ["bumps", "bumps in strong noise", "wide", "tall", "counts"])
@pytest.mark.parametrize("seed", [3, 4])
def test_the_true_rank_is_fine_lower_ones_are_too_low_and_higher_ones_too_high(kind, seed):
    X, r = generated(kind, seed)
    assert judged(X, r) is Rank.FINE
    for below in (r // 2, r - 1):
        assert judged(X, below) in (Rank.TOO_LOW, Rank.MORE_TO_FIND)
    for above in (r + 1, r + 3):
        assert judged(X, above) is Rank.TOO_HIGH


@pytest.mark.parametrize(
    ("X", "r"),
    [
        (datasets.lcms_like().X, 17),
        (datasets.lcms_like(60, 90, 5).X, 5),
        (datasets.melody(noise=0.01).X, 3),
        (datasets.gaussian_features(6).X, 6),
        (datasets.paper_example().X, 4),
    ],
)
def test_structure_beside_the_components_is_not_taken_for_one_more_of_them(X, r):
    assert judged(X, r) is Rank.FINE
    assert judged(X, r - 1) is Rank.TOO_LOW


def test_without_noise_one_component_too_many_is_too_high():
    X = datasets.gaussian_features(6).X
    assert judged(X, 7) is Rank.TOO_HIGH


@pytest.mark.parametrize(
    ("near", "kind"),
    [
        (Neighbours(44.0, 55.0, 35.0), Rank.TOO_LOW),
        (Neighbours(44.0, None, 35.0), Rank.TOO_LOW),
        (Neighbours(75.79, 78.48, 73.21), Rank.MORE_TO_FIND),
        (Neighbours(2.0, 3.0, 1.98), Rank.FINE),
        (Neighbours(2.0, 9.0, 1.1), Rank.FINE),
        (Neighbours(2.0, 9.0, 0.9), Rank.TOO_LOW),
        (Neighbours(2.0, 2.01, 1.99), Rank.TOO_HIGH),
        (Neighbours(2.0, 2.01, None), Rank.TOO_HIGH),
        (Neighbours(2.0, 9.0, None), None),
        (Neighbours(2.0, None, 1.99), None),
    ],
)
def test_what_neighbours_tell_of_a_matrix_of_400_by_600(near, kind):
    assert judge(near, (400, 600)) is kind


@pytest.fixture(scope="module")
def fit():
    """Components that are far apart, with an error of two percent, of 400 × 600 data."""
    W, H = np.kron(np.eye(4), np.ones((100, 1))), np.kron(np.eye(4), np.ones((1, 150)))
    return Factorization(W, H, 0.01 * float(np.sum((W @ H) ** 2)), 2.0, (), Status.CONVERGED, 0.1)


@pytest.mark.parametrize(
    ("fewer", "more", "said"),
    [
        (2.5, 1.6, "This rank looks too low: one more component would take the error from 2 % to "
                   "1.6 %. Try more."),
        (2.12, 1.91, "No rank stands out here: one more component would lower the error a little, "
                     "from 2 % to 1.91 %, and one fewer raise it to 2.12 %. What is left is more "
                     "than noise; more components would find more, each of less weight."),
        (3.0, 1.99, "This rank looks right: one component fewer would raise the error from 2 % to "
                    "3 %, and one more would lower it to 1.99 % only, no more than fitting noise "
                    "does."),
        (3.0, 2.1, "This rank looks right: one component fewer would raise the error from 2 % to "
                   "3 %, and one more would not lower it, no more than fitting noise does."),
        (9.0, 1.5, "This rank looks right: one component fewer would raise the error from 2 % to "
                   "9 %, while one more would bring far less (2 % to 1.5 %). Something is left "
                   "that is more than noise."),
        (2.001, 1.99, "This rank looks too high: with one component fewer the error would be "
                      "2.001 % instead of 2 %, which is no more than fitting noise does. Try 3 "
                      "components."),
        (2.0, 1.99, "This rank looks too high: with one component fewer the error would be 2 % as "
                    "well. Try 3 components."),
        (None, None, ""),
    ],
)  # fmt: skip
def test_the_rank_in_words(fit, fewer, more, said):
    assert verdict.of_rank(fit, {"neighbours": {"fewer": fewer, "more": more}}) == said


def test_merges_alone_tell_that_fewer_might_do(fit):
    assert verdict.of_rank(fit, {}) == ""
    split = np.concatenate([fit.W, fit.W[:, :1]], axis=1)
    H = np.concatenate([fit.H, fit.H[:1]])
    assert verdict.of_rank(replace(fit, W=split, H=H), {}) == (
        "Fewer components might do; try 4 components."
    )


def test_merges_that_look_cheap_are_not_mentioned_where_all_components_are_needed(fit):
    split = replace(fit, W=np.repeat(fit.W, 2, axis=1) / 2, H=np.repeat(fit.H, 2, axis=0))

    def mergeable(**about):
        return any(s.startswith("Fewer") for s in warnings_of(split, None, about))

    assert mergeable()
    assert mergeable(neighbours={"fewer": 2.0, "more": 1.99})
    assert not mergeable(neighbours={"fewer": 3.0, "more": 1.99})


def test_one_component_is_compared_with_none():
    one = replace(nmf(np.ones((30, 40)) + np.eye(30, 40), 1), fitting_error=5.0)
    about = {"neighbours": {"fewer": None, "more": 4.9}}
    assert "fewer would raise the error from 5 % to 100 %" in verdict.of_rank(one, about)
    assert verdict.of_rank(one, {}) == ""


def test_a_path_through_all_ranks_is_used():
    X, _ = generated("bumps", 3)
    path = rank_path(X, 13, 7)
    said = dict(verdict.verdict(path[9], {}, path))["Rank"]
    assert said.startswith("This rank looks too low")
    assert "The path through all ranks suggests rank 10" in said
    assert "suggests this rank" in dict(verdict.verdict(path[10], {}, path))["Rank"]


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
    assert verdict.against_standard(fit, {"standard": standard}) == said


def test_starts_of_the_demo_are_compared(fit):
    compare = {"standard_errors": [2.4, 2.2, 3.0], "merge_errors": [2.0, 2.2, 2.1]}
    assert verdict.against_standard(fit, {"compare": compare}) == (
        "Standard NMF from the same 3 starts ended at 2.2 %; NMF-Merge at 2 %, 9.1 % lower."
    )


def test_the_topics_come_in_order_and_unknown_ones_are_left_out(fit, fitted):
    assert verdict.verdict(fit, {}) == []
    _, result = fitted
    about = {"standard": {"fitting_error": result.fitting_error, "n_init": 4}}
    about["neighbours"] = {"fewer": 30.0, "more": 0.9 * result.fitting_error}
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
    assert verdict.against_standard(exact, {"standard": {"fitting_error": 3.7e-13}}) == (
        "Standard NMF from the same start ended at next to nothing, as NMF-Merge did."
    )


def test_of_an_exact_fit_only_what_is_needed_is_suggested(rng):
    X = np.outer(rng.random(20), rng.random(12))
    result = nmf_merge(X, 6, n_init=1)
    sentence = verdict.of_rank(result, {"neighbours": {"fewer": 0.0, "more": 0.0}})
    assert sentence.endswith("Try 1 component.")
