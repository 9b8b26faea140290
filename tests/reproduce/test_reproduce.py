"""Each experiment, tiny, on generated data: what it writes is what the runs gave."""

import re
from importlib import import_module

import numpy as np
import pytest

from nmfmerge import datasets, metrics, nmf, nmf_merge
from reproduce import comparison, consistency, fair, paper, plateau, table2, timing
from reproduce.__main__ import NAMES, main
from reproduce.machines import VERSIONS
from reproduce.page import Claim, Section, Verdict, kept, write
from reproduce.pairs import Options, Outcomes, random_pairs
from reproduce.perform import perform
from reproduce.results import opening
from reproduce.runs import identity, pair
from reproduce.sets import SETS, matrix
from reproduce.store import Store

DATA = ("lcms_like", "melody")
STARTS = 3
OPTIONS = Options(DATA, STARTS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """All experiments run once, from the command line."""
    folder = tmp_path_factory.mktemp("reproduce")
    given = ["--data", *DATA, "--starts", str(STARTS), "--jobs", "2"]
    status = main(["all", *given, "--store", str(folder / "runs"), "--output", str(folder)])
    assert status == 0
    return folder


@pytest.fixture
def store(folder):
    return Store(folder / "runs")


@pytest.fixture
def page(folder):
    return (folder / "RESULTS.md").read_text(encoding="utf-8")


def cells(page, first, title=""):
    """The cells of the table row that begins with the given ones, in a section."""
    page = page.split(f"## {title}\n")[1] if title else page
    row = next(
        line for line in page.splitlines() if line.startswith("| " + " | ".join(first) + " |")
    )
    return [cell.strip() for cell in row.strip("|").split("|")][len(first) :]


def test_every_experiment_is_on_the_page_with_its_figures(folder, page):
    for name in NAMES:
        assert f"## {import_module(f'reproduce.{name}').TITLE}\n" in page
    figures = re.findall(r"\]\((figures/[\w-]+\.png)\)", page)
    assert len(figures) == len(set(figures)) == 14
    for figure in figures:
        content = (folder / figure).read_bytes()
        assert content.startswith(b"\x89PNG")
        assert 1_000 < len(content) < 200_000


def test_plan_is_stored_completely_and_nothing_is_made_twice(folder, store, page, capsys):
    plan = [run for module in (table2, comparison, consistency, timing, fair)
            for run in module.plan(OPTIONS)]  # fmt: skip
    assert len(plan) > 150
    assert all(store.has(run) for run in plan)
    assert all(store.has(run, alone=True) for run in timing.plan(OPTIONS))
    compared = [run for module in (consistency, fair) for run in module.compared(OPTIONS)]
    assert all(store.has(run, factors=True) for run in compared)
    perform(plan, store, 2)
    perform(timing.plan(OPTIONS), store, 1)
    assert "runs to make" not in capsys.readouterr().err
    planned, total = map(int, re.search(r"Numbers of (\d+) runs of (\d+) planned", page).groups())
    assert planned == total


def test_table_holds_what_the_public_functions_give(page):
    X = matrix("melody")
    standard = nmf(X, 3, solver="gcd", init="nndsvd", max_iter=100_000)
    merge = nmf_merge(
        X, 3, n_extra=1, solver="gcd", init="nndsvd", n_init=1, tol_intermediate=1e-4,
        max_iter=100_000,
    )  # fmt: skip
    expected = f"{standard.fitting_error:.2f} / {merge.fitting_error:.2f}"
    assert cells(page, ["GCD", "NNDSVD"])[DATA.index("melody")] == expected


def test_going_on_from_the_standard_run_is_the_whole_pipeline(store):
    for seed in range(STARTS):
        standard, merge = pair("lcms_like", seed=seed)
        whole = nmf_merge(matrix("lcms_like"), 6, n_extra=1, solver="hals", init="random", n_init=1,
                          random_state=seed, tol_intermediate=1e-4, max_iter=100_000)  # fmt: skip
        record = store.get(merge)
        assert record["error"] == pytest.approx(whole.fitting_error, rel=1e-4)
        assert [stage["name"] for stage in record["stages"]] == list(paper.STAGES)
        assert record["stages"][0]["n_iter"] == store.get(standard)["n_iter"]
        trace = store.get(merge, alone=True)["trace"]
        times = [seconds for _, seconds, _ in trace]
        assert times == sorted(times)
        assert trace[-1][2] == pytest.approx(record["error"])


def test_counts_of_wins_add_up_to_the_starts(page, store):
    outcomes = Outcomes.stored(store, random_pairs("lcms_like", range(STARTS)))
    counts = cells(page, ["HALS"], comparison.TITLE)[DATA.index("lcms_like")]
    assert counts == " / ".join(map(str, outcomes.wins_ties_losses()))
    assert sum(map(int, counts.split(" / "))) == STARTS


def test_mismatches_of_all_pairs_are_those_of_the_public_metrics():
    rng = np.random.default_rng(0)
    factors = [rng.random((30, 4)) for _ in range(4)]
    factors[2] = factors[0][:, [2, 0, 3, 1]] * [2, 3, 1, 5]
    found = consistency.mismatches(factors, [1.0, 2.0, 1.0, 4.0])
    pairs = [(factors[i], factors[j]) for i in range(4) for j in range(i + 1, 4)]
    for values, metric in (
        (found.subspace, metrics.subspace_mismatch),
        (found.permutation, metrics.permutation_mismatch),
    ):
        np.testing.assert_allclose(values, [metric(a, b) for a, b in pairs], atol=1e-12)
    np.testing.assert_array_equal(found.error, [1, 0, 3, 1, 2, 3])
    assert found.same_error.size == 1
    assert found.same_error[0] == pytest.approx(0, abs=1e-12)


def test_consistency_table_holds_the_medians(page, store):
    runs = [pair("melody", seed=seed)[1] for seed in range(STARTS)]
    factors = [store.factors(run) for run in runs]
    distances = [
        metrics.subspace_mismatch(factors[i], factors[j]) for i, j in ((0, 1), (0, 2), (1, 2))
    ]
    row = cells(page, ["generated melody", "3"])
    assert float(row[0].split(" / ")[1]) == pytest.approx(np.median(distances), rel=0.06, abs=1e-10)


def test_error_against_time_begins_alike_and_holds_still_between(store):
    standard, merge = (store.get(run, alone=True) for run in pair("lcms_like", loose=1e-2))
    seconds, errors = timing.curve(merge)
    assert (np.diff(seconds) >= 0).all()
    assert timing.curve(standard)[1][0] == pytest.approx(errors[0])
    ends = [
        max(t for name, t, _ in merge["trace"] if name == stage) for stage in ("initial", "merge")
    ]
    middle = timing.error_at(merge, np.linspace(ends[0], ends[1], 7)[1:-1])
    np.testing.assert_allclose(middle, middle[0])
    assert timing.error_at(merge, 1e9) == pytest.approx(merge["error"])


def test_ratio_of_times_is_the_median_over_starts(page, store):
    pairs = random_pairs("melody", range(STARTS), loose=1e-2)
    outcomes = Outcomes.stored(store, pairs, alone=True)
    standard, merge = outcomes.seconds().T
    row = cells(page, ["generated melody", str(STARTS)], timing.TITLE)
    assert row[-1] == f"{np.median(merge / standard):.2f}"


def test_page_says_on_which_machines_runs_were_made_and_how_many_at_a_time(page, store):
    made = store.get(pair("melody", solver="gcd")[0])["machine"]
    opening = page.split("## The paper's claims")[0]
    assert made["cpu"] in opening
    assert f"{made['cores']} cores" in opening
    assert "2 at a time" in opening
    time = page.split(f"## {timing.TITLE}\n")[1].split("\n## ")[0]
    assert "one at a time" in time
    assert "2 at a time" not in time


def test_page_names_cells_with_few_starts(tmp_path, monkeypatch):
    monkeypatch.setattr("reproduce.runs.data_digest", lambda name: name)
    identity.cache_clear()
    wanted = [run for seed in range(30) for solver in ("mu", "gcd")
              for run in pair("mhll", solver=solver, seed=seed)]  # fmt: skip
    store = Store(tmp_path / "runs")
    for run in wanted:
        if run.seed < (20 if run.solver == "mu" else 19):
            made = {"cpu": "c", "cores": 2, "date": "d", "jobs": 2} | dict.fromkeys(VERSIONS, "1")
            store.put(run, {"error": 1.0, "seconds": 1.0, "converged": True}, made)
    assert "starts): MHLL, GCD, k = 1, ε = 0.0001: 19.\n" in opening(store, wanted)
    assert "No cell" in opening(store, [run for run in wanted if run.solver == "mu"])
    identity.cache_clear()


def test_plateau_is_the_papers(page):
    assert "0.7" in page.split(f"## {plateau.TITLE}")[1].split("least of the four: ")[1][:4]
    verdicts = [claim.verdict for claim in plateau.report(None, OPTIONS).claims]
    assert verdicts == [Verdict.HOLDS, Verdict.HOLDS]


def test_equal_time_buys_the_starts_that_fit():
    pool = fair.Contender(np.array([3.0, 2.0, 1.0]), np.array([1.0, 1.0, 1.0]), 1.0)
    error, count = fair.best_in_equal_time(np.array([100.0]), pool)
    assert (error, count) == (1.0, 100.0)
    error, count = fair.best_in_equal_time(np.array([0.5]), pool)
    assert count == 1
    assert 1.8 < error < 2.2


def test_fair_comparison_names_every_data_set_once(page):
    verdicts = page.split(f"## {fair.TITLE}")[1].split("From random starts, NMF-Merge")[1]
    random, default = verdicts.split("From the default start")
    for data in DATA:
        assert random.count(SETS[data].title) == 1
        assert default.count(SETS[data].title) == 1


def test_one_experiment_prints_and_writes_its_table(folder, capsys):
    given = ["--data", "melody", "--starts", "2", "--jobs", "1", "--store", str(folder / "runs")]
    assert main(["table2", *given, "--output", str(folder / "one")]) == 0
    written = (folder / "one" / "table2.md").read_text(encoding="utf-8")
    assert written in capsys.readouterr().out
    assert len(cells(written, ["HALS", "random"])) == 1


def test_missing_data_says_what_to_put_where(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NMFMERGE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    matrix.cache_clear()
    assert (
        main(["table2", "--data", "mhll", "--starts", "1", "--store", str(tmp_path / "runs")]) == 1
    )
    assert "NMFMERGE_DATA" in capsys.readouterr().err


def test_paper_tables_are_complete():
    assert len(paper.TABLE_2) == 4 * 4 * 6
    assert len(paper.TABLE_3) == 6 * 5
    assert paper.TABLE_2["mu", "nndsvd", "ORL"] == ((4.05, 0), (3.90, 0))
    assert paper.TABLE_3["P&F No.1", "final"] == (0.3105, 0.0717)
    assert {data.paper for data in SETS.values() if data.paper} == {key[2] for key in paper.TABLE_2}


def test_generated_sets_are_the_packages():
    np.testing.assert_array_equal(
        matrix("melody"), datasets.melody(33, 40).X / datasets.melody(33, 40).X.max()
    )


def test_a_section_without_runs_stays_as_it_stands_on_the_page(tmp_path):
    page, claims = tmp_path / "RESULTS.md", [Claim("It is fast.", Verdict.PARTLY, "1 of 2")]
    write(page, [Section("Time", ["Some text.", "| a |\n| --- |"], claims=claims), Section("Last")])
    once = kept(page, "Time")
    write(page, [once, Section("Last")])
    again = kept(page, "Time")
    assert again.text() == once.text()
    assert again.claims == claims
    assert "Some text.\n\n| a |" in again.text()
    assert kept(page, "Last").pieces == kept(tmp_path / "none.md", "Time").pieces == []
