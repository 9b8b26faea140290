"""Verdicts on outcomes that were made up: each claim must be able to fail."""

import numpy as np
import pytest

from reproduce import comparison, consistency, extra, fair, paper, table2, timing, tolerances
from reproduce.page import Claim, Section, Verdict
from reproduce.pairs import Outcomes
from reproduce.results import summary
from reproduce.runs import Run


def outcomes(standard, merge, data="wt15", solver="hals", extra=3, seconds=(1.0, 1.0)):
    """Pairs with given errors, one of each a start."""
    pairs, records = [], ([], [])
    for seed, errors in enumerate(np.broadcast(standard, merge)):
        pairs.append((Run(data, "nmf", 17, solver=solver, seed=seed),
                      Run(data, "merge", 17, extra, solver=solver, seed=seed)))  # fmt: skip
        for kept, error, time in zip(records, errors, seconds, strict=True):
            shares = zip(paper.STAGES, (0.2, 0.0, 0.2, 0.0, 0.6), strict=True)
            stages = [{"name": name, "seconds": share * time} for name, share in shares]
            kept.append({"error": float(error), "seconds": time, "stages": stages})
    return Outcomes(pairs, *records)


EVEN = np.ones(4)
NONE = Outcomes([], [], [])


def verdict(claims, begins):
    return next(claim.verdict for claim in claims if claim.text.startswith(begins))


def test_verdict_is_by_how_many_tests_are_true():
    assert Verdict.of([True, True]) is Verdict.HOLDS
    assert Verdict.of([True, False]) is Verdict.PARTLY
    assert Verdict.of([False]) is Verdict.FAILS
    assert Verdict.of([]) is Verdict.UNTESTED
    assert Claim("c", Verdict.UNTESTED, "numbers").evidence == "no runs of this"


def test_verdicts_are_counted_in_words():
    section = Section("")
    of = {Verdict.FAILS: 1, Verdict.HOLDS: 2, Verdict.UNTESTED: 1, Verdict.PARTLY: 2}
    section.claims += [Claim("c", verdict, "") for verdict, n in of.items() for _ in range(n)]
    counted = "2 hold, 2 hold partly, 1 does not hold, 1 was not tested."
    assert counted in summary([section]).text()


def solvers(**cases):
    return {name: {"wt15": cases.get(name, NONE)} for name in ("hals", "gcd", "alspgrad", "mu")}


@pytest.mark.parametrize(
    ("gain_mu", "expected"), [(0.5, Verdict.HOLDS), (0.1, Verdict.FAILS), (-0.1, Verdict.FAILS)]
)
def test_mu_must_gain_more_than_the_others(gain_mu, expected):
    cases = solvers(hals=outcomes(EVEN, EVEN - 0.2), mu=outcomes(EVEN, EVEN - gain_mu, solver="mu"))
    claims = comparison._claims(cases, {})
    assert verdict(claims, "With MU") is expected


@pytest.mark.parametrize(
    ("merge", "matches", "rarely"),
    [
        ([0.5, 0.5, 0.5, 0.5], Verdict.HOLDS, Verdict.HOLDS),
        ([0.5, 1.0, 1.0, 1.5], Verdict.HOLDS, Verdict.FAILS),
        ([0.5, 1.5, 1.5, 1.5], Verdict.FAILS, Verdict.FAILS),
    ],
)
def test_losses_are_counted(merge, matches, rarely):
    claims = comparison._claims(solvers(hals=outcomes(EVEN, np.array(merge))), {})
    assert verdict(claims, "NMF-Merge matches") is matches
    assert verdict(claims, "Only rarely") is rarely
    assert verdict(claims, "The same holds") is Verdict.UNTESTED


@pytest.mark.parametrize(("few", "expected"), [(1.2, Verdict.HOLDS), (1.0, Verdict.FAILS)])
def test_too_few_extra_components_must_end_higher(few, expected):
    found = {("wt15", 1): outcomes(EVEN, few * EVEN), ("wt15", 8): outcomes(EVEN, 1.5 * EVEN)}
    claims = extra._claims(found, ["wt15"])
    assert verdict(claims, "Too few") is expected


@pytest.mark.parametrize(("other", "expected"), [(0.8, Verdict.HOLDS), (0.5, Verdict.FAILS)])
def test_the_default_is_not_compared_with_itself(other, expected):
    found = {("wt15", 3): outcomes(EVEN, 0.8 * EVEN), ("wt15", 8): outcomes(EVEN, other * EVEN)}
    assert verdict(extra._claims(found, ["wt15"]), "Otherwise") is expected


@pytest.mark.parametrize(("loose", "expected"), [(1.0, Verdict.HOLDS), (1.5, Verdict.FAILS)])
def test_loose_tolerances_are_compared_on_the_same_starts(loose, expected):
    found = {("wt15", eps): NONE for eps in tolerances.TOLERANCES}
    found["wt15", 1e-2] = outcomes(EVEN[:2], loose * np.array([1.0, 3.0]))
    found["wt15", 1e-4] = outcomes(EVEN, np.array([1.0, 3.0, 9.0, 9.0]))
    assert verdict(tolerances._claims(found, ["wt15"]), "There, 1e-2") is expected


@pytest.mark.parametrize(("time", "first", "cost"), [
    (0.5, Verdict.HOLDS, Verdict.HOLDS), (2.0, Verdict.FAILS, Verdict.FAILS)])  # fmt: skip
def test_who_finishes_first_is_by_the_clock(time, first, cost):
    found = {("wt15", 1e-2): outcomes(EVEN, EVEN, seconds=(1.0, time))}
    claims = timing._claims(found, ["wt15"])
    assert verdict(claims, "NMF-Merge typically finishes") is first
    assert verdict(claims, "NMF-Merge incurs") is cost
    assert verdict(claims, "Feature recovery") is Verdict.HOLDS
    assert verdict(claims, "On the faces") is Verdict.UNTESTED


def test_consistency_is_the_share_of_pairs_in_the_same_space():
    def method(*subspace):
        values = np.array(subspace)
        return consistency.Mismatches(values, values, np.zeros(values.size))

    apart, together = method(1.0, 1.0, 1e-6), method(1e-6, 1e-6, 1e-7)
    begins = "NMF-Merge makes"
    for standard, merge, expected in (
        (apart, together, Verdict.HOLDS),
        (together, apart, Verdict.FAILS),
        (together, together, Verdict.UNTESTED),
    ):
        assert verdict(consistency._claims({"wt15": (standard, merge)}), begins) is expected


def test_a_cell_that_differs_from_the_paper_is_named():
    section = Section("t")
    cells = {("hals", "nndsvd", "pf1"): outcomes([2.851], [2.90], data="pf1")}
    table2._agreement(section, cells)
    text = section.text()
    assert "1 of 2 means and 0 of 0 standard deviations agree" in text
    assert "| P&F No.1 | HALS | NNDSVD | NMF-Merge | mean | 2.900 | 2.85 | +0.050 | 1 |" in text


@pytest.mark.parametrize(
    ("error", "others", "expected"),
    [(1.0, [1.1, 1.2], "better"), (1.0, [1.0005, 2], "level"), (1.0, [0.9, 2], "worse"),
     (1e-9, [1e-12], "level"), (1e-9, [0.5], "better")],
)  # fmt: skip
def test_judgement_is_by_mean_error_against_the_best_alternative(error, others, expected):
    assert fair._judge(np.array([0.5 * error, 1.5 * error]), others) == expected


def test_judgement_knows_every_alternative():
    def contender(error, seconds=1.0):
        return fair.Contender(np.array([error]), np.array([seconds]), 1.0)

    found = {"merge": contender(1.0), "sklearn random": contender(0.5, 0.1),
             "default": contender(1.0), "nndsvda": None, "sklearn": contender(2.0),
             "sklearn tight": contender(0.8)}  # fmt: skip
    assert fair._judge_random(found, (2.0, 1.0)) == "worse"
    assert fair._judge_default(found) == "worse"


def test_values_agree_at_two_decimals_means_and_standard_deviations():
    """Of MHLL, GCD, random starts the paper has 3.08±0.00 / 3.08±0.00."""
    found = table2.values({
        ("gcd", "random", "mhll"): outcomes([3.074, 3.094], [3.1, 3.12], "mhll", "gcd", 1),
        ("gcd", "nndsvd", "mhll"): outcomes([3.08], [3.2], "mhll", "gcd", 1),
        ("gcd", "random", "wt15"): outcomes([3.97], [3.97], "wt15", "gcd"),  # other data
        ("gcd", "nndsvda", "mhll"): NONE,
    })  # fmt: skip
    assert [(value.what, value.agrees) for value in found] == [
        ("mean", True), ("spread", True), ("mean", False), ("spread", True),
        ("mean", True), ("mean", False),
    ]  # fmt: skip
    assert table2.counted(found) == "2 of 4 means and 2 of 2 standard deviations"
    assert found[2].ours == pytest.approx(3.11)
    assert found[2].starts == 2
