"""What the store keeps of a run, and what comes back from exported files."""

import sqlite3

import numpy as np
import pytest

from nmfmerge import metrics
from reproduce import published
from reproduce.__main__ import main
from reproduce.runs import Run, identity
from reproduce.store import Store

ALONE, AMONG = {"jobs": 1, "cpu": "a"}, {"jobs": 16, "cpu": "b"}
RECORD = {"error": 1.0, "seconds": 2.0, "stages": [], "trace": [["final", 1.0, 2.0]]}


def runs(count):
    return [Run("melody", "nmf", 3, seed=seed) for seed in range(count)]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs")


def test_a_run_made_alone_is_kept_beside_one_made_among_others(store):
    (run,) = runs(1)
    store.put(run, RECORD, AMONG)
    assert store.has(run)
    assert not store.has(run, alone=True)
    assert store.get(run, alone=True) is None
    assert store.get(run)["trace"] == []
    store.put(run, RECORD | {"seconds": 1.0}, ALONE)
    store.put(run, RECORD, AMONG)
    assert store.get(run, alone=True)["seconds"] == 1.0
    assert store.get(run, alone=True)["trace"] == RECORD["trace"]
    assert store.get(run, alone=True)["machine"] == ALONE


@pytest.mark.parametrize(
    ("data", "rows", "bits"), [("melody", 50, 24), ("melody", 1000, 16), ("cbcl", 1000, 8)]
)
def test_W_is_kept_where_asked_as_precise_as_its_use_needs(store, monkeypatch, data, rows, bits):
    """Columns lose their scale, by which no comparison of components is changed."""
    monkeypatch.setattr("reproduce.runs.data_digest", lambda name: "digest")
    identity.cache_clear()
    first, second = Run(data, "nmf", 3), Run(data, "nmf", 3, seed=1)
    W = np.random.default_rng(0).random((rows, 3)) * [1e-9, 1, 1e9]
    W[np.median(W, axis=0) > W] = 0
    store.put(first, RECORD, AMONG, W)
    store.put(second, RECORD, AMONG)
    assert store.has(first, factors=True)
    assert not store.has(second, factors=True)
    assert store.factors(second) is None
    kept = store.factors(first)
    np.testing.assert_allclose(kept, W / W.max(axis=0), rtol=2.0**-bits)
    np.testing.assert_array_equal(kept == 0, W == 0)
    assert metrics.match_components(W, kept)[1].min() > 1 - 2.0**-bits
    identity.cache_clear()


def test_exported_files_hold_everything_in_small_parts(store, tmp_path):
    rng = np.random.default_rng(0)
    for run in runs(12):
        store.put(run, RECORD | {"error": run.seed}, AMONG, rng.random((500, 3)))
    size = 20_000
    paths = store.export(tmp_path / "parts", size)
    assert len(paths) > 3
    assert all(path.stat().st_size < 2 * size + 30_000 for path in paths)
    other = Store(tmp_path / "other")
    assert other.take_in(paths) == 12
    for run in runs(12):
        assert other.get(run) == store.get(run)
        np.testing.assert_array_equal(other.factors(run), store.factors(run))


def test_taking_in_adds_what_is_missing_and_changes_nothing_else(store, tmp_path):
    first, second, third = runs(3)
    for run in (first, second):
        store.put(run, RECORD | {"error": 5.0}, AMONG)
    paths = store.export(tmp_path / "parts")
    other = Store(tmp_path / "other")
    for run in (second, third):
        other.put(run, RECORD | {"error": 7.0}, AMONG)
    assert other.get(first) is None
    assert other.take_in(paths) == 1
    assert other.take_in(paths) == 0
    assert [other.get(run)["error"] for run in runs(3)] == [5.0, 7.0, 7.0]


def test_exporting_again_leaves_no_old_parts(store, tmp_path):
    for run in runs(8):
        store.put(run, RECORD, AMONG, np.random.default_rng(run.seed).random((500, 3)))
    assert len(store.export(tmp_path, 10_000)) > 1
    assert store.export(tmp_path) == [tmp_path / "runs-0.sqlite"]
    assert not (tmp_path / "runs-1.sqlite").exists()


def test_what_is_no_file_of_runs_is_refused_by_name(store, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"--import: there is no file .*absent"):
        store.take_in([tmp_path / "absent"])
    (tmp_path / "text").write_text("not a database, but long enough to be looked at" * 50)
    with pytest.raises(ValueError, match="text is not a file of stored runs"):
        store.take_in([tmp_path / "text"])
    sqlite3.connect(tmp_path / "empty").close()
    with pytest.raises(ValueError, match="empty is not a file of stored runs"):
        store.take_in([tmp_path / "empty"])


def test_what_follows_from_runs_is_computed_once(store):
    calls = []

    def compute():
        calls.append(1)
        return {"a": np.arange(3.0)}

    for _ in range(2):
        np.testing.assert_array_equal(store.derived("x", runs(2), compute)["a"], [0, 1, 2])
    assert len(calls) == 1
    store.derived("x", runs(1), compute)
    assert len(calls) == 2


@pytest.fixture
def both_kinds(store):
    """A store with runs made among others, one of them also alone, and an array made of factors."""
    cells = [Run("melody", method, 3, seed=seed) for method in ("nmf", "merge") for seed in (0, 1)]
    batch = {"batch": {"starts": 2, "seconds": 3.0}, "seconds": None, "trace": []}
    for run in cells:
        record = RECORD | {"error": 1 / (3 + run.seed), "n_iter": 7, "converged": True}
        store.put(run, record | batch, {"cpu": "b", "device": "some GPU"})
    store.put(cells[0], record, ALONE)
    store.derived("mismatches", cells, lambda: {"subspace": np.array([1 / 3, 2e-9])})
    return cells


def test_the_published_file_holds_what_the_page_is_drawn_from(store, both_kinds, tmp_path):
    path, other = tmp_path / "published", Store(tmp_path / "other")
    assert published.write(store, both_kinds, path) == len(both_kinds)
    assert published.read(other, path) == len(both_kinds)
    for run in both_kinds:
        for alone in (False, True):
            ours, theirs = store.get(run, alone=alone), other.get(run, alone=alone)
            assert ours == (theirs and theirs | {"stages": ours["stages"]})
    (kept,) = other.derived("mismatches", both_kinds, dict).values()
    np.testing.assert_allclose(kept, [1 / 3, 2e-9], rtol=1e-3)
    assert published.read(other, path) == 0
    assert published.read(other, tmp_path / "none") == 0


@pytest.mark.parametrize("changed", ["data_digest", "numerics"])
def test_published_runs_of_other_data_or_another_solver_are_left_out(
    store, both_kinds, tmp_path, monkeypatch, changed
):
    published.write(store, both_kinds, tmp_path / "published")
    monkeypatch.setattr(published, changed, lambda name: "another")
    assert published.read(Store(tmp_path / "other"), tmp_path / "published") == 0


def test_published_runs_of_data_that_are_not_here_are_left_out(
    store, both_kinds, tmp_path, monkeypatch
):
    """The data are no part of the repository; whoever has none can still run generated ones."""

    def not_found(name):
        raise FileNotFoundError(name)

    published.write(store, both_kinds, tmp_path / "published")
    monkeypatch.setattr(published, "data_digest", not_found)
    assert published.read(Store(tmp_path / "other"), tmp_path / "published") == 0


@pytest.mark.parametrize("part", [["--data", "melody"], ["--starts", "2"]])
def test_a_part_of_the_page_is_not_published(part, capsys):
    with pytest.raises(SystemExit):
        main(["all", "--publish", *part])
    assert "--publish goes with 'all'" in capsys.readouterr().err
