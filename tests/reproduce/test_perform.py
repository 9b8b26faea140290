"""Making many runs: nothing is lost, nothing is made twice, and the clock is kept to."""

import os
import subprocess
import sys
import time
from concurrent.futures import Future
from dataclasses import replace
from itertools import pairwise
from multiprocessing import active_children

import numpy as np
import pytest

from reproduce import table2
from reproduce.__main__ import main
from reproduce.one_run import Made, make
from reproduce.pairs import Options
from reproduce.perform import _Schedule, missing, perform
from reproduce.plan import in_order, left_to_do
from reproduce.runs import Run, pair
from reproduce.sets import SETS
from reproduce.store import Store

REPRODUCE = [sys.executable, "-m", "reproduce"]
RUNS = [run for seed in range(3) for run in pair("melody", seed=seed)]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs")


def test_two_processes_give_what_one_gives(store, tmp_path):
    alone = Store(tmp_path / "alone")
    assert perform(RUNS, alone, 1, keep_W=RUNS)
    assert perform(RUNS, store, 2, keep_W=RUNS)
    for run in RUNS:
        ours, theirs = store.get(run), alone.get(run)
        assert ours["error"] == theirs["error"]
        assert ours["error"] == pytest.approx(make(run, _source(run)).record["error"], rel=1e-9)
        assert ours["n_iter"] == theirs["n_iter"]
        np.testing.assert_array_equal(store.factors(run), alone.factors(run))
        assert (ours["machine"]["jobs"], theirs["machine"]["jobs"]) == (2, 1)


def _source(run):
    return run.goes_on_from and make(run.goes_on_from)


def test_runs_made_among_others_are_made_again_alone_and_without_W_again_with_it(store):
    first, second = few = RUNS[:2]
    assert missing([*few, *few], store, 2, keep_W=()) == few
    store.put(first, {}, {"jobs": 2})
    assert missing(few, store, 2, keep_W=()) == [second]
    assert missing(few, store, 2, keep_W=few) == few
    assert missing(few, store, 1, keep_W=()) == few
    store.put(first, {}, {"jobs": 1}, np.ones((33, 3)))
    assert missing(few, store, 1, keep_W=few) == [second]
    assert missing(few, store, 2, keep_W=few) == [second]


def test_a_run_that_does_not_end_in_time_is_given_up(store, capsys):
    endless = Run("melody", "nmf", 3, tol=1e-300)
    before = set(active_children())  # joblib keeps those of other tests
    assert not perform([endless], store, 2, until=time.monotonic() + 3)
    assert not store.has(endless)
    assert "time is up; 1 runs are left" in capsys.readouterr().err
    deadline = time.monotonic() + 20  # processes that were told to end may take a moment
    while set(active_children()) - before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert set(active_children()) <= before


def test_a_killed_process_loses_only_what_it_was_at(tmp_path):
    """Killed in the middle of its runs, then begun again: the store is whole and gets complete."""
    given = ["--data", "melody", "--starts", "2", "--jobs", "2", "--output", str(tmp_path)]
    command = [*REPRODUCE, "table2", *given, "--store", str(tmp_path / "runs")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if line.startswith("[9/"):
            break
    process.kill()
    process.communicate(timeout=60)  # its workers end too, or their end of the pipe stays open
    store = Store(tmp_path / "runs")
    made = {run: store.get(run) for run in _table2() if store.has(run)}
    assert 9 <= len(made) < len(_table2())
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"{len(_table2()) - len(made)} runs to make" in done.stderr
    assert all(store.has(run) for run in _table2())
    assert not list(tmp_path.glob("*.unfinished"))
    assert all(Store(tmp_path / "runs").get(run) == record for run, record in made.items())


def _table2():
    return list(dict.fromkeys(table2.plan(Options(("melody",), 2))))


def test_making_runs_needs_no_plotting_library_and_one_thread(tmp_path):
    """`run` as on a bare machine: nothing to plot with, the package not installed, no history."""
    (tmp_path / "matplotlib.py").write_text("raise ImportError('not on this machine')")
    (tmp_path / "PIL.py").write_text("raise ImportError('not on this machine')")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    given = ["--data", "melody", "--starts", "1", "--jobs", "2", "--minutes", "3"]
    files = ["--store", str(tmp_path / "runs"), "--export", str(tmp_path / "parts")]
    command = [*REPRODUCE, "run", *given, *files]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "left" not in done.stderr
    again = ["--data", "melody", "--starts", "1", "--store", str(tmp_path / "other"), "--stored"]
    status = main(["all", *again, "--import", str(tmp_path / "parts" / "runs-0.sqlite"),
                   "--output", str(tmp_path)])  # fmt: skip
    assert status == 0
    page = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    planned, total = page.split("Numbers of ")[1].split(" planned")[0].split(" runs of ")
    assert planned == total


def test_what_cannot_be_taken_in_is_said(tmp_path, capsys):
    given = ["plan", "--data", "melody", "--store", str(tmp_path / "runs")]
    assert main([*given, "--import", str(tmp_path / "absent")]) == 1
    assert "--import: there is no file" in capsys.readouterr().err


def test_every_cell_gets_a_few_starts_then_twenty_before_any_gets_more():
    runs = [Run(data, "nmf", 3, solver=solver, seed=seed)
            for solver in ("mu", "hals") for data in ("cbcl", "wt15") for seed in range(200)
            if seed < 20 or data != "cbcl"]  # fmt: skip
    runs += [Run("cbcl", "nmf", 3, solver="mu", init="nndsvd")]
    ordered = in_order([*runs, *runs])
    assert sorted(map(str, ordered)) == sorted(map(str, runs))
    position = {run: i for i, run in enumerate(ordered)}
    for few, more in ((3, 20), (20, 200)):
        early = [run for run in runs if run.seed < few]
        late = [run for run in runs if few <= run.seed < more]
        assert max(position[run] for run in early) < min(position[run] for run in late)


def test_what_takes_longest_begins_first_and_grows_last():
    solvers = ("hals", "alspgrad")
    runs = [Run(data, "nmf", 3, solver=solver, seed=seed)
            for data in ("wt15", "orl") for solver in solvers for seed in range(20)]  # fmt: skip
    runs += [Run("orl", "nmf", 3, solver=solver, init="nndsvd") for solver in solvers]
    long = [run.data == "orl" and run.solver == "alspgrad" for run in in_order(runs)]
    small = 2 * 3  # a few starts of two solvers
    assert long == [False] * small + [True] * 2 + [False] * (61 - small) + [True] * 19


def test_runs_from_one_start_stay_together():
    pairs = [pair("melody", seed=seed, extra=extra) for extra in (1, 2) for seed in range(30)]
    runs = [run for both in pairs for run in both]
    starts = [run.start for run in in_order(runs)]
    changes = sum(a != b for a, b in pairwise(starts))
    assert changes == 29


def ended(made):
    future = Future()
    future.set_result(made)
    return future


def test_a_run_goes_on_from_the_standard_one_even_if_that_is_stored():
    standard, merge = pair("melody")
    _, more = pair("melody", extra=2)
    schedule = _Schedule([merge, more])
    assert schedule.next(1.0) == (standard, None)
    assert schedule.next(1.0) is None
    made = Made({}, np.ones((1, 1)), np.ones((1, 1)))
    future = ended(made)
    schedule.running[future] = standard, time.monotonic()
    schedule.end(future)
    assert schedule.next(1.0) == (merge, made)
    assert schedule.next(1.0) == (more, made)
    assert not schedule._ended


def test_a_run_that_would_not_end_in_time_is_not_begun():
    slow, quick = (Run("melody", "nmf", 3, solver=solver) for solver in ("mu", "hals"))
    schedule = _Schedule([slow, replace(slow, seed=1), quick])
    schedule.next(100.0)
    future = ended(None)
    schedule.running[future] = slow, time.monotonic() - 50
    schedule.end(future)
    assert schedule.next(40.0) == (quick, None)
    assert schedule.next(60.0) == (replace(slow, seed=1), None)


def test_a_long_run_on_large_data_is_begun_anyway_and_goes_on_from_its_checkpoint(
    store, tmp_path, monkeypatch
):
    """Melody passes for large data: two calls too short for the run make it together."""
    monkeypatch.setitem(SETS, "melody", replace(SETS["melody"], large=True))
    run = Run("melody", "nmf", 3)
    checkpoints = tmp_path / "unfinished"
    schedule = _Schedule([run, replace(run, seed=1)], checkpoints)
    schedule.next(100.0)
    future = ended(None)
    schedule.running[future] = run, time.monotonic() - 50
    schedule.end(future)
    assert schedule.next(0.0) is None
    assert schedule.next(1.0) == (replace(run, seed=1), None)
    assert schedule.checkpoint(replace(run, method="sklearn")) is None

    file = schedule.checkpoint(run)
    whole = make(run)

    def stop_halfway(trace, progress):
        if progress.iteration == whole.record["n_iter"] // 2:
            raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr("reproduce.one_run.Trace.__call__", stop_halfway)
        patched.setattr("nmfmerge.storage.checkpoint.Checkpoint.due", lambda self: True)
        with pytest.raises(SystemExit):
            make(run, None, file)
    assert file.exists()
    again = make(run, None, file)
    assert again.record["error"] == whole.record["error"]
    assert again.record["n_iter"] == whole.record["n_iter"]
    file.write_bytes(b"damaged")
    assert make(run, None, file).record["error"] == whole.record["error"]


def test_time_left_is_by_the_mean_of_the_runs_of_a_kind(store):
    standard, merge = zip(*(pair("melody", seed=seed) for seed in range(4)), strict=True)
    for run, seconds in ((standard[0], 60), (standard[1], 180), (merge[0], 360)):
        store.put(run, {"seconds": seconds}, {"jobs": 2})
    plans = {"a": [*standard, *merge], "b": [*merge, replace(merge[0], extra=2)]}
    rows = left_to_do(plans, store)
    assert rows[0][3:] == ["3 of 8", f"{2 * 2 + 3 * 5:.1f}"]
    assert rows[1][3:] == ["0 of 1", "0.0 and 1 runs of unknown length"]
    store.put(standard[0], {"seconds": 30}, {"jobs": 1})
    (row,) = left_to_do({"c": list(standard)}, store, alone=True)
    assert row[3:] == ["1 of 4", "1.5"]
