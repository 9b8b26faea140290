"""What is said of several starts: every number in the sentences, singular and plural."""

from dataclasses import replace

import numpy as np
import pytest

from nmfmerge import Factorization, Status, datasets, nmf_merge
from nmfmerge.report import stability, warnings_of
from nmfmerge.results.factorization import Start


def result(errors, missed=(), r=5, names=(), best=0):
    """A result of r components; ``missed``: pairs of a start and a component it did not find."""
    similarity = np.ones((len(errors), r))
    for start, k in missed:
        similarity[start, k] = 0.5
    starts = tuple(
        Start("random", i, error, 10, Status.CONVERGED, row, 0.0, 0.0)
        for i, (error, row) in enumerate(zip(errors, similarity, strict=True))
    )
    W, H = np.kron(np.eye(r), np.ones((20, 1))), np.kron(np.eye(r), np.ones((1, 12)))
    return Factorization(
        W, H, 0.005 * float(np.sum((W @ H) ** 2)), errors[best], (), Status.CONVERGED, 0.1,
        names=names, starts=starts, best_start=best,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (result([1.0, 1.0, 1.0]),
         "All 3 starts ended at an error of 1 %; all 5 components are found from every start."),
        (result([1.016, 1.01600001], r=1),
         "All 2 starts ended at an error of 1.016 %; the component is found from every start."),
        (result([1.016, 1.043, 1.02, 1.02], [(1, 2), (2, 2), (1, 4), (3, 4)]),
         "From 4 starts the error was 1.016 to 1.043 %; 3 of 5 components are found from every "
         "start, components 3 and 5 from 2 of 4; treat these 2 with care."),
        (result([1.016, 1.043, 1.02], [(1, 2)]),
         "From 3 starts the error was 1.016 to 1.043 %; 4 of 5 components are found from every "
         "start, component 3 from 2 of 3; treat this one with care."),
        (result([1.0, 2.0, 3.0], [(1, 0), (1, 1), (2, 1)], names=tuple("abcde")),
         "From 3 starts the error was 1 to 3 %; 3 of 5 components are found from every start, "
         "component a from 2 of 3 and component b from 1 of 3; treat these 2 with care."),
        (result([1.0, 2.0], [(1, 0)], r=2),
         "From 2 starts the error was 1 to 2 %; 1 of 2 components is found from every start, "
         "component 1 from 1 of 2; treat this one with care."),
        (result([1.0, 2.0], [(1, 0)], r=1),
         "From 2 starts the error was 1 to 2 %; the component is not found from every start: "
         "component 1 from 1 of 2; treat this one with care."),
        (result([2.0, 1.0], [(0, k) for k in range(8)], r=8, best=1),
         "From 2 starts the error was 1 to 2 %; none of the 8 components is found from every "
         "start: components 1, 2, 3, 4, 5 and 3 more from 1 of 2; treat these 8 with care."),
    ],
)  # fmt: skip
def test_the_first_sentence(found, said):
    assert stability.lead(found) == said


def test_nothing_is_said_of_one_start():
    one = replace(result([1.0]), starts=())
    assert stability.lead(one) == ""
    assert stability.care(one, list("12345")) == []
    assert not stability.all_agree(one)


def test_starts_that_agree_call_for_no_care():
    assert warnings_of(result([1.0, 1.001, 1.0])) == []


def test_components_that_equally_good_solutions_lack():
    said = warnings_of(result([1.0, 1.001, 1.02], [(1, 2), (2, 2)]))
    assert said == [
        "Component 3 is found from 1 of 3 starts only: solutions without it fit the data nearly as "
        "well (an error 0.1 % higher). Do not rest a conclusion on it alone."
    ]


def test_components_that_only_worse_solutions_lack():
    said = warnings_of(result([1.0, 1.2, 1.0, 1.1], [(1, 2), (3, 4)], names=tuple("VWXYZ")))
    assert said == [
        "Components 3 and 5 are found from 3 of 4 starts only; starts that missed one of them "
        "ended with an error at least 10 % higher. More starts would tell whether they can be "
        "relied on."
    ]


def test_a_best_start_that_stands_alone():
    said = warnings_of(result([1.2, 1.0, 1.1], best=1))
    assert said == [
        "Only one of 3 starts found a fit as good as this; the error of the next best is 10 % "
        "higher. More starts might find a better one still."
    ]


@pytest.mark.parametrize("error", [0.0, np.inf])
def test_errors_that_cannot_be_compared_are_not(error):
    found = result([error, error])
    assert "found from every start" in stability.lead(found)
    assert stability.care(found, list("12345")) == []


def test_zero_components_are_left_out():
    found = result([1.0, 1.0])
    H = found.H.copy()
    H[1] = 0
    similarity = np.array([1.0, 0.0, 1.0, 1.0, 1.0])
    starts = tuple(replace(start, similarity=similarity) for start in found.starts)
    found = replace(found, H=H, starts=starts)
    assert "all 4 components are found" in stability.lead(found)
    assert stability.all_agree(found)
    zero = replace(found, H=0 * H)
    assert "no component that is not zero" in stability.lead(zero)


def test_what_was_added_was_enough_where_all_starts_agree():
    missing = replace(result([1.0, 1.0]), generalized_singular_values=np.array([50.0]))
    assert warnings_of(missing) == []
    alone = replace(missing, starts=())
    assert warnings_of(alone)[0].startswith("Components may still be missing")


def test_a_real_run_counts_as_the_result_does():
    data = datasets.lcms_like()
    found = nmf_merge(data.X, 17)
    assert f"; {len(found.found_always())} of 17 components are found" in stability.lead(found)
