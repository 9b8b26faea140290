"""Runs made many at once: each is the run that would be made alone, and has no time of its own."""

import re
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from nmfmerge import Status, metrics
from nmfmerge.inputs.check import check_X
from reproduce import batches, consistency, fair, table2, timing, tolerances
from reproduce.__main__ import main
from reproduce.batches import can_make, make_batch, most_starts, perform_on_device, to_make
from reproduce.fair import Contender
from reproduce.one_run import first_factors, make
from reproduce.pairs import Options, Outcomes
from reproduce.plan import left_to_do, own_seconds
from reproduce.runs import Run, pair
from reproduce.sets import matrix
from reproduce.store import Store

STARTS = 3
GIVEN = ["--data", "lcms_like", "--starts", str(STARTS)]
CASES = [
    ("lcms_like", {"solver": "hals", "loose": 1e-4}),
    ("lcms_like", {"solver": "hals", "loose": 1e-2}),
    ("lcms_like", {"solver": "hals", "loose": 1e-4, "rank": 5}),
    ("lcms_like", {"solver": "hals", "loose": 1e-4, "extra": 2}),
    ("melody", {"solver": "mu", "loose": 1e-4}),
    ("lcms_like", {"solver": "gcd", "loose": 1e-4}),
    ("melody", {"solver": "alspgrad", "loose": 1e-4}),
]


def planned(data, settings):
    return [run for seed in range(STARTS) for run in pair(data, seed=seed, **settings)]


def host(name):
    return check_X(matrix(name))


def tensor(name):
    """What a device has, but in the memory of the processor."""
    torch = pytest.importorskip("torch")
    from nmfmerge.inputs.tensors import device_matrix

    return device_matrix(torch.from_numpy(np.ascontiguousarray(matrix(name))), False)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs")


@pytest.fixture(scope="module")
def made_alone():
    """Runs as processes make them: NMF-Merge goes on from the standard run where it can."""
    known = {}

    def get(run):
        if run not in known:
            known[run] = make(run, run.goes_on_from and get(run.goes_on_from))
        return known[run]

    return get


@pytest.mark.parametrize("kind", [host, pytest.param(tensor, marks=pytest.mark.tensors)])
@pytest.mark.parametrize(("data", "settings"), CASES)
def test_a_batch_stores_what_single_runs_give(data, settings, kind, store, made_alone, monkeypatch):
    monkeypatch.setattr(batches, "check_X", lambda X, device: kind(data))
    runs = planned(data, settings)
    assert perform_on_device(runs, store, "cpu", keep_W=runs)
    for run in runs:
        ours, theirs = store.get(run), made_alone(run)
        assert ours["error"] == pytest.approx(theirs.record["error"], rel=1e-6)
        assert ours["n_iter"] == theirs.record["n_iter"]
        assert ours["converged"]
        assert _without_times(ours["stages"]) == _without_times(theirs.record["stages"])
        W = theirs.W / theirs.W.max(axis=0)
        np.testing.assert_allclose(store.factors(run), W, atol=1e-4)


def _without_times(stages):
    return [
        (stage["name"], stage["n_iter"], pytest.approx(stage["error"], rel=1e-6))
        for stage in stages
    ]


def test_batches_begin_with_the_factors_that_single_runs_begin_with():
    """Scaled data: the unit that the library takes off X must not shift the start."""
    X = 1000 * matrix("melody")
    run = Run("melody", "nmf", 3, seed=4)
    W, H = first_factors(run, check_X(X))
    from nmfmerge import nmf

    with pytest.warns(match="had not converged"):
        ours = nmf(X, 3, solver="hals", init=(W, H), max_iter=3)
    with pytest.warns(match="had not converged"):
        theirs = nmf(X, 3, solver="hals", init="random", random_state=4, max_iter=3)
    order, _ = metrics.match_components(ours.W, theirs.W)
    np.testing.assert_array_equal(ours.W, theirs.W[:, order])


def test_a_batch_that_does_not_fit_in_memory_is_made_in_parts(store, tmp_path, monkeypatch, capsys):
    runs = planned(*CASES[0])
    whole = Store(tmp_path / "whole")
    assert perform_on_device(runs, whole, "cpu")
    assert whole.get(runs[0])["batch"]["starts"] == STARTS
    two = 2 * batches.ARRAYS * 8 * (6 + 1) * sum(matrix("lcms_like").shape)
    monkeypatch.setattr(batches, "HOST_BYTES", two)
    assert most_starts(runs[1], two) == 2
    assert perform_on_device(runs, store, "cpu")
    assert [store.get(run)["batch"]["starts"] for run in runs[1::2]] == [2, 2, 1]
    for run in runs:
        assert store.get(run)["error"] == pytest.approx(whole.get(run)["error"], rel=1e-6)


def test_a_device_makes_every_start_of_the_table_and_nothing_whose_time_counts():
    options = Options(("melody", "cbcl"))
    assert not any(map(can_make, fair.plan(options)))
    made = table2.plan(options)
    assert all(map(can_make, made))
    per_cell = Counter((run.data, run.solver, run.method, run.init) for run in made)
    assert len(per_cell) == 2 * 4 * 2 * 4
    assert all(n == (200 if init == "random" else 1) for (*_, init), n in per_cell.items())
    assert len(consistency.compared(Options(("cbcl",)))) == 2 * 20


def test_what_is_stored_is_not_made_again(store, capsys):
    runs = planned(*CASES[0])
    for run in (runs[0], runs[1], runs[2]):
        store.put(run, {"error": -1.0, "seconds": 1.0}, {"jobs": 2})
    assert to_make(runs, store) == runs[3:]
    assert perform_on_device(runs, store, "cpu")
    assert [store.get(run)["error"] for run in runs[:3]] == [-1.0] * 3
    assert store.get(runs[3])["error"] > 0
    capsys.readouterr()
    assert perform_on_device(runs, store, "cpu")
    assert capsys.readouterr().err == ""


def test_cells_of_the_table_come_first_and_those_that_take_longest_last(store):
    store.has = lambda *_, **__: False
    wanted = [
        *pair("melody"), pair("melody", extra=2)[1], *pair("cbcl"), pair("melody", loose=1e-2)[1],
        *pair("melody", rank=2), *pair("cbcl", solver="mu"),
    ]  # fmt: skip
    rank, mu, cbcl, loose = wanted[6:8], wanted[8:], wanted[3:5], wanted[5]
    shuffled = [*rank, *mu, wanted[0], *cbcl, loose, wanted[1], wanted[2]]
    assert to_make(shuffled, store) == wanted


def test_a_batch_of_which_nothing_ends_in_time_stores_nothing(store, capsys):
    endless = [Run("melody", "nmf", 3, solver="mu", tol=1e-300, seed=seed) for seed in range(2)]
    quick = planned(*CASES[0])
    assert perform_on_device(quick, store, "cpu")  # compiles
    assert not perform_on_device([*quick, *endless], store, "cpu", until=time.monotonic() + 1)
    assert all(store.has(run) for run in quick)
    assert not any(store.has(run) for run in endless)
    assert "time is up; 2 runs are left" in capsys.readouterr().err
    assert make_batch(endless, host("melody"), [], until=time.monotonic() - 1) == []


def test_a_batch_that_is_cut_off_keeps_what_has_converged(store, monkeypatch):
    """What goes on from the others is not begun, and nothing is taken for another start."""
    runs = planned(*CASES[0])
    whole = batches.nmf

    def cut_off(*given, **options):
        result = whole(*given, **options)
        late = replace(result.solutions[1], status=Status.MAX_TIME)
        return replace(result, solutions=(result.solutions[0], late, result.solutions[2]))

    monkeypatch.setattr(batches, "nmf", cut_off)
    assert not perform_on_device(runs, store, "cpu")
    assert [store.has(run) for run in runs] == [True, True, False, False, True, True]
    monkeypatch.setattr(batches, "nmf", whole)
    assert perform_on_device(runs, store, "cpu")
    assert len({store.get(run)["error"] for run in runs[::2]}) > 1
    for run in runs:
        assert store.get(run)["error"] == pytest.approx(
            make(run).record["error"], rel=run.tol
        )  # by the tolerance at which starts stop


def test_what_was_made_before_an_error_is_exported(tmp_path, monkeypatch):
    made = []

    def fail_at_third(*given):
        if len(made) == 2:
            raise MemoryError
        made.append(given[0])
        return make_batch(*given)

    monkeypatch.setattr(batches, "make_batch", fail_at_third)
    files = ["--store", str(tmp_path / "runs"), "--export", str(tmp_path / "parts")]
    with pytest.raises(MemoryError):
        main(["table2", *GIVEN, *files, "--device", "cpu"])
    other = Store(tmp_path / "other")
    assert other.take_in([tmp_path / "parts" / "runs-0.sqlite"]) == sum(map(len, made))


def test_runs_of_a_batch_have_no_times_and_sections_on_time_leave_them_out(store):
    runs = planned(*CASES[0])
    assert perform_on_device(runs, store, "cpu")
    record = store.get(runs[1])
    assert record["seconds"] is None
    assert record["trace"] == []
    assert {stage["seconds"] for stage in record["stages"]} == {None}
    assert not store.has(runs[1], alone=True)
    pairs = timing.pairs(Options(("lcms_like",), STARTS), "lcms_like", 1e-4)
    assert len(Outcomes.stored(store, pairs)) == STARTS
    assert len(Outcomes.stored(store, pairs, alone=True)) == 0
    assert Contender.stored(store, runs) is None
    assert own_seconds(runs[1], record, store) == 0
    (row,) = left_to_do({"a": [*runs, *pair("lcms_like", seed=9)]}, store)
    assert row[3:] == ["6 of 8", "0.0 and 2 runs of unknown length"]


def test_time_of_a_single_run_after_a_batch_is_whole(store):
    """A process that goes on from a standard run makes it anew if a batch has made it before."""
    standard, merge = pair("lcms_like")
    assert perform_on_device([standard], store, "cpu")
    store.put(merge, {"seconds": 7.0}, {"jobs": 2})
    assert own_seconds(merge, store.get(merge), store) == 7.0
    store.put(standard, {"seconds": 3.0}, {"jobs": 2})
    assert own_seconds(merge, store.get(merge), store) == 4.0


def test_the_page_counts_them_and_says_where_they_were_made(tmp_path, monkeypatch, capsys):
    """Made elsewhere, carried over in files, put beside runs of processes: one page of both."""
    there, here = tmp_path / "there", tmp_path / "here"
    monkeypatch.setattr(batches, "describe", lambda device: {"device": "GPU 9", "torch": "2.0"})
    given = ["--data", "melody", "--starts", str(STARTS)]
    away = ["--store", str(there), "--export", str(tmp_path / "parts")]
    assert main(["run", *given, *away, "--device", "cpu"]) == 0
    options = Options(("melody",), STARTS)
    plan = {run for module in (table2, consistency, tolerances) for run in module.plan(options)}
    store = Store(there)
    assert all(store.has(run) == can_make(run) for run in plan)
    assert all(store.has(run, factors=True) for run in consistency.compared(options))

    assert (
        main(["fair", *given, "--store", str(here), "--jobs", "2", "--output", str(tmp_path)]) == 0
    )
    page = tmp_path / "RESULTS.md"
    stored = ["all", *given, "--store", str(here), "--output", str(tmp_path), "--stored"]
    assert main(stored) == 0
    before = page.read_text(encoding="utf-8")
    assert "at once" not in before.split("## ")[0]
    assert main([*stored, "--import", str(tmp_path / "parts" / "runs-0.sqlite")]) == 0
    text = page.read_text(encoding="utf-8")
    made = store._count()
    assert re.search(
        rf"{made} of the runs were made many at once on GPU 9, in [\d.]+ minutes", text
    )
    assert re.search(rf"- GPU 9 \(.*torch 2.0: {made} runs, many starts at once", text)
    assert _section(text, fair.TITLE) == _section(before, fair.TITLE)
    capsys.readouterr()
    assert main(["plan", *given, "--store", str(here), "--device", "cuda"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1  # nothing is left to make


def _section(page, title):
    return page.split(f"## {title}\n")[1].split("\n## ")[0]


def test_what_a_device_has_to_make_is_shown_by_kind(tmp_path, capsys):
    assert main(["plan", *GIVEN, "--store", str(tmp_path / "runs"), "--device", "cuda"]) == 0
    lines = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert ["generated LC-MS", "hals", "merge", "6", "1", "0.0001", "6 of 6"] in cells
    assert ["generated LC-MS", "gcd", "nmf", "6", "0", "0", "6 of 6"] in cells


def test_a_device_that_is_not_there_is_said(tmp_path, capsys):
    given = ["run", *GIVEN, "--store", str(tmp_path / "runs")]
    assert main([*given, "--device", "nowhere"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("reproduce: --device nowhere ")
    assert "device=" not in said
